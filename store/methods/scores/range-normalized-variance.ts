/**
 * How far the rewards of a group are spread over their own range: 0 when they agree, 0.25 when half are lowest and half highest.
 *
 * Source: pettingllms-ai/PettingLLMs, core_algo.py. Verified (code). Null rewards are left out; null when none is left.
 * Kept: ddof 0. Dropped: nothing. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { rangeNormalizedVarianceOf } from '../petting.ts';
import { Reward } from '../shapes.ts';

const Input = Type.Object({ rewards: Type.Array(Reward) });

export const rangeNormalizedVariance: Method<Static<typeof Input>, Record<never, never>, number | null> = {
  name: 'range_normalized_variance',
  kind: 'score',
  source: 'PettingLLMs: pettingllms-ai/PettingLLMs, core_algo.py; verified (code)',
  version: 1,
  needs: 'rewards by group',
  summary: 'Variance (ddof 0) divided by the squared range; 0 for equal rewards.',
  params: {},
  input: Input,
  run: ({ rewards }) => {
    const known = rewards.filter((reward) => reward !== null);
    return known.length === 0 ? null : rangeNormalizedVarianceOf(known);
  },
};
