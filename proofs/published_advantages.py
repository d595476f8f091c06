"""Advantages as their own published code computes them, in double precision where that code lets it be.

Each function takes the files of its source and gives back a function from an input of ours to an output in our form.
"""

import enum
from collections import defaultdict
from types import SimpleNamespace as Space

import numpy
import torch

from published_code import function, load, statements

TORCH = {"torch": torch, "np": numpy, "defaultdict": defaultdict}


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def objects(values):
    array = numpy.empty(len(values), dtype=object)
    array[:] = [f"{type(value).__name__} {value}" for value in values]
    return array


def verl(core, functional, *names, **given):
    """Functions of core_algos.py beside those of torch_functional.py that they call, registered where the file registers them."""
    masked = load(functional, "masked_sum", "masked_mean", "masked_var", "masked_whiten", "clip_by_value", torch=torch)
    registry = ("ADV_ESTIMATOR_REGISTRY", "AdvantageEstimator", "register_adv_est")
    return load(core, *registry, *names, **TORCH, Enum=enum.Enum, verl_F=Space(**masked), **given)


def outcome(function_, **options):
    """A group-relative estimator over one reward a row, on the last of two tokens, as the scalar that the tokens share."""

    def run(group, reward, **more):
        rewards = torch.stack([torch.zeros(len(reward)), tensor(reward)], dim=1)
        return function_(rewards, torch.ones(rewards.shape), objects(group), **options, **more)[0][:, 0].tolist()

    return run


def scaled(run):
    return lambda group, reward, scale_std=True, eps=1e-6: run(
        group, reward, epsilon=eps, norm_adv_by_std_in_grpo=scale_std
    )


def grpo(core, functional):
    return scaled(outcome(verl(core, functional, "compute_grpo_outcome_advantage")["compute_grpo_outcome_advantage"]))


def plain_grpo(core):
    """A file that registers nothing."""
    name = "compute_grpo_outcome_advantage"
    return scaled(outcome(load(core, name, **TORCH)[name]))


def grpo_vectorised(core, functional, groupwise):
    # The device of tensors that come without one is the processor.
    helpers = load(
        groupwise, "_to_1d_numpy_object_array", "as_torch_index", "group_mean_std", **TORCH, _resolve_device=torch.device
    )
    given = {name: helpers[name] for name in ("as_torch_index", "group_mean_std")}
    name = "compute_grpo_vectorized_outcome_advantage"
    return scaled(outcome(verl(core, functional, name, **given)[name]))


def rloo(core, functional):
    return outcome(verl(core, functional, "compute_rloo_outcome_advantage")["compute_rloo_outcome_advantage"])


def rloo_vectorised(core, functional):
    name = "compute_rloo_vectorized_outcome_advantage"
    return outcome(verl(core, functional, name)[name])


def gae(core, functional):
    estimate = verl(core, functional, "compute_gae_advantage_return")["compute_gae_advantage_return"]

    def run(rewards, values, mask, gamma, **lam):
        advantages, returns = estimate(tensor([rewards]), tensor([values]), tensor([mask]), gamma, lam["lambda"])
        whitened = (advantages * tensor([mask]))[0]
        return {"returns": returns[0].tolist(), "whitened": whitened.tolist()}

    return run


def masked_whiten(functional):
    space = load(functional, "masked_sum", "masked_mean", "masked_var", "masked_whiten", torch=torch)

    def run(values, mask):
        # In single precision, as it is run: there 1e-8 disappears beside the count of equal values.
        column, kept = torch.tensor(values, dtype=torch.float32), torch.tensor(mask, dtype=torch.float32)
        return (space["masked_whiten"](column, kept) * kept).tolist()

    return run


def trl_advantage(trainer, utils):
    nanstd = load(utils, "nanstd", torch=torch)["nanstd"]
    parts = ("unscorable_mask =", "if self.multi_objective_aggregation ==", "advantages = torch.nan_to_num(")
    place = "GRPOTrainer._generate_and_score_completions"
    step = statements(trainer, place, lambda text: text.startswith(parts), torch=torch, nanstd=nanstd)

    def run(group, reward, scale, combine, weights):
        rows = [row if isinstance(row, list) else [row] for row in reward]
        nan = float("nan")
        named = {
            "rewards_per_func": tensor([[nan if one is None else one for one in row] for row in rows]),
            "num_generations": group.count(group[0]),
            "device": torch.device("cpu"),
            "self": Space(
                multi_objective_aggregation=combine,
                scale_rewards=scale,
                reward_weights=tensor(weights or [1.0] * len(rows[0])),
                reward_funcs=rows[0],
            ),
        }
        return step(**named)["advantages"].tolist()

    return run


def drmas(core, joined):
    """With `joined` grouped by agent, as the trainer names its groups; without, over the mean of each trajectory."""
    estimate = load(core, "compute_grpo_outcome_advantage", **TORCH, print=lambda *_: None)
    advantage = estimate["compute_grpo_outcome_advantage"]

    def run(steps, scale_std, eps):
        query = objects([step["query"] for step in steps])
        traj = objects([step["traj"] for step in steps])
        pairs = objects([f"{step['query']}_{step['agent']}" for step in steps])
        rewards = tensor([[0.0, step["reward"]] for step in steps])
        index = pairs if joined else query
        options = {"epsilon": eps, "norm_adv_by_std_in_grpo": scale_std, "group_by_agent_id": joined}
        return advantage(rewards, torch.ones(rewards.shape), index, traj, **options)[0][:, 0].tolist()

    return run


def matpo_advantage(core, protocol):
    registry = ("ADV_ESTIMATOR_REGISTRY", "AdvantageEstimator", "register_adv_est")
    space = load(core, *registry, "compute_grpo_outcome_advantage", **TORCH, Enum=enum.Enum)
    estimate = scaled(outcome(space["compute_grpo_outcome_advantage"]))
    copy = function(protocol, "broadcast_advantage_return_tensor_by_reqs_ids", np=numpy, torch=torch)

    def run(main, workers, scale_std, eps):
        planner = estimate([one["query"] for one in main], [one["reward"] for one in main], scale_std, eps)
        column = tensor(planner)[:, None]
        batch = {"advantages": column, "returns": column, "token_level_scores": column}
        parents = [one["parent"] for one in workers if one["parent"] is not None]
        theirs = Space(batch=batch, non_tensor_batch={"reqs_ids": [one["id"] for one in main]})
        launched = Space(batch={}, non_tensor_batch={"parent_reqs_ids": objects_as_they_are(parents)})
        padded = Space(batch={"token_level_scores": torch.zeros(len(workers) - len(parents), 1)})
        copy(theirs, launched, padded)
        own, none = (iter(one.batch["advantages"][:, 0].tolist()) for one in (launched, padded))
        return {"main": planner, "worker": [next(none if one["parent"] is None else own) for one in workers]}

    return run


def objects_as_they_are(values):
    array = numpy.empty(len(values), dtype=object)
    array[:] = values
    return array
