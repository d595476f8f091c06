/** PettingLLMs (pettingllms-ai/PettingLLMs): AT-GRPO, its rewards of turns and the groups that it learns from. */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { groupOf, stepKey } from '../judging/facts.ts';
import { score, verdictOn } from '../judging/judgement.ts';
import { EARNED, numbersOn, ownRewardsOf } from '../judging/named-feedback.ts';
import { along } from '../judging/over-episodes.ts';
import { creditByEnvironment } from '../judging/reward-groups.ts';
import { groupFlags } from './group-flags.ts';
import { VERL_PARAMS, verlAdvantage } from './group-relative.ts';
import { method } from './method.ts';
import { refuseInput, requireRows } from './refuse.ts';
import { Key, Reward } from './shapes.ts';
import { groupRows, largest, mean, stableOrder, standardDeviation } from './statistics.ts';

/** var(ddof 0) / (max − min)², between 0 and 0.25; 0 when all are equal or there are none. */
function rangeNormalizedVarianceOf(rewards: readonly number[]): number {
  const low = -largest(rewards.map((reward) => -reward));
  // Halved, so that the range of numbers near the largest double is one too.
  const range = largest(rewards) / 2 - low / 2;
  return range > 0
    ? standardDeviation(
        rewards.map((reward) => (reward / 2 - low / 2) / range),
        0,
      ) ** 2
    : 0;
}

/**
 * AT-GRPO: candidates are compared only with candidates of the same agent, in the same turn, of the same environment,
 * because only those answered the same prompt.
 *
 * Source: PettingLLMs, pettingllms/trainer/multi_agents_ppo_trainer.py. Verified (code).
 * Kept: verl's GRPO under the key (env, turn, agent). Needs every candidate of the tree, not only the chosen one.
 * Dropped: the mode without tree sampling (key env, last turns only), which is `grpo_advantage` on those rows.
 * Open: the source's own fork of verl gives a group of one the
 * advantage 0 where other groups are larger; here it is verl's, the reward.
 * Version 2 gives a candidate that the episode did not go on from no credit of the episode.
 */
export const atGrpoAdvantage = method({
  name: 'at_grpo_advantage',
  kind: 'credit',
  source: 'AT-GRPO: PettingLLMs, multi_agents_ppo_trainer.py; verified (code)',
  version: 2,
  summary: 'GRPO within each environment, turn and agent.',
  teams: 'several agents',
  params: VERL_PARAMS,
  limits: { eps: Type.Number({ minimum: 0 }) },
  input: Type.Object({
    steps: Type.Array(Type.Object({ env: Key, turn: Key, agent: Key, reward: Reward })),
  }),
  run: ({ steps }, params): (number | null)[] =>
    verlAdvantage(
      groupRows(
        steps.map(({ env }) => env),
        steps.map(({ turn }) => turn),
        steps.map(({ agent }) => agent),
      ),
      steps.map(({ reward }) => reward),
      params,
    ),
  judged: {
    reads: ['rewards'],
    rows: (facts, ask) => creditByEnvironment(facts, ask.run),
  },
});

/**
 * AT-GRPO's reward: what the team earned, weighted, plus what the agent earned itself.
 *
 * Source: PettingLLMs, trainer and environment code. The mixture rule is secondary. An agent without a local reward has none.
 * Kept: α 1. Dropped: how team and local rewards are found. Open: the mixture rule.
 */
export const pettingMixedReward = method({
  name: 'petting_mixed_reward',
  kind: 'reward',
  source: 'AT-GRPO: PettingLLMs; mixture secondary',
  version: 1,
  summary: 'alpha times the team’s reward plus the agent’s own.',
  teams: 'several agents',
  params: { alpha: 1, ...EARNED },
  input: Type.Object({ team: Type.Number(), local: Type.Array(Reward) }),
  run: ({ team, local }, { alpha }): (number | null)[] =>
    local.map((own) => (own === null ? null : alpha * team + own)),
  judged: {
    over: 'episode',
    reads: ['rewards', 'feedback'],
    writes: ['rewards', 'scores'],
    /** AT-GRPO's mixture: the episode's reward for the team, and the step's own, or the one its agent was given for the whole episode. */
    each: (facts, ask) => {
      const ownReward = ownRewardsOf(facts, ask.params);
      const ofAgent = numbersOn(facts.feedback, 'agent', ask.params.reward_name);
      return ({ episode, steps }) => {
        if (episode.reward === null) return 'missing_reward';
        const local = steps.map(
          (step) => ownReward(step) ?? ofAgent.get(stepKey(step.episode_id, step.agent ?? '')) ?? null,
        );
        return {
          input: { team: episode.reward, local },
          rows: (values) => along(steps, steps, values, { none: 'no_local_reward', other: () => 'no_local_reward' }),
        };
      };
    },
  },
});

type TurnMode = 'turn_weighted' | 'discount' | 'binary' | 'normalized';
const TURNS: { mode: TurnMode; max_turns: number; gamma: number } = {
  mode: 'turn_weighted',
  max_turns: 8,
  gamma: 0.99,
};

const REWARD: Record<TurnMode, (final: number, turn: number, turns: number, gamma: number) => number> = {
  turn_weighted: (final, turn, turns) => (final * (turn + 1)) / turns,
  discount: (final, turn, turns, gamma) => final * gamma ** (turns - turn),
  binary: (final) => (final > 0.5 ? 1 : 0),
  normalized: (final) => Math.min(Math.max(final, -1), 1),
};

/**
 * Spreads a final reward over the turns that led to it.
 *
 * Source: PettingLLMs, trainer code. Verified (code). Turns count from 0. turn_weighted: r·(t+1)/T; discount: r·γ^(T−t);
 * binary: 1 if r > 0.5, otherwise 0; normalized: r clipped to −1 … 1.
 * Kept: four variants, T 8, γ 0.99. Added in version 2: a turn from T on is refused where T weighs it; the source ends at T, and such a turn
 * would earn more than the final reward. Dropped: nothing. Open: nothing known.
 */
export const pettingTurnReward = method({
  name: 'petting_turn_reward',
  kind: 'reward',
  source: 'AT-GRPO: PettingLLMs; verified (code)',
  version: 2,
  summary: 'A reward for each turn from the final one: weighted by turn, discounted, binary or clipped.',
  params: TURNS,
  limits: {
    mode: Type.Union([
      Type.Literal('turn_weighted'),
      Type.Literal('discount'),
      Type.Literal('binary'),
      Type.Literal('normalized'),
    ]),
    max_turns: Type.Integer({ minimum: 1 }),
    gamma: Type.Number({ minimum: 0, maximum: 1 }),
  },
  input: Type.Object({ final: Type.Number(), turns: Type.Array(Type.Integer({ minimum: 0 })) }),
  run: ({ final, turns }, { mode, max_turns, gamma }): number[] => {
    const over = mode === 'turn_weighted' || mode === 'discount' ? turns.findIndex((turn) => turn >= max_turns) : -1;
    if (over >= 0) refuseInput(`turns[${over}]`, `a turn before max_turns, which is ${max_turns}`, turns[over]);
    return turns.map((turn) => REWARD[mode](final, turn, max_turns, gamma));
  },
  judged: {
    over: 'episode',
    writes: ['rewards', 'scores'],
    /** The episode's reward, for each step with a turn. */
    each:
      () =>
      ({ episode, steps }) => {
        if (episode.reward === null) return 'missing_reward';
        const counted = steps.filter(({ turn }) => turn !== null && turn >= 0);
        const turns = counted.map(({ turn }) => turn!);
        return {
          input: { final: episode.reward, turns },
          rows: (values) => along(steps, counted, values, { none: 'no_turn', other: () => 'no_turn' }),
        };
      },
  },
});

type GroupMode = 'dapo' | 'std' | 'mean' | 'uid';
const GROUPS: { mode: GroupMode; filter_ratio: number } = { mode: 'dapo', filter_ratio: 0 };

/**
 * Drops the groups, or the samples inside groups, that teach least.
 *
 * Source: pettingllms-ai/PettingLLMs, core_algo.py. Verified (code). Groups are those of AT-GRPO.
 * `dapo` drops groups without spread and uses no ratio; `std` and `mean` rank groups by spread or mean reward and drop the lowest
 * int(groups · ratio); `uid` drops in each group the int(samples · ratio) furthest from its mean. A group of one scores 0 in `std`
 * and `mean`, is dropped in `dapo` and untouched in `uid`. Ties go by first appearance, in `uid` by row.
 * Left behind: the release collects rewards only when the ratio is above 0, so that its `dapo` may drop nothing, and counts a
 * missing reward as 0. Here a row without a reward is not kept and not counted.
 * Kept: all four modes, the cut towards zero. Dropped: that a ratio of 0 switches `dapo` off. Open: nothing known.
 */
export const pettingGroupFilter = method({
  name: 'petting_group_filter',
  kind: 'filter',
  source: 'PettingLLMs: pettingllms-ai/PettingLLMs, core_algo.py; verified (code)',
  version: 1,
  summary:
    'Keeps the rows of groups with spread (dapo), of the groups ranked highest (std, mean), or near their mean (uid).',
  teams: 'several agents',
  params: GROUPS,
  limits: {
    mode: Type.Union([Type.Literal('dapo'), Type.Literal('std'), Type.Literal('mean'), Type.Literal('uid')]),
    filter_ratio: Type.Number({ minimum: 0, maximum: 1 }),
  },
  input: Type.Object({ group: Type.Array(Key), reward: Type.Array(Reward) }),
  run: ({ group, reward }, { mode, filter_ratio }): number[] => {
    requireRows('reward', reward, group.length, 'group');
    const rows = [...reward.keys()].filter((row) => reward[row] !== null);
    const groups = [...groupBy(rows, (row) => group[row]!).values()];
    const kept = keepRows(groups, (row) => reward[row]!, mode, filter_ratio);
    return kept.flat().sort((a, b) => a - b);
  },
  judged: {
    reads: ['rewards'],
    scope: () => 'set',
    /**
     * Groups are environment × turn × agent, rows are steps, as AT-GRPO compares them. Over the set: two of the modes rank all groups
     * against each other.
     */
    rows: ({ episodes, steps, rewardOf }, ask) => {
      const envs = new Map(episodes.map((episode) => [episode.episode_id, episode.env_id ?? groupOf(episode)]));
      const known = steps.filter((step) => step.turn !== null && step.agent !== null && rewardOf(step) !== null);
      const group = known.map(({ episode_id, turn, agent }) => JSON.stringify([envs.get(episode_id), turn, agent]));
      const reward = known.map(rewardOf);
      const kept = new Set(ask.run({ group, reward }).map((i) => known[i]!));
      const flags = new Map(groupFlags(group, reward).map((flag, i) => [known[i]!, flag]));
      const acted = new Set(steps.map((step) => step.episode_id));
      return [
        ...steps.map((step) => {
          if (step.turn === null) return verdictOn(step, null, 'no_turn');
          if (step.agent === null) return verdictOn(step, null, 'no_agent');
          if (rewardOf(step) === null) return verdictOn(step, null, 'missing_reward');
          return verdictOn(step, kept.has(step), kept.has(step) ? null : (flags.get(step) ?? 'dropped'));
        }),
        ...episodes.filter(({ episode_id }) => !acted.has(episode_id)).map((one) => verdictOn(one, null, 'no_steps')),
      ];
    },
  },
});

function keepRows(
  groups: readonly number[][],
  rewardOf: (row: number) => number,
  mode: GroupMode,
  ratio: number,
): number[][] {
  const spread = (rows: readonly number[]) => rangeNormalizedVarianceOf(rows.map(rewardOf));
  switch (mode) {
    case 'dapo':
      return groups.filter((rows) => spread(rows) > 0);
    case 'std':
      return withoutLowest(groups, spread, ratio);
    case 'mean':
      return withoutLowest(groups, (rows) => (rows.length === 1 ? 0 : mean(rows.map(rewardOf))), ratio);
    case 'uid':
      return groups.map((rows) => withoutFurthest(rows, rewardOf, ratio));
  }
}

function withoutLowest(
  groups: readonly number[][],
  score: (rows: readonly number[]) => number,
  ratio: number,
): number[][] {
  const order = stableOrder(groups, score, 'ascending');
  return order.slice(Math.trunc(groups.length * ratio)).map((i) => groups[i]!);
}

function withoutFurthest(rows: readonly number[], rewardOf: (row: number) => number, ratio: number): number[] {
  if (rows.length === 1) return [...rows];
  const centre = mean(rows.map(rewardOf));
  const order = stableOrder(rows, (row) => Math.abs(rewardOf(row) - centre), 'descending');
  return order.slice(Math.trunc(rows.length * ratio)).map((i) => rows[i]!);
}

/**
 * How far the rewards of a group are spread over their own range: 0 when they agree, 0.25 when half are lowest and half highest.
 *
 * Source: pettingllms-ai/PettingLLMs, core_algo.py. Verified (code). Null rewards are left out; null when none is left.
 * Kept: ddof 0. Dropped: nothing. Open: nothing known.
 */
export const rangeNormalizedVariance = method({
  name: 'range_normalized_variance',
  kind: 'score',
  source: 'PettingLLMs: pettingllms-ai/PettingLLMs, core_algo.py; verified (code)',
  version: 1,
  summary: 'Variance (ddof 0) divided by the squared range; 0 for equal rewards.',
  input: Type.Object({ rewards: Type.Array(Reward) }),
  run: ({ rewards }): number | null => {
    const known = rewards.filter((reward) => reward !== null);
    return known.length === 0 ? null : rangeNormalizedVarianceOf(known);
  },
  judged: {
    rows: ({ episodes }, ask) =>
      [...groupBy(episodes, groupOf)].map(([group, members]) => {
        const rewards = members.map((member) => member.reward);
        if (rewards.every((reward) => reward === null)) return score(`g/${group}`, null, 'missing_reward');
        const value = ask.answer({ rewards });
        if (typeof value === 'string') return score(`g/${group}`, null, value);
        const flag = groupFlags(members.map(groupOf), rewards).find((one) => one !== 'missing_reward') ?? null;
        return score(`g/${group}`, value, flag);
      }),
  },
});
