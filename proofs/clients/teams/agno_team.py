"""A planner that looks up two cities at once and delegates to a member, a writer, in a team of Agno, traced by OpenInference."""

import os

from agno.agent import Agent
from agno.models.openai.like import OpenAILike
from agno.team import Team
from openinference.instrumentation.agno import AgnoInstrumentor
from spans import provider

AgnoInstrumentor().instrument()


def model():
    return OpenAILike(id="made-up", base_url=os.environ["MODEL_URL"], api_key="none")


def look_up(city: str) -> str:
    """Look up a city."""
    return f"{city} is far"


writer = Agent(name="writer", model=model(), telemetry=False)
planner = Team(name="planner", model=model(), members=[writer], tools=[look_up], telemetry=False)
planner.run("How far are Bern and Rome?")
provider.shutdown()
