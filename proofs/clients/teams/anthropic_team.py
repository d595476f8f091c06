"""A planner that calls a tool twice at once and hands over to a writer, by Anthropic's SDK alone. BASE_URL may hold `{agent}`."""

import os

from anthropic import Anthropic

QUESTION = {"role": "user", "content": "How far are Bern and Rome?"}
TOOLS = [
    {
        "name": "look_up",
        "description": "Look up a city.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    {"name": "transfer_to_writer", "description": "Hand over to the writer.", "input_schema": {"type": "object"}},
]


def client(agent):
    return Anthropic(base_url=os.environ["BASE_URL"].format(agent=agent), api_key="none")


def look_up(city):
    return f"{city} is far"


def results_of(answer):
    calls = [block for block in answer.content if block.type == "tool_use"]
    results = [look_up(**call.input) if call.name == "look_up" else "Handed over." for call in calls]
    return [{"type": "tool_result", "tool_use_id": call.id, "content": result} for call, result in zip(calls, results)]


def plan(look_up_results=results_of):
    messages = [QUESTION]
    while True:
        answer = client("planner").messages.create(model="made-up", max_tokens=64, messages=messages, tools=TOOLS)
        messages += [{"role": "assistant", "content": answer.content}]
        messages += [{"role": "user", "content": look_up_results(answer)}]
        if any(block.type == "tool_use" and block.name == "transfer_to_writer" for block in answer.content):
            return messages


def write(messages):
    with client("writer").messages.stream(model="made-up", max_tokens=64, messages=messages) as stream:
        return stream.get_final_text()


if __name__ == "__main__":
    write(plan())
