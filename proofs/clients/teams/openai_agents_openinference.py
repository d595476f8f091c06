"""The team in the OpenAI Agents SDK, traced by OpenInference, with the Responses API."""

import asyncio
import os

from agents import Agent, OpenAIResponsesModel, Runner, function_tool
from openai import AsyncOpenAI
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from spans import provider

OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)


@function_tool
def look_up(city: str) -> str:
    """Look up a city."""
    return f"{city} is far"


model = OpenAIResponsesModel(
    model="made-up", openai_client=AsyncOpenAI(base_url=os.environ["MODEL_URL"], api_key="none")
)
writer = Agent(name="writer", model=model)
planner = Agent(name="planner", model=model, tools=[look_up], handoffs=[writer])
asyncio.run(Runner.run(planner, "How far are Bern and Rome?"))
provider.shutdown()
