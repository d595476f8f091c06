"""Langfuse for Python: observations of an agent and of its model call, and a score of the call."""

import os

from langfuse import Langfuse

langfuse = Langfuse(base_url=os.environ["TROUPE_URL"], public_key="none", secret_key="none")

with langfuse.start_as_current_observation(name="planner", as_type="agent"):
    question = [{"role": "user", "content": "How far?"}]
    with langfuse.start_as_current_observation(name="chat", as_type="generation", model="made-up", input=question) as call:
        call.update(output={"role": "assistant", "content": "Far."})
        call.score(name="reward", value=1.0)
langfuse.flush()
