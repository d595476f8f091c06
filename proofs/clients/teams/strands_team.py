"""A planner that looks up two cities at once and calls a writer as a tool, in Strands Agents, traced by its own spans."""

import os

from spans import provider
from strands import Agent, tool
from strands.models.openai import OpenAIModel


def model():
    return OpenAIModel(client_args={"base_url": os.environ["MODEL_URL"], "api_key": "none"}, model_id="made-up")


@tool
def look_up(city: str) -> str:
    """Look up a city."""
    return f"{city} is far"


writer = Agent(model=model(), name="writer", callback_handler=None)
hand_over = writer.as_tool(name="transfer_to_writer", description="Let the writer write.")
planner = Agent(model=model(), name="planner", tools=[look_up, hand_over], callback_handler=None)
planner("How far are Bern and Rome?")
provider.shutdown()
