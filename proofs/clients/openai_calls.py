"""Calls of the OpenAI client through the gateway, one line of JSON each: what it was, and what the client made of the answer."""

import json
import os

import openai

GATEWAY, TROUPE_KEY = os.environ["GATEWAY"], os.environ["TROUPE_KEY"]
MESSAGES = [{"role": "user", "content": "hello"}]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]


def client(name, api_key=TROUPE_KEY):
    base_url = f"{GATEWAY}/e/py-{name}/a/py-agent-{name}/v1"
    return openai.OpenAI(base_url=base_url, api_key=api_key, max_retries=0)


def chat(ai, **more):
    return ai.chat.completions.create(**{"model": "echo", "messages": MESSAGES, **more})


def streamed(ai):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chat(ai, stream=True) if chunk.choices)


def tools(ai):
    with ai.chat.completions.stream(model="tools", messages=MESSAGES, tools=TOOLS) as stream:
        for _ in stream:
            pass
        call = stream.get_final_completion().choices[0].message.tool_calls[0]
    return [call.function.name, call.function.arguments]


def responses_streamed(ai):
    events = ai.responses.create(model="echo", input="hi", stream=True)
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


def failure(ai, model):
    try:
        chat(ai, model=model)
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code]
    return "no failure"


def models(ai):
    names = [model.id for model in ai.models.list()]
    return "echo" in names and "policy:team" in names


def policy(ai):
    asked = [{"role": "user", "content": "one two"}]
    answer = chat(ai, model="policy:team", messages=asked, max_tokens=3, seed=1)
    return "string" if isinstance(answer.choices[0].message.content, str) else "none"


def headers(_):
    context = {"Troupe-Episode": "py-headers", "Troupe-Agent": "py-agent-headers", "Troupe-Key": TROUPE_KEY}
    ai = openai.OpenAI(
        base_url=f"{GATEWAY}/v1", api_key="sk-of-the-caller", max_retries=0, default_headers=context
    )
    return chat(ai).choices[0].message.content


CASES = {
    "chat": lambda ai: chat(ai).choices[0].message.content,
    "streamed": streamed,
    "both": lambda ai: [choice.message.content for choice in chat(ai, n=2).choices],
    "tools": tools,
    "text": lambda ai: ai.completions.create(model="echo", prompt="one").choices[0].text,
    "responses": lambda ai: ai.responses.create(model="echo", input="hi").output_text,
    "responses-streamed": responses_streamed,
    "embeddings": lambda ai: ai.embeddings.create(model="echo", input="a", encoding_format="float").data[0].embedding,
    "models": models,
    "wrong-key": lambda ai: failure(ai, "wrong-key"),
    "busy": lambda ai: failure(ai, "busy"),
    "broken": lambda ai: failure(ai, "broken"),
    "policy": policy,
    "headers": headers,
    "no-key": lambda _: failure(client("no-key", "sk-of-the-caller"), "echo"),
}

for name, call in CASES.items():
    try:
        result = call(client(name))
    except Exception as error:  # every case has a line, whatever becomes of it
        result = f"failed: {error}"
    print(json.dumps({"name": name, "result": result}), flush=True)
