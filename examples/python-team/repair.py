"""A failure of the help desk once more, as SiriuS repairs them: a critic who has the right answer says what is wrong, and the solver answers again.

Standard input has the ticket, and in `failed` the solver's answer. The new answer goes to standard output; whether the team is
right with it is found out by playing the episode again.
"""

import json
import sys

from team import SOLVE, ask

CRITICISE = "is the right answer name the wrong"


def main():
    ticket = json.load(sys.stdin)
    wrong = ticket["failed"]["answer"]
    critique = ask("critic", " ".join([ticket["prompt"], wrong, "no", ticket["answer"], CRITICISE]))
    answer = ask("solver", ticket["prompt"] + " " + SOLVE, wrong, critique)
    print(json.dumps({"reward": int(answer == ticket["answer"]), "answer": answer}))


if __name__ == "__main__":
    main()
