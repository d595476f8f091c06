"""Filters, and the scores that they rank by, as their own published code computes them.

Each function takes the files of its source and gives back a function from an input of ours to an output in our form.
"""

import asyncio
import re
from types import SimpleNamespace as Space

import numpy
import torch

from published_code import function, load

QUIET = {"print": lambda *_: None, "pprint": lambda *_: None, "colorful_print": lambda *_, **__: None}


class Batch(Space):
    """What the trainers hand their functions: columns, and a selection of rows that is remembered."""

    def __len__(self):
        return self.size

    def select_idxs(self, kept):
        return Batch(kept=list(kept), size=len(kept), non_tensor_batch=self.non_tensor_batch)


def petting_uids(trainer):
    return function(trainer, "MultiAgentsPPOTrainer._assign_consistent_uids", **QUIET)


def petting_filter(trainer):
    assign = petting_uids(trainer)

    def run(group, reward, mode, filter_ratio):
        numbers = {}
        env = numpy.array([numbers.setdefault(str(one), len(numbers)) for one in group])
        nothing = numpy.zeros(len(group), dtype=int)
        columns = {"env_idx": env, "turn_idx": nothing, "agent_idx": nothing, "reward": reward}
        batch = assign(None, Batch(size=len(group), non_tensor_batch=columns), filter_ratio, mode)
        return getattr(batch, "kept", list(range(len(group))))

    return run


def range_normalized_variance(trainer):
    spread = function(trainer, "_assign_consistent_uids.range_normalized_variance", np=numpy)
    return lambda rewards: float(spread(rewards))


def kept_rows(batch, mask, _):
    return mask.nonzero().flatten().tolist()


def reject_equal_reward(sampling):
    reject = function(sampling, "reject_equal_reward", np=numpy, torch=torch, filter_by_mask=kept_rows)

    def run(group, reward):
        uids = numpy.array([str(one) for one in group])
        scores = torch.tensor(reward, dtype=torch.float64)[:, None]
        rows, _ = reject(Space(non_tensor_batch={"uid": uids}, batch={"token_level_scores": scores}))
        return rows or []

    return run


def roc(path):
    given = {"re": re, "np": numpy, "torch": torch, "filter_by_mask": kept_rows, **QUIET}
    given["decode_prompt_response_str"] = lambda batch, _: ([], batch.texts)
    names = ("calc_error_ratio_penalty_weights", "calc_format_penalty_weights", "resample_of_correct")
    return load(path, *names, **given)


def roc_select(path):
    space = roc(path)

    def run(rewards, penalties, n, min_zero, min_nonzero):
        # Penalties are handed in where it would compute them from text.
        weigh = lambda _: (numpy.array(penalties), {})
        space.update(calc_error_ratio_penalty_weights=weigh, calc_format_penalty_weights=weigh)
        uids = numpy.array(["one"] * len(rewards))
        scores = torch.tensor(rewards, dtype=torch.float64)[:, None]
        batch = Space(non_tensor_batch={"uid": uids}, batch={"token_level_scores": scores}, texts=[""] * len(rewards))
        config = {"roc_error_ratio": True, "roc_answer_format": False, "down_sample_to_n": n}
        config.update(min_zero_reward_trace_num=min_zero, min_non_zero_reward_trace_num=min_nonzero)
        return space["resample_of_correct"](batch, None, config)[0]

    return run


def roc_tool_penalty(path):
    weigh = roc(path)["calc_error_ratio_penalty_weights"]
    tagged = lambda responses: "".join(f"<tool_response>{one}</tool_response>" for one in responses)
    return lambda tool_responses: float(weigh([tagged(tool_responses)])[0][0])


def roc_format_penalty(path):
    weigh = roc(path)["calc_format_penalty_weights"]

    def run(open_tags, close_tags, closed_pairs, turns):
        # Pairs first, then tags that nothing closes or that close nothing, so that no other pair comes about.
        text = "<answer>x</answer>" * closed_pairs
        text += "</answer>" * (close_tags - closed_pairs) + "<answer>" * (open_tags - closed_pairs)
        return float(weigh([text + "<|im_start|>assistant x<|im_end|>" * turns])[0][0])

    return run


def critic(path):
    parse = function(path, "MGSMCriticAgreeParser.parse", re=re, AgentCriticism=lambda agrees, text: (agrees, text))
    return lambda text: parse(None, Space(content=text))


def critic_agrees(path):
    parse = critic(path)
    return lambda text: parse(text)[0]


def consensus_filter(decision, parser):
    parse = critic(parser)
    silent = {"logger": Space(info=lambda *_: None), "Fore": Space(BLUE="", YELLOW="", GREEN=""), "asyncio": asyncio}
    step = function(decision, "VerticalSolverFirstDecisionMaker.astep", **silent)

    def run(rounds, max_critic_iterations):
        asked = []

        async def solve(*_):
            return Space(content="plan", sender="solver")

        def criticise(critic_):
            async def answer(*_):
                turn = sum(one == critic_ for one in asked)
                asked.append(critic_)
                agrees, content = parse(rounds[turn][critic_]["content"])
                return Space(is_agree=agrees, content=content, sender=str(critic_))

            return Space(astep=answer)

        reached = []
        silent_ = Space(info=lambda title, text, colour: reached.append(text) if "Consensus" in text else None)
        step.__globals__["logger"] = silent_
        agents = [Space(astep=solve), *[criticise(critic_) for critic_ in range(len(rounds[0]))]]
        me = Space(max_inner_turns=min(max_critic_iterations, len(rounds)), broadcast_messages=lambda *_: None)
        asyncio.run(step(me, agents, ""))
        turns = len(asked) // len(rounds[0])
        return {"pass": bool(reached), "round": turns if reached else None}

    return run
