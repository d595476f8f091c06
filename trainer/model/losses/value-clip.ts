/**
 * The loss of a critic whose step is bounded by its output when the tokens were sampled.
 *
 * Source: verl, verl/trainer/ppo/core_algos.py (compute_value_loss); ReMA and UnityMAS-O. Verified (code). Half the squared error; forks of
 * verl before 0.8, as in Dr. MAS and MATPO, lack the half. Aggregation is in the weights. Dropped: MARFT's Huber error.
 */
import { type Static, Type } from 'typebox';
import { refuseInput, requireRows } from '../../../store/evaluate/methods/refuse.ts';
import { Bit } from '../../../store/evaluate/methods/shapes.ts';
import { mean } from '../../../store/evaluate/methods/statistics.ts';
import type { LossMethod } from './method.ts';

/** One token's loss in plain numbers. */
export function valueClipToken(
  value: number,
  oldValue: number,
  target: number,
  { valueClip = 0.5 }: { readonly valueClip?: number } = {},
): number {
  const held = Math.min(Math.max(value, oldValue - valueClip), oldValue + valueClip);
  return Math.max((value - target) ** 2, (held - target) ** 2) / 2;
}

const Column = Type.Array(Type.Number());
const Input = Type.Object({ pred: Column, old: Column, returns: Column, mask: Type.Optional(Type.Array(Bit)) });
const params = { clip: 0.5 };

export const valueClip: LossMethod<Static<typeof Input>, typeof params, number> = {
  name: 'value_clip_loss',
  kind: 'loss',
  source: 'verl/trainer/ppo/core_algos.py (compute_value_loss); verified (code)',
  version: 1,
  summary: 'Half the mean over tokens of the larger squared error, of the value or of the value held near what it was.',
  params,
  limits: { clip: Type.Number({ minimum: 0 }) },
  input: Input,
  run: ({ pred, old, returns, mask }, { clip: bound }) => {
    requireRows('old', old, pred.length, 'pred');
    requireRows('returns', returns, pred.length, 'pred');
    if (mask !== undefined) requireRows('mask', mask, pred.length, 'pred');
    const tokens = pred.map((value, t) => valueClipToken(value, old[t]!, returns[t]!, { valueClip: bound }));
    const counted = mask === undefined ? tokens : tokens.filter((_, t) => mask[t] === 1);
    if (counted.length === 0) refuseInput('pred', 'at least one token that is not masked', 'none');
    return mean(counted);
  },
};
