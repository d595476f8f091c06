"""A team of two as a Python program records it: python_team.py FOLDER URL SPILL WHAT. Prints what became of it as JSON."""

import json
import os
import signal
import sys

folder, url, spill, what = sys.argv[1:]
sys.path.insert(0, folder)
from troupe_recorder import Recorder, RecorderError  # noqa: E402

say = Recorder(url, "/python-team", spill=spill, tries=2, pause=0.01, batch_size=7)


def play(name):
    say.task(task_id="sum", query="6 times 7?", ground_truth="42", time=None)
    say.episode(episode_id=name, task_id="sum", group_id="g")
    say.agent(episode_id=name, agent_id="planner", role="planner")
    say.agent(episode_id=name, agent_id="solver", role="solver")
    plan = say.step(episode_id=name, agent_id="planner", turn=0, choices=["multiply \u2028 \u00e9"], call_id=name + "-plan")
    say.decision(episode_id=name, by="planner", kind="assign", decision={"to": "solver"})
    solve = say.step(
        episode_id=name,
        agent_id="solver",
        turn=1,
        model="m",
        call_id=name + "-solve",
        input=[{"role": "user", "content": "multiply"}],
        choices=["41", {"index": 1, "content": "42", "chosen": True}],
    )
    say.tool_call(episode_id=name, call_id=solve, tool_call_id="t", name="calc", arguments={"x": 6}, status="ok", output="42")
    say.finish(episode_id=name, outcome="success", answer="42")
    say.feedback(
        feedback_id=name + "-r", target={"kind": "episode", "episode_id": name}, kind="reward", name="reward", value=1
    )
    return plan


if what == "online":
    play("online")
    print(json.dumps(say.flush()))
elif what == "killed":
    play("killed")
    print(json.dumps(say.flush()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
elif what == "refused":
    say.finish(episode_id="refused", outcome="wonderful")
    try:
        say.flush()
    except RecorderError as error:
        print(json.dumps(error.rejected))
elif what == "exit":
    play("exit")  # Nothing is flushed: the end of the program does it.
    print("{}")
