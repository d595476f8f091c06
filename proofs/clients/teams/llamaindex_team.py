"""A planner that looks up two cities at once and hands off to a writer, in LlamaIndex, traced by OpenInference."""

import asyncio
import os

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from spans import provider

LlamaIndexInstrumentor().instrument(tracer_provider=provider)


def look_up(city: str) -> str:
    """Look up a city."""
    return f"{city} is far"


model = OpenAILike(
    model="made-up",
    api_base=os.environ["MODEL_URL"],
    api_key="none",
    is_chat_model=True,
    is_function_calling_model=True,
)
planner = FunctionAgent(
    name="planner", description="Plans.", tools=[look_up], llm=model, can_handoff_to=["writer"]
)
writer = FunctionAgent(name="writer", description="Writes.", tools=[], llm=model, can_handoff_to=[])


async def main():
    await AgentWorkflow(agents=[planner, writer], root_agent="planner").run(user_msg="How far are Bern and Rome?")


asyncio.run(main())
provider.shutdown()
