"""A planner that looks up two cities at once and hands off to a writer, in AutoGen, traced by its own spans and those of its client."""

import asyncio
import os

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import TextMessageTermination
from autogen_agentchat.teams import Swarm
from autogen_core.models import ModelInfo
from autogen_ext.models.openai import OpenAIChatCompletionClient
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from spans import provider  # shut down at exit

OpenAIInstrumentor().instrument(tracer_provider=provider)


def look_up(city: str) -> str:
    """Look up a city."""
    return f"{city} is far"


info = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False)
model = OpenAIChatCompletionClient(
    model="made-up", base_url=os.environ["MODEL_URL"], api_key="none", model_info=info
)
planner = AssistantAgent("planner", model_client=model, tools=[look_up], handoffs=["writer"], max_tool_iterations=5)
writer = AssistantAgent("writer", model_client=model)
team = Swarm([planner, writer], termination_condition=TextMessageTermination("writer"), max_turns=6)
asyncio.run(team.run(task="How far are Bern and Rome?"))
