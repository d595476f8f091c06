"""A planner that looks up two cities at once and calls a writer as a tool, in Microsoft's Agent Framework, traced by its own spans."""

import asyncio
import os

from agent_framework import Agent
from agent_framework.observability import enable_sensitive_telemetry
from agent_framework.openai import OpenAIChatCompletionClient
from spans import provider

enable_sensitive_telemetry()
client = OpenAIChatCompletionClient(model="made-up", base_url=os.environ["MODEL_URL"], api_key="none")


def look_up(city: str) -> str:
    """Look up a city."""
    return f"{city} is far"


writer = Agent(client, name="writer")
hand_over = writer.as_tool(name="transfer_to_writer", description="Let the writer write.")
planner = Agent(client, name="planner", tools=[look_up, hand_over])
asyncio.run(planner.run("How far are Bern and Rome?"))
provider.shutdown()
