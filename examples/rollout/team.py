"""A team of two for `troupe rollout`: a solver answers, a checker may object once. Standard library only.

It knows the OpenAI interface and the environment that a rollout gives it; see docs/rollouts.md.
"""

import json
import os
import re
import sys
import urllib.request

MODEL = os.environ.get("MODEL", "policy:solver")


def ask(agent, messages):
    """One chat completion, recorded as a call of this agent in this episode."""
    request = urllib.request.Request(
        f"{os.environ['TROUPE_EPISODE_URL']}/a/{agent}/v1/chat/completions",
        json.dumps({"model": MODEL, "messages": messages, "temperature": 1, "seed": int(os.environ["TROUPE_SEED"])}).encode(),
        {"content-type": "application/json", "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "troupe-role": agent},
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)["choices"][0]["message"]["content"]


def main():
    with open(os.environ["TROUPE_TASK"], encoding="utf-8") as file:
        task = json.load(file)
    messages = [{"role": "user", "content": task["prompt"]}]
    answer = ask("solver", messages)
    objection = ask("checker", [{"role": "user", "content": f"{task['prompt']}\nIs this right: {answer}? Say yes or no."}])
    if re.search(r"\bno\b", objection, re.IGNORECASE):
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": f"A colleague objects: {objection}"}]
        answer = ask("solver", messages)
    right = str(task["answer"]) in answer
    print(json.dumps({"reward": 1 if right else 0, "answer": answer, "outcome": "success" if right else "failure"}))


if __name__ == "__main__":
    sys.exit(main())
