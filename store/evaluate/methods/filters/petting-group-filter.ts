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

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { groupOf } from '../../judging/facts.ts';
import { verdictOn } from '../../judging/judgement.ts';
import { groupFlags } from '../group-flags.ts';
import { method } from '../method.ts';
import { rangeNormalizedVarianceOf } from '../petting.ts';
import { requireRows } from '../refuse.ts';
import { Key, Reward } from '../shapes.ts';
import { mean, stableOrder } from '../statistics.ts';

type Mode = 'dapo' | 'std' | 'mean' | 'uid';
const params: { mode: Mode; filter_ratio: number } = { mode: 'dapo', filter_ratio: 0 };

export const pettingGroupFilter = method({
  name: 'petting_group_filter',
  kind: 'filter',
  source: 'PettingLLMs: pettingllms-ai/PettingLLMs, core_algo.py; verified (code)',
  version: 1,
  summary:
    'Keeps the rows of groups with spread (dapo), of the groups ranked highest (std, mean), or near their mean (uid).',
  params,
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
  mode: Mode,
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
