"""A drafter and a reviewer in LangGraph, as a server that plays an episode for each POST: python team.py [--port 9920]

The drafter answers, the reviewer says yes or no, and after a no the drafter answers once more. The request names the
address of the episode; the agents call models there through langchain-openai, as they would call any other server.
"""

import argparse
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

MODEL = os.environ.get("MODEL", "policy:drafter")
DRAFTS = 2


class State(TypedDict):
    """One problem on its way through the graph. `graded` has 1 or 0 for each answer and each review."""

    episode: dict
    answer: str
    review: str
    drafts: int
    graded: list[int]


def ask(state: State, agent: str, prompt: str) -> str:
    """The first word of what an agent answers; its calls of an episode have seeds of their own."""
    episode, turn = state["episode"], state["drafts"]
    model = ChatOpenAI(
        model=MODEL,
        base_url=f"{episode['episode_url']}/a/{agent}/v1",
        api_key=episode["key"] or "none",
        temperature=1,
        max_tokens=1,
        seed=(episode["seed"] + 2 * turn + (agent == "reviewer")) % 2**31,
        default_headers={"Troupe-Role": agent, "Troupe-Turn": str(turn)},
    )
    return model.invoke(prompt).text.strip()


def draft(state: State) -> dict:
    task = state["episode"]["task"]
    again = "" if state["review"] == "" else f" answer {state['answer']} no"
    answer = ask(state, "drafter", f"draft {task['prompt']}{again}")
    return {"answer": answer, "graded": [*state["graded"], int(answer == task["answer"])]}


def review(state: State) -> dict:
    task = state["episode"]["task"]
    answer = ask(state, "reviewer", f"review {task['prompt']} answer {state['answer']}")
    truth = "yes" if state["answer"] == task["answer"] else "no"
    return {"review": answer, "drafts": state["drafts"] + 1, "graded": [*state["graded"], int(answer == truth)]}


def onward(state: State) -> str:
    return "drafter" if state["review"] == "no" and state["drafts"] < DRAFTS else END


builder = StateGraph(State)
builder.add_node("drafter", draft)
builder.add_node("reviewer", review)
builder.add_edge(START, "drafter")
builder.add_edge("drafter", "reviewer")
builder.add_conditional_edges("reviewer", onward, ["drafter", END])
graph = builder.compile()


def play(episode: dict) -> dict:
    """The reward is the mean of two: whether the last answer is right, and the share of answers and reviews that are."""
    state = graph.invoke({"episode": episode, "answer": "", "review": "", "drafts": 0, "graded": []})
    right = state["answer"] == episode["task"]["answer"]
    reward = (right + sum(state["graded"]) / len(state["graded"])) / 2
    return {"reward": reward, "answer": state["answer"], "outcome": "success" if right else "failure"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        episode = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            status, body = 200, play(episode)
        except Exception as error:  # The rollout records why, and tries again.
            status, body = 500, {"error": f"{type(error).__name__}: {error}"}
        written = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(written)))
        self.end_headers()
        self.wfile.write(written)

    def log_message(self, *_):
        """Prints nothing for a request."""


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="A drafter and a reviewer in LangGraph, behind a webhook.")
    options.add_argument("--port", type=int, default=9920)
    server = ThreadingHTTPServer(("127.0.0.1", options.parse_args().port), Handler)
    print(f"http://127.0.0.1:{server.server_port}/play", flush=True)
    server.serve_forever()
