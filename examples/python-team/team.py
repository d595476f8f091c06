"""A help desk of two agents: a solver names queue and priority of a ticket, a checker may object once.

Standard library only, Python 3.9 or later. It calls any OpenAI-compatible server and knows nothing of Troupe: the two
headers that name the caller are ignored elsewhere. A ticket comes on standard input, the result goes to standard output:

    export OPENAI_BASE_URL=https://api.openai.com/v1 OPENAI_API_KEY=sk-...
    echo '{"prompt": "my red lamp is late", "answer": "shipping normal"}' | python3 team.py
"""

import json
import os
import re
import sys
import urllib.request

MODEL = "gpt-4o-mini"
SEED = int(os.environ.get("TROUPE_SEED", "0"))
SOLVE = "name the queue billing shipping returns or technical and urgent or normal"
CHECK = "is the answer right yes or no"
RETRY = "a colleague says no answer again"


def ask(agent, *texts):
    """Answer to a conversation that begins with the user, as words in small letters."""
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"].rstrip("/") + "/chat/completions",
        json.dumps({"model": MODEL, "messages": messages, "max_tokens": 8, "seed": SEED}).encode(),
        {
            "Content-Type": "application/json",
            "Authorization": "Bearer " + os.environ.get("OPENAI_API_KEY", ""),
            "Troupe-Agent": agent,
            "Troupe-Role": agent,
        },
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        content = json.load(response)["choices"][0]["message"]["content"]
    return " ".join(re.findall(r"[a-z]+", (content or "").lower()))


def main():
    ticket = json.load(sys.stdin)
    question = ticket["prompt"] + " " + SOLVE
    answer = ask("solver", question)
    if ask("checker", ticket["prompt"] + " " + answer + " " + CHECK) == "no":
        answer = ask("solver", question, answer, RETRY)
    right = answer == ticket["answer"]
    print(json.dumps({"reward": int(right), "answer": answer, "outcome": "success" if right else "failure"}))


if __name__ == "__main__":
    main()
