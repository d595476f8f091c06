"""The team by Anthropic's SDK, which has spans of its own; the program names its agents and tools in spans of the GenAI conventions."""

import json

import anthropic_team as team
from opentelemetry import trace
from spans import provider

tracer = trace.get_tracer("team")
look_up = team.look_up


def agent(name):
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
    return tracer.start_as_current_span(f"invoke_agent {name}", attributes=attributes)


def traced_look_up(city):
    with tracer.start_as_current_span("execute_tool look_up") as span:
        result = look_up(city)
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", "look_up")
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"city": city}))
        span.set_attribute("gen_ai.tool.call.result", result)
        return result


team.look_up = traced_look_up
with tracer.start_as_current_span("team"):
    with agent("planner"):
        messages = team.plan()
    with agent("writer"):
        team.write(messages)
provider.shutdown()
