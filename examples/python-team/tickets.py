"""Tickets of a help desk, a JSON object on each line: python3 tickets.py --count 160 --seed 1 > tickets.jsonl

Each fourth one has the split test, on which nothing is trained.
"""

import argparse
import itertools
import json
import random

THINGS = ["lamp", "chair", "kettle", "phone", "desk", "radio"]
COLOURS = ["red", "blue", "black", "white"]
PROBLEMS = {
    "billing": ["was charged twice", "has a wrong price on the bill", "needs a receipt for the office"],
    "shipping": ["is late", "has not arrived", "was sent to a wrong address"],
    "returns": ["arrived broken", "is the wrong size", "has to go back to the shop"],
    "technical": ["does not turn on", "makes a noise at night", "has lost its settings"],
}
ENDS = {
    "urgent": ["i need it today", "please hurry", "the guests arrive at noon"],
    "normal": ["there is no hurry", "answer when you can", "thanks a lot"],
}


def tickets():
    """All tickets: (text, queue and priority)."""
    for queue, priority in itertools.product(PROBLEMS, ENDS):
        for colour, thing, problem, end in itertools.product(COLOURS, THINGS, PROBLEMS[queue], ENDS[priority]):
            yield "my %s %s %s %s" % (colour, thing, problem, end), "%s %s" % (queue, priority)


def main():
    options = argparse.ArgumentParser(description="Writes tickets of a help desk as JSON lines.")
    options.add_argument("--count", type=int, default=160)
    options.add_argument("--seed", type=int, default=1)
    asked = options.parse_args()
    chosen = random.Random(asked.seed).sample(sorted(tickets()), asked.count)
    for i, (prompt, answer) in enumerate(chosen):
        split = "test" if i % 4 == 3 else "train"
        print(json.dumps({"task_id": "ticket-%d-%d" % (asked.seed, i), "prompt": prompt, "answer": answer, "split": split}))


if __name__ == "__main__":
    main()
