"""The team by Anthropic's SDK, traced by OpenInference; the program names its agents and tools in spans of its own."""

import anthropic_team as team
from openinference.instrumentation import OITracer, TraceConfig
from openinference.instrumentation.anthropic import AnthropicInstrumentor
from opentelemetry import trace
from spans import provider

AnthropicInstrumentor().instrument(tracer_provider=provider)
tracer = OITracer(trace.get_tracer("team"), TraceConfig())
team.look_up = tracer.tool(team.look_up)


@tracer.agent(name="planner")
def plan():
    return team.plan()


@tracer.agent(name="writer")
def write(messages):
    return team.write(messages)


@tracer.chain(name="team")
def run():
    write(plan())


run()
provider.shutdown()
