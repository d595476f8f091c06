"""Answers one question after the other: a line of JSON in, a line of JSON out, so that torch is imported once for many.

A question is {"do": name, …}; the answer is {"answer": …} or {"error": text}.
"""

import json
import sys
import traceback


def serve(handlers):
    # What a library prints must not get between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        question = json.loads(line)
        try:
            reply = {"answer": handlers[question.pop("do")](**question)}
        except Exception:
            reply = {"error": traceback.format_exc().strip()}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()
