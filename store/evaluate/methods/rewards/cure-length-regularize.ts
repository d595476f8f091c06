/**
 * Rewards of long-reasoning testers, by length: the short ones among the right are praised, the overlong ones are not.
 *
 * Source: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136. Verified (code). Off by default there.
 * Kept: only the sign of a reward counts and 0 belongs to neither side; the target is the median length of the positives, clamped;
 * every negative gets the minimum of the whole value array, which is 0 where there is no positive. So a right but overlong sample
 * turns negative. Null without positives.
 * Dropped: nothing. Open: nothing known.
 */

import { Type } from 'typebox';
import { rewardsBySet } from '../../judging/candidate-sets.ts';
import { cureBalanceOf } from '../cure.ts';
import { method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { median } from '../statistics.ts';

export const cureLengthRegularize = method({
  name: 'cure_length_regularize',
  kind: 'reward',
  source: 'CURE: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136; verified (code)',
  version: 1,
  summary: 'Replaces positive rewards by how far below the median length they stay, then balances both sides.',
  params: { min_len: 1000, max_len: 8000 },
  limits: { min_len: Type.Number({ minimum: 0 }), max_len: Type.Number({ minimum: 0 }) },
  input: Type.Object({ reward: Type.Array(Type.Number()), length: Type.Array(Type.Number({ minimum: 0 })) }),
  run: ({ reward, length }, { min_len, max_len }): number[] | null => {
    requireRows('length', length, reward.length, 'reward');
    const lengths = length.filter((_, i) => reward[i]! > 0);
    if (lengths.length === 0) return null;
    if (lengths.every((one) => one === lengths[0])) return cureBalanceOf(reward.map(Math.sign));
    const target = Math.min(Math.max(median(lengths), min_len), max_len);
    const values = reward.map((one, i) => (one > 0 ? target - length[i]! : 0));
    const least = values.reduce((a, b) => Math.min(a, b), 0);
    return cureBalanceOf(values.map((value, i) => (reward[i]! < 0 ? least : value)));
  },
  judged: {
    reads: ['rewards', 'content'],
    rows: (facts, ask) =>
      rewardsBySet(
        facts,
        (step) => {
          const [value, { length }] = [facts.rewardOf(step), facts.contentOf(step)];
          if (value === null) return 'missing_reward';
          return length === null ? 'no_length' : { value, length };
        },
        (known) => ask.answer({ reward: known.map(({ value }) => value), length: known.map(({ length }) => length) }),
      ),
  },
});
