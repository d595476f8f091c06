/**
 * Each sample against the mean of the others in its group.
 *
 * Source: verl, verl/trainer/ppo/core_algos.py (RLOO). Verified (code). A group of one has nobody to compare with and keeps its reward.
 * A null reward has a null advantage.
 * Kept: no division. Dropped: the spread over tokens. Open: nothing known.
 * Version 2 gives a candidate that the episode did not go on from no credit of the episode.
 */

import { Type } from 'typebox';
import { creditByGroup } from '../../judging/reward-groups.ts';
import { method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { Key, Reward } from '../shapes.ts';
import { groupRows, groupStatistics } from '../statistics.ts';

export const rlooAdvantage = method({
  name: 'rloo_advantage',
  kind: 'credit',
  source: 'RLOO: verl/trainer/ppo/core_algos.py; verified (code)',
  version: 2,
  summary: 'Reward minus the mean reward of the other samples of its group.',
  input: Type.Object({ group: Type.Array(Key), reward: Type.Array(Reward) }),
  run: ({ group, reward }): (number | null)[] => {
    requireRows('reward', reward, group.length, 'group');
    const groups = groupRows(group);
    const { size, mean } = groupStatistics(groups, reward, 0);
    return reward.map((one, row) => {
      if (one === null) return null;
      const at = groups.numbers[row]!;
      const n = size[at]!;
      // r − (n·mean − r)/(n − 1) = n/(n − 1)·(r − mean), which is exactly 0 where all are equal.
      return n === 1 ? one : ((one - mean[at]!) * n) / (n - 1);
    });
  },
  judged: {
    reads: ['rewards'],
    rows: (facts, ask) => creditByGroup(facts, ask.run),
  },
});
