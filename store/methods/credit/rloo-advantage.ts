/**
 * Each sample against the mean of the others in its group.
 *
 * Source: verl, verl/trainer/ppo/core_algos.py (RLOO). Verified (code). A group of one has nobody to compare with and keeps its reward.
 * A null reward has a null advantage.
 * Kept: no division. Dropped: the spread over tokens. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { Key, Reward } from '../shapes.ts';
import { groupRows, groupStatistics } from '../statistics.ts';

const Input = Type.Object({ group: Type.Array(Key), reward: Type.Array(Reward) });

export const rlooAdvantage: Method<Static<typeof Input>, Record<never, never>, (number | null)[]> = {
  name: 'rloo_advantage',
  kind: 'credit',
  source: 'RLOO: verl/trainer/ppo/core_algos.py; verified (code)',
  version: 1,
  needs: 'rewards by group',
  summary: 'Reward minus the mean reward of the other samples of its group.',
  params: {},
  input: Input,
  run: ({ group, reward }) => {
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
};
