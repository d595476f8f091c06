"""A planner that looks up two cities at once and delegates to a writer, in CrewAI, traced by OpenInference."""

import os

from openinference.instrumentation.crewai import CrewAIInstrumentor
from openinference.instrumentation.openai import OpenAIInstrumentor
from spans import provider

CrewAIInstrumentor().instrument(tracer_provider=provider)
OpenAIInstrumentor().instrument(tracer_provider=provider)

from crewai import LLM, Agent, Crew, Task  # noqa: E402
from crewai.tools import tool  # noqa: E402


@tool("look_up")
def look_up(city: str) -> str:
    """Look up a city."""
    return f"{city} is far"


model = LLM(model="openai/made-up", base_url=os.environ["MODEL_URL"], api_key="none")
planner = Agent(role="planner", goal="Plan.", backstory="Plans.", llm=model, tools=[look_up], allow_delegation=True)
writer = Agent(role="writer", goal="Write.", backstory="Writes.", llm=model)
task = Task(description="How far are Bern and Rome?", expected_output="A sentence.", agent=planner)
Crew(agents=[planner, writer], tasks=[task]).kickoff()
provider.shutdown()
