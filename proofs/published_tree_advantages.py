"""Advantages over trees, turns and agents as their own published code computes them.

Each function takes the files of its source and gives back a function from an input of ours to an output in our form.
"""

from types import SimpleNamespace as Space

import numpy
import torch

from published_advantages import plain_grpo, tensor
from published_code import function, load
from published_filters import Batch, petting_uids


def magrpo_advantages(trainer):
    return function(trainer, "MAGRPOTrainer._compute_advantages", torch=torch)


def magrpo_returns(trainer):
    advantages_of = magrpo_advantages(trainer)

    def nested(node):
        children = [nested(child) for child in node.get("children", [])]
        return {"rewards": node["rewards"], "children": children, "returns": None}

    def named(node, name, mode):
        of = advantages_of(Space(advantage_mode=mode), tensor(node["returns"])).tolist()
        below = [one for k, child in enumerate(node["children"]) for one in named(child, f"{name}.{k}", mode)]
        return [{"node": name, "returns": node["returns"], "advantages": of}, *below]

    def run(tree, gamma, mode):
        root = nested(tree)
        function(trainer, "_train_step_returns.compute_returns", np=numpy, gamma=gamma)(root)
        return named(root, "0", mode)

    return run


def magrpo_cross(trainer):
    advantages_of = magrpo_advantages(trainer)

    def run(k, agents, rewards, mode):
        tuples = list(numpy.ndindex(*[k] * agents))
        node = {
            "children": [],
            "rewards": rewards,
            "returns": rewards,
            "combo_indices": tuples,
            "completions": [{"completions": [["text"] * k]}] * agents,
        }
        samples = [[] for _ in range(agents)]
        me = Space(
            num_agents=agents, env_step=0, args=Space(joint_mode="cross"), _pack_completions_for_buffer=lambda one: one
        )
        given = {"self": me, "np": numpy, "pending_samples": samples, "NodeSample": lambda **fields: Space(**fields)}
        function(trainer, "_train_step_returns.post_order_update", **given)(node)
        baseline = Space(advantage_mode=mode)
        sums = [sample.returns for (sample,) in samples]
        return [{"sums": one, "advantages": advantages_of(baseline, tensor(one)).tolist()} for one in sums]

    return run


def marft_gae(buffer):
    estimate = function(buffer, "ActionBuffer.compute_gae_and_returns", np=numpy)

    def run(rewards, values, alive, bootstrap, gamma, entry_mask, **lam):
        turns, agents = numpy.shape(rewards)
        held = numpy.zeros((1, turns + 1, 1, agents))
        held[0, :turns, 0, :] = values
        # What is known on entering a turn is whether the turn before it ended the episode.
        masks = numpy.ones((1, turns + 1, 1, agents))
        masks[0, 1:, 0, :] = numpy.array(alive)[:, None]
        me = Space(
            **{"cur_batch_index": 0, "cur_num_batch": 0, "max_batch": 1, "episode_length": turns, "num_agents": agents},
            **{"gamma": gamma, "gae_lambda": lam["lambda"], "masks": masks, "action_level_v_values": held},
            rewards=numpy.array(rewards, dtype=float).reshape(1, turns, 1, agents),
            action_level_returns=numpy.zeros((1, turns, 1, agents)),
            action_level_advantages=numpy.zeros((1, turns, 1, agents)),
        )
        estimate(me, bootstrap)
        shaped = lambda array: array.reshape(turns, agents).tolist()
        return {"advantages": shaped(me.action_level_advantages), "returns": shaped(me.action_level_returns)}

    return run


def mars_turn_advantage(functionals):
    names = ("masked_mean", "masked_var", "masked_whiten", "compute_reinforce_return", "normalize_unique_values")
    more = ("normalize_unique_values_by_player", "score_normalize", "reward_normalize_by_player", "compute_advantage")
    space = load(functionals, *names, *more, torch=torch)

    def run(trajectories, gamma, advantage_norm, tokens):
        # Every trajectory fills the same number of tokens, so that no padding is among the values that are normalised.
        width = sum(tokens[0])
        rewards, ends = torch.zeros(len(trajectories), width), torch.zeros(len(trajectories), width)
        last = [[sum(lengths[: turn + 1]) - 1 for turn in range(len(lengths))] for lengths in tokens]
        for row, trajectory in enumerate(trajectories):
            for turn, reward in enumerate(trajectory["turn_rewards"]):
                rewards[row, last[row][turn]] = reward
                ends[row, last[row][turn]] = 1
        players = [f"game_p{one['player']}" for one in trajectories]
        data = Space(non_tensor_batch={"group_ids": players}, batch={}, meta_info={})
        method = Space(grouping="batch", method="mean")
        centred = space["reward_normalize_by_player"](data, rewards, method, mask=ends)
        data.batch["token_level_rewards"] = centred
        mask = torch.ones(len(trajectories), width)
        space["compute_advantage"](data, gamma, 1.0, "reinforce", advantage_norm=advantage_norm, response_mask=mask)
        of = data.batch["advantages"]
        return {one["id"]: [of[row, at].item() for at in last[row]] for row, one in enumerate(trajectories)}

    return run


def at_grpo(trainer, core):
    assign, estimate = petting_uids(trainer), plain_grpo(core)

    def run(steps, scale_std, eps):
        columns = {name: numpy.array([one[name[:-4]] for one in steps]) for name in ("env_idx", "turn_idx", "agent_idx")}
        assign(None, Batch(size=len(steps), non_tensor_batch=columns))
        return estimate(columns["uid"].tolist(), [one["reward"] for one in steps], scale_std, eps)

    return run


def metaagentx(trainer, core):
    assign, estimate = petting_uids(trainer), plain_grpo(core)

    def run(exec_rewards, executor_group, scale_std, eps):
        designs, executions = numpy.shape(exec_rewards)
        design = list(range(designs)) + [one for one in range(designs) for _ in range(executions)]
        agent = [0] * designs + [1] * designs * executions
        worth = [float(numpy.mean(row)) for row in exec_rewards] + [one for row in exec_rewards for one in row]
        zeros = numpy.zeros(len(agent), dtype=int)
        columns = {"env_idx": zeros, "turn_idx": zeros, "agent_idx": numpy.array(agent), "design_idx": numpy.array(design)}
        batch = Batch(size=len(agent), non_tensor_batch=columns)
        assign(None, batch, execute_sample_num=executions, executor_group_mode=executor_group)
        advantages = estimate(columns["uid"].tolist(), worth, scale_std, eps)
        return {"designer": advantages[:designs], "executor": advantages[designs:]}

    return run
