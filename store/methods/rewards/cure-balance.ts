/**
 * Rewards rescaled so that praise and blame weigh the same.
 *
 * Source: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136. Verified (code).
 * Kept: only the positive side is scaled; division by the std (ddof 0) without shifting the mean; null when a side is empty.
 * Dropped: nothing. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import { cureBalanceOf } from '../cure.ts';
import type { Method } from '../method.ts';

const Input = Type.Object({ x: Type.Array(Type.Number()) });

export const cureBalance: Method<Static<typeof Input>, Record<never, never>, number[] | null> = {
  name: 'cure_balance',
  kind: 'reward',
  source: 'CURE: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136; verified (code)',
  version: 1,
  needs: 'rewards of candidates',
  summary: 'Scales the positive rewards to weigh as much as the negative ones, then divides by the std.',
  params: {},
  input: Input,
  run: ({ x }) => cureBalanceOf(x),
};
