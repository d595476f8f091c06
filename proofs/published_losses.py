"""Losses as their own published code computes them, in double precision.

Each function takes the files of its source and gives back a function from an input of ours to an output in our form.
"""

import enum
from types import SimpleNamespace as Space

import torch

from published_advantages import tensor, verl
from published_code import load, statements


def kl_estimators(core, functional):
    estimate = verl(core, functional, "kl_penalty_forward")["kl_penalty_forward"]
    return lambda logp, ref_logp: {
        name: estimate(tensor(logp), tensor(ref_logp), name).item() for name in ("k1", "abs", "k2", "k3")
    }


def agg_loss(core, functional):
    aggregate = verl(core, functional, "agg_loss")["agg_loss"]

    def run(loss, mask, mode, norm=None):
        return aggregate(tensor(loss), tensor(mask), mode, loss_scale_factor=norm).item()

    return run


def agg_loss_before(core, functional):
    """The aggregation of verl before 0.9, where sum-norm divides by the length alone."""
    masked = load(functional, "masked_mean", torch=torch)
    aggregate = load(core, "agg_loss", torch=torch, verl_F=Space(**masked))["agg_loss"]
    return lambda loss, mask, mode: aggregate(tensor(loss), tensor(mask), "seq-mean-token-sum-norm").item()


def ppo_clip_loss(core, functional):
    registry = ("POLICY_LOSS_REGISTRY", "register_policy_loss")
    name = "compute_policy_loss_vanilla"
    loss_of = verl(core, functional, "agg_loss", *registry, name, AlgoConfig=enum.Enum)[name]

    def run(logp, old_logp, advantages, mask, clip_low, clip_high, clip_c, agg):
        config = Space(
            clip_ratio=0.2,
            clip_ratio_low=clip_low,
            clip_ratio_high=clip_high,
            get=lambda key, default: {"clip_ratio_c": clip_c}.get(key, default),
            global_batch_info={},
        )
        return loss_of(tensor(old_logp), tensor(logp), tensor(advantages), tensor(mask), agg, config)[0].item()

    return run


def value_clip_loss(core, functional):
    loss_of = verl(core, functional, "agg_loss", "compute_value_loss")["compute_value_loss"]

    def run(pred, old, returns, mask, clip):
        return loss_of(tensor([pred]), tensor([returns]), tensor([old]), tensor([mask]), clip)[0].item()

    return run


def dpo_loss(trainer):
    # The branch of the loss itself; label smoothing has none for it any more.
    branch = statements(
        trainer,
        "DPOTrainer._compute_loss",
        lambda text: text.startswith("per_sequence_loss = -F.logsigmoid(self.beta * delta_score)"),
        F=torch.nn.functional,
    )

    def run(beta, pol_chosen, ref_chosen, pol_rejected, ref_rejected):
        delta = tensor((pol_chosen - ref_chosen) - (pol_rejected - ref_rejected))
        return branch(self=Space(beta=beta), delta_score=delta)["per_sequence_loss"].item()

    return run


def matpo_loss(core, functional):
    masked = load(functional, "masked_mean", torch=torch)
    aggregate = load(core, "agg_loss", torch=torch, verl_F=Space(**masked))["agg_loss"]

    def run(loss, batch_size, num_main, aggregation):
        # What its scaling makes of sequences of one token with a loss of 1.
        ones = torch.ones(batch_size, 1)
        scaled, whole = (aggregate(ones, ones, aggregation, num_valid_seqs=main) for main in (num_main, None))
        return (loss * scaled / whole).item()

    return run


def turn_ratio_loss(core, functional):
    masked = load(functional, "masked_mean", torch=torch)
    loss_of = load(core, "compute_policy_loss", torch=torch, verl_F=Space(**masked))["compute_policy_loss"]

    def run(log_ratio, advantage, turn, clip_low, clip_high, clip_c, log_ratio_clip_c):
        mask = tensor([[0.0 if one == -100 else 1.0 for one in turn]])
        options = {"cliprange_low": clip_low, "cliprange_high": clip_high, "clip_ratio_c": clip_c}
        ways = {"log_ratio_clip_c": log_ratio_clip_c, "agg_mode": "trajectory", "clip_mode": "turn"}
        old = torch.zeros(1, len(turn))
        args = (old, tensor([log_ratio]), tensor([advantage]), mask, torch.tensor([turn]))
        return loss_of(*args, **options, **ways)[0].item()

    return run
