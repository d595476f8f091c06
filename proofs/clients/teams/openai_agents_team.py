"""A planner that looks up two cities at once and hands off to a writer, in the OpenAI Agents SDK."""

import asyncio
import os

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_trace_processors
from agents.tracing.processors import BackendSpanExporter, BatchTraceProcessor
from openai import AsyncOpenAI

exporter = BackendSpanExporter(api_key="none", endpoint=f"{os.environ['TROUPE_URL']}/v1/traces/ingest")
processor = BatchTraceProcessor(exporter)
set_trace_processors([processor])


@function_tool
def look_up(city: str) -> str:
    """Look up a city."""
    return f"{city} is far"


model = OpenAIChatCompletionsModel(
    model="made-up", openai_client=AsyncOpenAI(base_url=os.environ["MODEL_URL"], api_key="none")
)
writer = Agent(name="writer", model=model)
planner = Agent(name="planner", model=model, tools=[look_up], handoffs=[writer])
asyncio.run(Runner.run(planner, "How far are Bern and Rome?"))
processor.force_flush()
