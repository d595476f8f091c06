/**
 * Drops the groups whose rewards are all the same, because nothing can be learned from comparing them.
 *
 * Source: microsoft/rStar, rstar2_agent/down_sample/reject_sampling.py. Verified (code).
 * Kept: the tolerance of numpy's isclose around each reward, measured from the group's first; a group of one is always dropped.
 * Dropped: cutting the rest to a multiple of the number of workers, which is the trainer's business. A row without a reward is not kept.
 * Open: nothing known.
 */

import { Type } from 'typebox';
import { groupOf } from '../../judging/facts.ts';
import { verdictsByReward } from '../../judging/reward-groups.ts';
import { method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { Key, Reward } from '../shapes.ts';
import { groupRows } from '../statistics.ts';

const Tolerance = Type.Number({ minimum: 0 });

export const rejectEqualReward = method({
  name: 'reject_equal_reward',
  kind: 'filter',
  source: 'rStar2-Agent: microsoft/rStar, down_sample/reject_sampling.py; verified (code)',
  version: 1,
  summary: 'Keeps the rows of groups whose rewards differ.',
  params: { atol: 1e-8, rtol: 1e-5 },
  limits: { atol: Tolerance, rtol: Tolerance },
  input: Type.Object({ group: Type.Array(Key), reward: Type.Array(Reward) }),
  run: ({ group, reward }, { atol, rtol }): number[] => {
    requireRows('reward', reward, group.length, 'group');
    const { numbers, count } = groupRows(group);
    const first: (number | undefined)[] = new Array(count);
    const differs = new Uint8Array(count);
    reward.forEach((one, row) => {
      if (one === null) return;
      const at = numbers[row]!;
      const start = first[at];
      if (start === undefined) first[at] = one;
      else if (Math.abs(start - one) > atol + rtol * Math.abs(one)) differs[at] = 1;
    });
    return reward.flatMap((one, row) => (one !== null && differs[numbers[row]!] === 1 ? [row] : []));
  },
  judged: {
    rows: ({ episodes }, ask) => {
      const reward = episodes.map((episode) => episode.reward);
      return verdictsByReward(episodes, reward, ask.run({ group: episodes.map(groupOf), reward }));
    },
  },
});
