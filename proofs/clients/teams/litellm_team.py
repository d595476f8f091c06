"""A planner that looks up two cities at once and hands over to a writer, by LiteLLM's SDK. It names agents and tools in spans of its own."""

import json
import os

import litellm
from opentelemetry import propagate, trace

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    {"type": "function", "function": {"name": "look_up", "parameters": CITY}},
    {"type": "function", "function": {"name": "transfer_to_writer", "parameters": {"type": "object", "properties": {}}}},
]


tracer = trace.get_tracer("team")


def agent(name):
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
    return tracer.start_as_current_span(f"invoke_agent {name}", attributes=attributes)


def traced(tool, **given):
    with tracer.start_as_current_span(f"execute_tool {tool.__name__}") as span:
        result = tool(**given)
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", tool.__name__)
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps(given))
        span.set_attribute("gen_ai.tool.call.result", result)
        return result


def look_up(city):
    return f"{city} is far"


def transfer_to_writer():
    return "Handed over."


def ask(messages, **more):
    headers = {}
    propagate.inject(headers)
    to = {"model": "openai/made-up", "api_base": os.environ["BASE_URL"], "api_key": "sk-none", "extra_headers": headers}
    return litellm.completion(messages=messages, **to, **more).choices[0].message


def plan():
    messages = [{"role": "user", "content": "How far are Bern and Rome?"}]
    while True:
        message = ask(messages, tools=TOOLS)
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            result = traced(globals()[call.function.name], **json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        if call.function.name == "transfer_to_writer":
            return messages


def write(messages):
    return ask(messages).content


def run():
    with tracer.start_as_current_span("team"):
        with agent("planner"):
            messages = plan()
        with agent("writer"):
            write(messages)
