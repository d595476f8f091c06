"""Importance of agents and values of tree nodes as their own published code computes them.

Each function takes the files of its source and gives back a function from an input of ours to an output in our form.
"""

import dataclasses
import math
import re
import typing
from types import SimpleNamespace as Space

import torch

from published_code import function, load


def dylan_edge_weights(path):
    # No model is called, and peers stay in their order.
    given = {"re": re, "random": Space(shuffle=lambda _: None), "parse_single_choice": None}
    given.update(construct_message=lambda *_: "", ROLE_MAP={"r": ""}, SYSTEM_PROMPT_MMLU="")

    def run(ratings, n_peers):
        reply = f"[[{', '.join(map(str, ratings))}]]"
        space = load(path, "LLMNeuron", "LLMEdge", generate_answer=lambda *_: (reply, 0, 0), **given)
        neuron = lambda: space["LLMNeuron"]("r", ans_parser=lambda reply: reply)
        peers, rated = [neuron() for _ in range(n_peers)], neuron()
        for peer in peers:
            peer.active, peer.reply = True, "said"
            space["LLMEdge"](peer, rated)
        rated.activate("question")
        return [edge.weight for edge in rated.from_edges]

    return run


def dylan_importance(path):
    backward = function(path, "LLMLP.backward")

    def run(rounds, edges):
        names = list(rounds[0])
        nodes = [
            Space(active=of[name]["active"], get_answer=lambda agrees=of[name]["agrees"]: agrees, to_edges=[], importance=0)
            for of in rounds
            for name in names
        ]
        for t, weights in enumerate(edges):
            for a, name in enumerate(names):
                targets = [(nodes[(t + 1) * len(names) + b], weights[name][other]) for b, other in enumerate(names)]
                nodes[t * len(names) + a].to_edges = [Space(weight=weight, a2=node) for node, weight in targets]
        me = Space(rounds=len(rounds), agents=len(names), nodes=nodes, cmp_res=lambda answer, result: answer is result)
        values = backward(me, True)
        per_round = [dict(zip(names, values[t * len(names) :])) for t in range(len(rounds))]
        return {"per_round": per_round, "total": {name: sum(of[name] for of in per_round) for name in names}}

    return run


def dylan_consensus(path, utils):
    most_frequent = load(utils, "most_frequent")["most_frequent"]
    check = function(path, "LLMLP.check_consensus", math=math, most_frequent=most_frequent)

    def run(answers, n):
        nodes = [Space(get_answer=lambda answer=answer: answer) for answer in answers]
        me = Space(nodes=nodes, cmp_res=lambda a, b: a == b)
        return check(me, range(len(answers)), list(range(n)))[0]

    return run


def masprm_nodes(path):
    types = {name: getattr(typing, name) for name in ("Any", "Dict", "List", "Optional")}
    made = {"dataclass": dataclasses.dataclass, "field": dataclasses.field}
    return load(path, "Node", "uct_score", math=math, **types, **made)


def masprm_backprop(path):
    node = masprm_nodes(path)["Node"]
    backprop = function(path, "MAS_MCTS._backprop", is_correct=lambda answer, truth: answer == truth)

    def run(rollouts):
        nodes = {}
        for one in rollouts:
            walked = [nodes.setdefault(name, node(steps=[])) for name in one["path"]]
            walked[-1].is_terminal, walked[-1].final_answer = True, "right" if one["correct"] else "wrong"
            backprop(Space(truth="right"), walked)
        return {name: {"visits": one.visits, "q": one.q_mean} for name, one in nodes.items()}

    return run


def masprm_uct(path):
    space = masprm_nodes(path)

    def run(q, parent_visits, child_visits, c):
        parent, child = (space["Node"](steps=[], visits=visits) for visits in (parent_visits, child_visits))
        # The mean of the child is q whatever its visits are.
        child.q_sum = q * child_visits
        if child_visits == 0:
            child.init_value, child.init_visits = q, 1
        return space["uct_score"](parent, child, c)

    return run


def masprm_tree_keep(path):
    given = {"_path_iter": lambda *_: [[{"is_terminal": True, "q_mean": 1.0}]], "_extract_prompt": lambda *_, **__: ""}
    given["_actions_and_labels_from_path"] = lambda _: ([], [])
    space = load(path, "_node_value", "_is_pm1", "_records_from_tree", math=math, **given)
    keep = space["_records_from_tree"]
    return lambda root_q: len(keep({"q_mean": root_q}, filename_hint="", target_nodes=None)[0]) == 1


def masprm_target(path):
    loss = function(path, "PRMRegressionTrainer.compute_loss", torch=torch)

    def run(q):
        model = lambda **_: Space(logits=torch.zeros(1, 1, 1))
        me = Space(_checked_once=True, _loss=lambda _, target: target)
        return loss(me, model, {"labels": torch.tensor([[q]]), "input_ids": None}).item()

    return run


def masprm_path_score(path):
    score = function(path, "score_path_prm_product", TokenStats=lambda: Space(prm_calls=0), render_state_text=lambda *_, **__: "")

    def run(values):
        left = iter(values)
        team = Space(next_runnable=lambda *_: (0, None))
        return score(lambda _: next(left), team, "", [""] * len(values))[0]

    return run
