/**
 * GRPO: each sample against the other samples of its query; with `scale_std: false`, Dr. GRPO.
 *
 * Source: verl, verl/trainer/ppo/core_algos.py (compute_grpo_outcome_advantage). Verified (code).
 * Kept: ddof 1, eps added to the std, and a group of one measured against mean 0 and std 1, so that its reward comes through:
 * surprising, and therefore flagged by whoever stores it. A null reward has a null advantage and no part in the statistics.
 * Dropped: the spread over tokens; an advantage is one number a sample.
 * Open: nothing known.
 * Version 2 gives a candidate that the episode did not go on from no credit of the episode.
 */

import { Type } from 'typebox';
import { creditByGroup } from '../../judging/reward-groups.ts';
import { VERL_PARAMS, verlAdvantage } from '../group-relative.ts';
import { method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { Key, Reward } from '../shapes.ts';
import { groupRows } from '../statistics.ts';

export const grpoAdvantage = method({
  name: 'grpo_advantage',
  kind: 'credit',
  source: 'GRPO, Dr. GRPO: verl/trainer/ppo/core_algos.py; verified (code)',
  version: 2,
  summary: 'Reward minus the mean of its group, divided by the group’s std (Dr. GRPO: not divided).',
  params: VERL_PARAMS,
  limits: { eps: Type.Number({ minimum: 0 }) },
  input: Type.Object({ group: Type.Array(Key), reward: Type.Array(Reward) }),
  run: ({ group, reward }, params): (number | null)[] => {
    requireRows('reward', reward, group.length, 'group');
    return verlAdvantage(groupRows(group), reward, params);
  },
  judged: {
    reads: ['rewards'],
    rows: (facts, ask) => creditByGroup(facts, ask.run),
  },
});
