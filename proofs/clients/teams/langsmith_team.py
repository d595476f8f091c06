"""A planner that looks up two cities at once and hands over to a writer, in a program of its own, traced by LangSmith's decorators."""

import json
import os

from langsmith import Client, traceable
from langsmith.wrappers import wrap_openai
from openai import OpenAI

client = Client(api_url=os.environ["TROUPE_URL"], api_key="none")
model = wrap_openai(OpenAI(base_url=os.environ["MODEL_URL"], api_key="none"))


@traceable(run_type="tool", client=client)
def look_up(city):
    return f"{city} is far"


@traceable(run_type="tool", client=client)
def transfer_to_writer():
    return "Handed over."


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    {"type": "function", "function": {"name": "look_up", "parameters": CITY}},
    {"type": "function", "function": {"name": "transfer_to_writer", "parameters": {"type": "object", "properties": {}}}},
]
RUN = {"look_up": look_up, "transfer_to_writer": transfer_to_writer}


@traceable(name="planner", metadata={"agent_name": "planner"}, client=client)
def plan(messages):
    while True:
        extra = {"metadata": {"agent_name": "planner"}}
        answer = model.chat.completions.create(model="made-up", messages=messages, tools=TOOLS, langsmith_extra=extra)
        message = answer.choices[0].message
        messages = [*messages, message.model_dump(exclude_none=True)]
        for call in message.tool_calls:
            result = RUN[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        if call.function.name == "transfer_to_writer":
            return messages


@traceable(name="writer", client=client)
def write(messages):
    extra = {"metadata": {"agent_name": "writer"}}
    return model.chat.completions.create(model="made-up", messages=messages, langsmith_extra=extra).choices[0].message.content


@traceable(name="team", client=client)
def run(question):
    return write(plan([{"role": "user", "content": question}]))


run("How far are Bern and Rome?")
client.flush()
