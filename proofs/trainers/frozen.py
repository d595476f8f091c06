"""What a frozen dataset says that a trainer should learn: of each row the messages before its answer, its answer and its tools.

Read from the JSON Lines of the dataset itself, by the chat template below, so that nothing of Troupe's layouts stands between.
"""

import json
import os
from collections import Counter

# Reads the same turn by turn, which verl demands.
TEMPLATE = """
{%- if tools %}<|im_start|>tools
{{ tools | tojson }}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}<call>{{ call.function.name }} {{ call.function.arguments | tojson(sort_keys=true) }}</call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def rows(directory, *, said=False):
    """By split: of each row its messages, the last of which is the answer, its tools and the right answer.

    With `said`, what an agent was sent back of its own answers has the thoughts that it had; else they stand as they were sent.
    """
    found = {}
    for split in ("train", "held_out"):
        with open(os.path.join(directory, f"{split}.jsonl"), encoding="utf-8") as lines:
            read = [json.loads(line) for line in lines]
        found[split] = [turn(row) for row in read]
        if said:
            with_thoughts(read, found[split])
    return found


def with_thoughts(read, turns):
    """Gives the answers that stand in prompts the thoughts that they had, each among those of its agent and episode."""
    known = {}
    for row, of in zip(read, turns):
        for message in of["messages"]:
            key = compact([row["episode_id"], row["agent"], message["role"], message["content"], message["tool_calls"]])
            if message is of["messages"][-1]:
                known[key] = message["reasoning_content"]
            elif not message["reasoning_content"]:
                message["reasoning_content"] = known.get(key)


def turn(row):
    messages = [chat_message(message) for message in row["prompt"]]
    if row["system"] is not None and not any(message["role"] == "system" for message in messages):
        messages.insert(0, {"role": "system", "content": row["system"], "reasoning_content": None, "tool_calls": []})
    parts = [{"type": "text", "content": row["text"]}] if row["content"] is None else json.loads(row["content"])
    texts = [part["content"] for part in parts if part["type"] == "text"]
    calls = [
        call(part["name"], part.get("arguments_raw", part["arguments"])) for part in parts if part["type"] == "tool_call"
    ]
    thoughts = [part["content"] for part in parts if part["type"] == "reasoning"]
    answer = {"role": "assistant", "content": "\n".join(texts), "reasoning_content": "\n".join(thoughts) or None}
    answer["tool_calls"] = calls
    truth = None if row["ground_truth"] is None else json.loads(row["ground_truth"])
    return {"messages": [*messages, answer], "tools": row["tools"], "truth": truth}


def chat_message(message):
    """A message of the chat API, of parts the text."""
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content if part["type"] == "text")
    calls = [call(one["function"]["name"], one["function"]["arguments"]) for one in message.get("tool_calls") or []]
    thoughts = message.get("reasoning_content")
    return {"role": message["role"], "content": content or "", "reasoning_content": thoughts, "tool_calls": calls}


def call(name, arguments):
    """Arguments as the text that was written."""
    return {"function": {"name": name, "arguments": arguments if isinstance(arguments, str) else compact(arguments)}}


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def object_of(text):
    """An object where the text is one, else the text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict) else text


def with_objects(message):
    calls = [
        {"function": {"name": one["function"]["name"], "arguments": object_of(one["function"]["arguments"])}}
        for one in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def rendered(tokenizer, turn, *, tools=True):
    """The text before the answer of a row, and that of the answer with its end. Arguments are objects where they can be."""
    messages = [with_objects(message) for message in turn["messages"]]
    more = {"tools": turn["tools"] if tools else None, "tokenize": False}
    before = tokenizer.apply_chat_template(messages[:-1], add_generation_prompt=True, **more)
    whole = tokenizer.apply_chat_template(messages, **more)
    assert whole.startswith(before)
    return before, whole[len(before) :].rstrip("\n")


def segments(tokenizer, ids, learnt):
    """What is learnt of a sequence: each run of learnt tokens, after the text before it."""
    found, start = [], None
    for i, is_learnt in enumerate([*learnt, False]):
        if is_learnt and start is None:
            start = i
        elif not is_learnt and start is not None:
            found.append((tokenizer.decode(ids[:start]), tokenizer.decode(ids[start:i]).rstrip("\n")))
            start = None
    return found


def compared(expected, found):
    """Whether a trainer has just what was frozen, however often each, and the first that differs on either side."""
    want, got = Counter(map(compact, expected)), Counter(map(compact, found))
    missing, more = [*(want - got).elements()], [*(got - want).elements()]
    return {
        "rows": len(found),
        "missing": len(missing),
        "more": len(more),
        "examples": [one[-600:] for one in [*missing[:1], *more[:1]]],
    }


def tokenizer_at(path):
    """The tokenizer of a model, with the template above."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    tokenizer.chat_template = TEMPLATE
    return tokenizer
