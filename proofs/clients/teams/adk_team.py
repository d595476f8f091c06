"""A planner that looks up two cities at once and hands over to a writer, in Google's ADK, traced by its own spans."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from spans import provider


def look_up(city: str) -> str:
    """Look up a city."""
    return f"{city} is far"


writer = LlmAgent(name="writer", model="gemini-made-up", description="Writes.")
planner = LlmAgent(name="planner", model="gemini-made-up", tools=[look_up], sub_agents=[writer])
runner = InMemoryRunner(agent=planner, app_name="team")
asyncio.run(runner.run_debug("How far are Bern and Rome?", quiet=True))
provider.shutdown()
