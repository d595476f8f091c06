"""A planner that looks up two cities at once and asks a writer by a tool, in pydantic-ai, traced by logfire."""

import asyncio
import os

import logfire
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

exporter = OTLPSpanExporter(endpoint=f"{os.environ['TROUPE_URL']}/v1/traces")
logfire.configure(send_to_logfire=False, console=False, additional_span_processors=[BatchSpanProcessor(exporter)])
logfire.instrument_pydantic_ai()

model = OpenAIChatModel("made-up", provider=OpenAIProvider(base_url=os.environ["MODEL_URL"], api_key="none"))
writer = Agent(model, name="writer")
planner = Agent(model, name="planner")


@planner.tool_plain
def look_up(city: str) -> str:
    """Look up a city."""
    return f"{city} is far"


@planner.tool_plain
async def transfer_to_writer() -> str:
    """Let the writer write."""
    return (await writer.run("Write it down.")).output


asyncio.run(planner.run("How far are Bern and Rome?"))
logfire.force_flush()
