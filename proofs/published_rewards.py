"""Rewards, and the choice of a program, as their own published code computes them.

Each function takes the files of its source and gives back a function from an input of ours to an output in our form.
"""

import contextlib
import copy
import dataclasses
import functools
import json
import os
import pathlib
import re
import runpy
import string
import sys
import tempfile
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from types import ModuleType
from types import SimpleNamespace as Space

import numpy
import torch

from published_code import function, load, statements
from published_filters import QUIET


def petting_turn_reward(algorithms):
    calculate = function(algorithms, "calculate_reward", np=numpy, **QUIET)

    def run(final, turns, mode, max_turns, gamma):
        columns = {"env_final_reward": numpy.full(len(turns), float(final)), "turn_idx": numpy.array(turns)}
        batch = calculate(Space(non_tensor_batch=columns), mode, max_turns=max_turns, discount_factor=gamma)
        return batch.non_tensor_batch["reward"].tolist()

    return run


def dapo_overlong(path):
    begins = "if self.overlong_buffer_cfg is not None and self.overlong_buffer_cfg.enable"
    penalise = statements(path, "DAPORewardManager.__call__", lambda text: text.startswith(begins))

    def run(length, max_len, buffer, factor):
        config = Space(enable=True, len=buffer, penalty_factor=factor, log=False)
        me = Space(overlong_buffer_cfg=config, max_resp_len=max_len)
        return penalise(self=me, valid_response_length=length, reward=0.0)["reward"]

    return run


def cure(path, **settings):
    given = {"np": numpy, "enable_efficient": False, **settings}
    return load(path, "normalize_reward", "normalize_balance_std", "length_regularize", **given)


def cure_balance(path):
    balance = cure(path)["normalize_balance_std"]

    def run(x):
        balanced = balance(numpy.array(x))
        return None if balanced is None else balanced.tolist()

    return run


def cure_length_regularize(path):
    def run(reward, length, min_len, max_len):
        settings = {"max_len_threshold": max_len, "min_len_threshold": min_len}
        values = cure(path, **settings)["length_regularize"](numpy.array(reward), length)
        return None if values is None else values.tolist()

    return run


def cure_rewards(path, what_of):
    """The whole script, run on a task in a folder of its own, for its code or its test cases: null where it leaves the task out."""

    def run(generated_pass, gt_pass, post_stage):
        table = [[bool(bit) for bit in [*truth, *made]] for truth, made in zip(gt_pass, generated_pass)]
        programs, tests = len(gt_pass), len(generated_pass[0])
        task = {"all_case_bool_table": table, "num_ground_truth_test": len(gt_pass[0])}
        for what, count in (("code", programs), ("case", tests)):
            task[f"{what}_generation_prompt"] = what
            task[f"full_{what}_generation"] = [""] * count
            task[f"{what}_response_length"] = [1] * count
        options = ModuleType("optimization_config")
        settings = {"pretrained_model": "m", "train_dataset": "d", "max_generation_token": 2, "separate_training": True}
        settings.update(max_len_threshold=8000, min_len_threshold=1000, enable_efficient=False, post_stage=post_stage)
        options.__dict__.update(settings)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), arguments("reward.py"):
            os.mkdir("temp_data")
            pathlib.Path("temp_data/outputs-rl-m-d.json").write_text(json.dumps([task]))
            sys.modules["optimization_config"] = options
            runpy.run_path(str(path))
            rows = [json.loads(pathlib.Path(f"temp_data/rl_{what}_data.json").read_text()) for what in ("code", "case")]
        return [one["reward"] for one in rows[what_of == "case"]] or None

    return run


@contextlib.contextmanager
def arguments(*argv):
    before, sys.argv = sys.argv, list(argv)
    try:
        yield
    finally:
        sys.argv = before


def bon_select(path):
    parts = ("best_code_index =", "sub_test_table_i =")
    choose = statements(path, "execute_scripts", lambda text: text.startswith(parts), np=numpy)

    def run(generated_pass, gt_pass):
        space = choose(case_table_i=numpy.array(generated_pass), test_table_i=numpy.array(gt_pass))
        truth = space["sub_test_table_i"].tolist()
        return {"index": int(space["best_code_index"]), "gt_all": all(truth), "gt_rate": sum(truth) / len(truth)}

    return run


def marti_shaping(path):
    # An answer is its own score.
    scores = {"np": numpy, "qwen_reward_fn": lambda answer, _: answer}
    chain = load(path, "ChainRewardAllocation", deepcopy=copy.deepcopy, **scores)["ChainRewardAllocation"]
    return lambda name, rewards, alpha, beta: chain(name, alpha, beta).assign_rewards([rewards], [None])[0].tolist()


def mars2_tree_shaping(path):
    shape = load(path, "tree_reward_shaping_unified", np=numpy)["tree_reward_shaping_unified"]

    def run(rewards, parent, gamma, lam):
        nodes = [{"turn_id": at, "metadata": {"parent_idx": above}} for at, above in enumerate(parent)]
        return shape([nodes], numpy.array([rewards], dtype=float), gamma, lam)[0].tolist()

    return run


class Pool:
    """Scores one after the other, where theirs does so in processes."""

    def __init__(self, **_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def map(self, score, params, **_):
        return Space(result=lambda: iter([score(one) for one in params]))


def rema_reward(path):
    given = {"torch": torch, "partial": functools.partial, "ProcessPool": Pool, "TimeoutException": TimeoutError}
    given["tqdm"] = lambda **_: contextlib.nullcontext(Space(update=lambda _: None))
    space = load(path, "compute_score_fn", "ReMARewardManager", _default_compute_score=None, **given)
    roles = ["meta-thinking", "reasoning"]

    def run(score, finished, max_turns, boxed, mask_unfinished):
        sample = {"response": "\\boxed{1}" if boxed else "1", "reward_model": {"ground_truth": "1"}, "data_source": "d"}
        flags = {f"{role}_turn_finished": torch.tensor(0 if finished[role] else 1) for role in roles}
        about = {"max_num_turns": max_turns, "agent_roles": roles, "mask_unfinished_reward": mask_unfinished}
        item = Space(batch=flags, non_tensor_batch={**sample, "num_turns": max_turns}, meta_info=about)
        rows = type("Rows", (list,), {"batch": {}, "meta_info": about})([item])
        rewards = space["ReMARewardManager"](None, 0, lambda *_: score)(rows)
        return {role: rewards[f"{role}_turn_level_reward"][0, max_turns - 1].item() for role in roles}

    return run


def unitymas(base, allocator, schema, name):
    made = {"dataclass": dataclasses.dataclass, "field": dataclasses.field}
    records = load(schema, "WorkflowExecutionRecord", "RewardAssignment", "WorkflowTrace", **made)
    given = {"re": re, "string": string, "ABC": ABC, "abstractmethod": abstractmethod, "Counter": Counter}
    root = load(base, "RewardAllocator", **given)
    space = load(allocator, name, re=re, defaultdict=defaultdict, **{**records, "RewardAllocator": root["RewardAllocator"]})
    config = Space(star={})
    allocate = space[name](None, config).allocate

    def record(node, parsed):
        kind = node.split("_")[0]
        return records["WorkflowExecutionRecord"]("q", node, kind, "m", 0, 0, kind, parsed_output=parsed)

    def run(nodes, truth=()):
        rows = [record(node, parsed) for node, parsed in nodes]
        assigned, _ = allocate(records["WorkflowTrace"]("q", "", list(truth), records=rows))
        return {one.record.node_id: one.reward for one in assigned}

    return run


def unitymas_code(base, allocator, schema):
    allocate = unitymas(base, allocator, schema, "CodeTurnLevelRewardAllocator")

    def run(pass_rate, reflections):
        turns = [(f"verifier_{t}", {"pass_rate": rate}) for t, rate in enumerate(pass_rate)]
        others = [(f"{kind}_{t}", None) for t in range(len(pass_rate)) for kind in ("planner", "coder")]
        of = allocate([*others, *turns, *[(f"reflection_{t}", None) for t in range(reflections)]])
        assert all(of[f"planner_{t}"] == of[f"coder_{t}"] for t in range(len(pass_rate)))
        shared = [of[f"planner_{t}"] for t in range(len(pass_rate))]
        return {"planner_coder": shared, "reflection": [of[f"reflection_{t}"] for t in range(reflections)]}

    return run


def unitymas_search(base, allocator, schema):
    allocate = unitymas(base, allocator, schema, "MAskTurnLevelRewardAllocator")

    def run(plan, answers, truth):
        predicted = lambda text: {"predicted_answer": text}
        nodes = [("plan", predicted(plan)), ("answer_0", predicted(answers[0]))]
        for turn, answer in list(enumerate(answers))[1:]:
            nodes += [(f"{kind}_{turn}", {}) for kind in ("search", "summary", "update")]
            nodes.append((f"answer_{turn}", predicted(answer)))
        of = allocate(nodes, [truth])
        turns = [
            {"search_summary_update": of[f"search_{turn}"], "answer": of[f"answer_{turn}"]}
            for turn in range(1, len(answers))
        ]
        return {"plan": of["plan"], "answer_0": of["answer_0"], "turns": turns}

    return run


def token_f1(path):
    score = function(path, "get_rewards", Counter=Counter, torch=torch)
    # The texts are normalised already.
    me = Space(normalize_answer_final=lambda text: text)
    return lambda pred, gold: score(me, [pred], [gold]).item()


def mmoa_rewards(path):
    given = {"re": re, "torch": torch}
    names = ("get_qr_punish", "get_generator_punish", "get_selector_duplicate_reward")
    rewrite, generate, select = (function(path, name, **given) for name in names)

    def run(f1, subquestions, selector, k, answer):
        return {
            "rewriter": f1 + rewrite(None, [""], [subquestions]).item(),
            "selector": f1 + select(None, selector, k),
            "generator": f1 + generate(None, [answer]).item(),
        }

    return run
