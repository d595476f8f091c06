"""A planner that looks up two cities at once and calls a writer as a tool, in AG2, traced by its own spans."""

import asyncio
import os

from ag2 import Agent, tool
from ag2.config import OpenAIConfig
from ag2.middleware import TelemetryMiddleware
from spans import provider

model = OpenAIConfig(model="made-up", base_url=os.environ["MODEL_URL"], api_key="none")


def traced(name):
    return [TelemetryMiddleware(tracer_provider=provider, agent_name=name, model_name="made-up")]


@tool
def look_up(city: str) -> str:
    """Look up a city."""
    return f"{city} is far"


writer = Agent("writer", config=model, middleware=traced("writer"))
hand_over = writer.as_tool(description="Let the writer write.", name="transfer_to_writer")
planner = Agent("planner", config=model, tools=[look_up, hand_over], middleware=traced("planner"))
asyncio.run(planner.ask("How far are Bern and Rome?"))
provider.shutdown()
