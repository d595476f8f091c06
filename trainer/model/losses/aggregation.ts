/**
 * From losses of tokens to one number, in the six ways that trainers do it. One name has meant several numbers, so the source of each:
 *
 * - `token-mean`: all tokens alike. DAPO (arXiv:2503.14476, equation 8); TRL's bnpo and dapo.
 * - `seq-mean-token-sum`: verl/trainer/ppo/core_algos.py (agg_loss).
 * - `seq-mean-token-mean`: GRPO (arXiv:2402.03300, equation 3); 1e-8 is added to the tokens of a sequence, as verl does.
 * - `seq-mean-token-sum-norm`: Dr. GRPO in verl 0.9.
 * - `token-sum-norm`: what verl called `seq-mean-token-sum-norm` before 0.9, and Dr. MAS, MATPO and UnityMAS-O still do.
 * - `dr_grpo`: Dr. GRPO (arXiv:2503.20783, listing 1) in TRL: over all sequences, those without a token too.
 *
 * All verified (code). Means over sequences count those with a token, but for `dr_grpo`. `norm` is the padded length where it
 * is not given. In the graph an aggregation is a weight of each token: `aggregationWeights`.
 */
import { type Static, Type } from 'typebox';
import { refuseInput, requireRows } from '../../../store/evaluate/methods/refuse.ts';
import { Bit, nullable } from '../../../store/evaluate/methods/shapes.ts';
import { sum } from '../../../store/evaluate/methods/statistics.ts';
import type { LossMethod } from './method.ts';

export type AggregationMode =
  | 'token-mean'
  | 'seq-mean-token-sum'
  | 'seq-mean-token-mean'
  | 'seq-mean-token-sum-norm'
  | 'token-sum-norm'
  | 'dr_grpo';

export const AggregationModes = Type.Union([
  Type.Literal('token-mean'),
  Type.Literal('seq-mean-token-sum'),
  Type.Literal('seq-mean-token-mean'),
  Type.Literal('seq-mean-token-sum-norm'),
  Type.Literal('token-sum-norm'),
  Type.Literal('dr_grpo'),
]);

/** Divisor of the modes that have one, in tokens; the longest row of the batch where it is null. */
export type Norm = { readonly norm?: number | null };

const EPSILON = 1e-8;

/**
 * Weights [sequences, tokens] whose sum with the losses of tokens is the aggregate. Multiplied with advantages they are what a policy loss
 * takes as `weights`. Parts of a batch take their rows of the weights of the whole.
 * @param masks for each sequence and token whether it is trained
 */
export function aggregationWeights(
  mode: AggregationMode,
  masks: readonly (readonly boolean[])[],
  { norm = null }: Norm = {},
): number[][] {
  const counts = masks.map((mask) => mask.filter(Boolean).length);
  const filled = counts.filter((count) => count > 0).length;
  const length = norm ?? longest(masks);
  const weight: Record<AggregationMode, (count: number) => number> = {
    'token-mean': () => 1 / sum(counts),
    'seq-mean-token-sum': () => 1 / filled,
    'seq-mean-token-mean': (count) => 1 / ((count + EPSILON) * filled),
    'seq-mean-token-sum-norm': () => 1 / (filled * length),
    'token-sum-norm': () => 1 / length,
    dr_grpo: () => 1 / (masks.length * length),
  };
  return masks.map((mask, i) => mask.map((on) => (on ? weight[mode](counts[i]!) : 0)));
}

/**
 * The aggregate of losses of tokens.
 * @throws TroupeError `method_input` when no token is left to take the mean of.
 */
export function aggregate(
  mode: AggregationMode,
  loss: readonly (readonly number[])[],
  mask: readonly (readonly (0 | 1)[])[],
  { norm = null }: Norm = {},
): number {
  const tokens = loss.map((row, i) => row.filter((_, t) => mask[i]![t] === 1));
  const filled = tokens.filter((row) => row.length > 0);
  if (filled.length === 0) refuseInput('mask', 'at least one entry of 1', 'none');
  const length = norm ?? longest(loss);
  const total = sum(tokens.flat());
  switch (mode) {
    case 'token-mean':
      return total / tokens.flat().length;
    case 'seq-mean-token-sum':
      return total / filled.length;
    case 'seq-mean-token-mean':
      return sum(filled.map((row) => sum(row) / (row.length + EPSILON))) / filled.length;
    case 'seq-mean-token-sum-norm':
      return total / filled.length / length;
    case 'token-sum-norm':
      return total / length;
    case 'dr_grpo':
      return total / loss.length / length;
  }
}

function longest(rows: readonly (readonly unknown[])[]): number {
  return rows.reduce((most, row) => Math.max(most, row.length), 0);
}

const Input = Type.Object({ loss: Type.Array(Type.Array(Type.Number())), mask: Type.Array(Type.Array(Bit)) });
type Params = { readonly mode: AggregationMode; readonly norm: number | null };
const params: Params = { mode: 'token-mean', norm: null };

export const aggLoss: LossMethod<Static<typeof Input>, Params, number> = {
  name: 'agg_loss',
  kind: 'loss',
  source: 'verl/trainer/ppo/core_algos.py (agg_loss) and trl/trainer/grpo_trainer.py; verified (code)',
  version: 1,
  summary: 'Losses of tokens as one number, in the way of the mode.',
  params,
  limits: { mode: AggregationModes, norm: nullable(Type.Number({ exclusiveMinimum: 0 })) },
  input: Input,
  run: ({ loss, mask }, { mode, norm }) => {
    requireRows('mask', mask, loss.length, 'loss');
    for (const [i, row] of mask.entries()) requireRows(`mask[${i}]`, row, loss[i]!.length, `loss[${i}]`);
    return aggregate(mode, loss, mask, { norm });
  },
};
