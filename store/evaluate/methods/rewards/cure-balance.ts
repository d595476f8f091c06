/**
 * Rewards rescaled so that praise and blame weigh the same.
 *
 * Source: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136. Verified (code).
 * Kept: only the positive side is scaled; division by the std (ddof 0) without shifting the mean; null when a side is empty.
 * Dropped: nothing. Open: nothing known.
 */

import { Type } from 'typebox';
import { rewardsBySet } from '../../judging/candidate-sets.ts';
import { cureBalanceOf } from '../cure.ts';
import { method } from '../method.ts';

export const cureBalance = method({
  name: 'cure_balance',
  kind: 'reward',
  source: 'CURE: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136; verified (code)',
  version: 1,
  summary: 'Scales the positive rewards to weigh as much as the negative ones, then divides by the std.',
  input: Type.Object({ x: Type.Array(Type.Number()) }),
  run: ({ x }): number[] | null => cureBalanceOf(x),
  judged: {
    reads: ['rewards'],
    rows: (facts, ask) =>
      rewardsBySet(
        facts,
        (step) => {
          const value = facts.rewardOf(step);
          return value === null ? 'missing_reward' : { value };
        },
        (known) => ask.answer({ x: known.map(({ value }) => value) }),
      ),
  },
});
