"""The side of published code in the comparison of methods: each function on the layout that it takes, in single precision."""

import importlib.metadata
import importlib.util
import pathlib
import sys

import numpy
import torch

sys.path.append(str(pathlib.Path(__file__).parents[2] / "proofs"))

from lines import serve, timed  # noqa: E402
from published_advantages import Space, TORCH, verl  # noqa: E402
from published_code import function, load, statements  # noqa: E402
from published_filters import Batch, petting_uids  # noqa: E402

TOKENS = 20
CORE = "verl/trainer/ppo/core_algos.py"
TENSORS = "verl/utils/torch_functional.py"
state = {}


def open_peer(question):
    torch.set_num_threads(question["threads"])
    state["sources"] = question["sources"]
    return {name: importlib.metadata.version(name) for name in ("torch", "verl", "trl")}


def package(*files):
    folder = pathlib.Path(importlib.util.find_spec(files[0].split("/")[0]).origin).parent.parent
    return [folder / file for file in files]


def repository(name, *files):
    return [pathlib.Path(state["sources"]) / name / file for file in files]


def outcome(values):
    """The reward on the last of 20 tokens, and a mask that counts all of them."""
    rewards = torch.zeros(len(values), TOKENS)
    rewards[:, -1] = torch.from_numpy(values)
    return rewards, torch.ones(len(values), TOKENS)


def names(count, of, what):
    return numpy.array([f"{what} {row // of}" for row in range(count)], dtype=object)


def first(advantages):
    return advantages[0][:, -1]


def estimator(name, **given):
    compute = verl(*package(CORE, TENSORS), name, **given)[name]

    def prepare(values, group, length):
        rewards, mask = outcome(values)
        index = names(len(values), group, "group")
        return lambda: compute(rewards, mask, index), first

    return prepare


def vectorised():
    [path] = package("verl/utils/groupwise.py")
    parts = ("_to_1d_numpy_object_array", "as_torch_index", "group_mean_std")
    helpers = load(path, *parts, **TORCH, _resolve_device=torch.device)
    given = {name: helpers[name] for name in parts[1:]}
    return estimator("compute_grpo_vectorized_outcome_advantage", **given)


def gae():
    name = "compute_gae_advantage_return"
    compute = verl(*package(CORE, TENSORS), name)[name]

    def prepare(values, group, length):
        both = torch.from_numpy(values).float().reshape(-1, 2, length)
        rewards, critic = both[:, 0].contiguous(), both[:, 1].contiguous()
        return lambda: compute(rewards, critic, torch.ones_like(rewards), 1.0, 0.95), lambda of: of[1].reshape(-1)

    return prepare


def whiten():
    compute = load(*package(TENSORS), "masked_sum", "masked_mean", "masked_var", "masked_whiten", torch=torch)["masked_whiten"]

    def prepare(values, group, length):
        column = torch.from_numpy(values).float()
        return lambda: compute(column, torch.ones_like(column)), lambda of: of

    return prepare


def trl():
    trainer, utils = package("trl/trainer/grpo_trainer.py", "trl/trainer/utils.py")
    parts = ("unscorable_mask =", "if self.multi_objective_aggregation ==", "advantages = torch.nan_to_num(")
    nanstd = load(utils, "nanstd", torch=torch)["nanstd"]
    place = "GRPOTrainer._generate_and_score_completions"
    compute = statements(trainer, place, lambda text: text.startswith(parts), torch=torch, nanstd=nanstd)

    def prepare(values, group, length):
        rewards = torch.from_numpy(values).float()[:, None]
        ways = {"multi_objective_aggregation": "sum_then_normalize", "scale_rewards": "group"}
        me = Space(**ways, reward_weights=torch.ones(1), reward_funcs=[None])
        given = {"self": me, "rewards_per_func": rewards, "num_generations": group, "device": torch.device("cpu")}
        return lambda: compute(**given), lambda of: of["advantages"]

    return prepare


def drmas(joined):
    name = "compute_grpo_outcome_advantage"
    compute = load(*repository("langfengQ/DrMAS", CORE), name, **TORCH, print=lambda *_: None)[name]

    def prepare(values, group, length):
        rewards, mask = outcome(values)
        queries = names(len(values), 2 * group, "query")
        agents = [f"{query}_{row % 2}" for row, query in enumerate(queries)] if joined else queries
        index, traj = numpy.array(agents, dtype=object), names(len(values), 2, "trajectory")
        return lambda: compute(rewards, mask, index, traj, group_by_agent_id=joined), first

    return prepare


def at_grpo():
    """What its trainer does for a batch: groups named by environment, turn and agent, then the advantages."""
    files = ("pettingllms/trainer/multi_agents_ppo_trainer.py", "verl/verl/trainer/ppo/core_algos.py")
    trainer, core = repository("pettingllms-ai/PettingLLMs", *files)
    name = "compute_grpo_outcome_advantage"
    assign, compute = petting_uids(trainer), load(core, name, **TORCH)[name]

    def prepare(values, group, length):
        rewards, mask = outcome(values)
        zeros = numpy.zeros(len(values), dtype=int)

        def work():
            columns = {"env_idx": numpy.arange(len(values)) // group, "turn_idx": zeros, "agent_idx": zeros}
            assign(None, Batch(size=len(values), non_tensor_batch=columns))
            return compute(rewards, mask, columns["uid"])

        return work, first

    return prepare


PREPARE = {
    "grpo looped": lambda: estimator("compute_grpo_outcome_advantage"),
    "grpo vectorised": vectorised,
    "rloo looped": lambda: estimator("compute_rloo_outcome_advantage"),
    "rloo vectorised": lambda: estimator("compute_rloo_vectorized_outcome_advantage"),
    "gae": gae,
    "whiten": whiten,
    "trl": trl,
    "drmas": lambda: drmas(True),
    "multiagent": lambda: drmas(False),
    "at_grpo": at_grpo,
}


def judge(question):
    prepare = state.setdefault(question["peer"], None) or PREPARE[question["peer"]]()
    state[question["peer"]] = prepare
    values = numpy.fromfile(question["file"])
    work, column = prepare(values, question["group"], question["length"])
    result, spent = timed(work)
    return {"values": column(result).tolist(), **spent}


serve({"open": open_peer, "judge": judge})
