"""A planner that looks up two cities at once and calls a writer, its managed agent, in smolagents, traced by OpenInference."""

import os

from openinference.instrumentation.smolagents import SmolagentsInstrumentor
from smolagents import OpenAIModel, ToolCallingAgent, tool
from spans import provider

SmolagentsInstrumentor().instrument(tracer_provider=provider)


@tool
def look_up(city: str) -> str:
    """Look up a city.

    Args:
        city: Its name.
    """
    return f"{city} is far"


model = OpenAIModel(model_id="made-up", api_base=os.environ["MODEL_URL"], api_key="none")
writer = ToolCallingAgent(tools=[], model=model, name="writer", description="Writes.", verbosity_level=0)
planner = ToolCallingAgent(tools=[look_up], model=model, name="planner", managed_agents=[writer], verbosity_level=0)
planner.run("How far are Bern and Rome?")
provider.shutdown()
