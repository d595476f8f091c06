"""A model server that answers by a script, in place of one that costs money: python3 upstream.py [--port 9917]

It has the OpenAI interface. As solver it is right two times in five, and four times in five once a critic named what
is wrong; as checker four times in five. When is a hash of the question and the seed. It does not know who asks: it reads the question.
"""

import argparse
import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from repair import CRITICISE
from team import CHECK, SOLVE
from tickets import tickets

KNOWN = dict(tickets())
ANSWERS = sorted(set(KNOWN.values()))


def chance(*what):
    """A number from 0 to 1 that depends on nothing but its arguments."""
    return int.from_bytes(hashlib.sha256(repr(what).encode()).digest()[:4], "big") / 2**32


def respond(texts, seed):
    """The answer to a conversation of texts."""
    draw = chance(texts, seed)
    if texts[-1].endswith(CHECK):
        words = texts[-1][: -len(CHECK)].split()
        right = KNOWN[" ".join(words[:-2])] == " ".join(words[-2:])
        return "yes" if right == (draw < 0.8) else "no"
    if texts[-1].endswith(CRITICISE):
        answers, right = [half.split()[-2:] for half in texts[-1][: -len(CRITICISE)].split(" no ")[-2:]]
        return " and ".join(a for a, b in zip(answers, right) if a != b) + " is not right"
    right = KNOWN[texts[0][: -len(SOLVE)].strip()]
    return right if draw < (0.8 if texts[-1].endswith("is not right") else 0.4) else ANSWERS[int(chance(draw) * len(ANSWERS))]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = respond([message["content"] for message in asked["messages"]], asked.get("seed"))
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        used = sum(len(message["content"].split()) for message in asked["messages"])
        usage = {"prompt_tokens": used, "completion_tokens": len(text.split()), "total_tokens": used + len(text.split())}
        body = {"id": "scripted", "object": "chat.completion", "model": asked["model"], "choices": [choice], "usage": usage}
        written = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(written)))
        self.end_headers()
        self.wfile.write(written)

    def log_message(self, *_):
        """Prints nothing for a request."""


def main():
    options = argparse.ArgumentParser(description="A scripted OpenAI-compatible model server.")
    options.add_argument("--port", type=int, default=9917)
    server = ThreadingHTTPServer(("127.0.0.1", options.parse_args().port), Handler)
    print("http://127.0.0.1:%d/v1" % server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
