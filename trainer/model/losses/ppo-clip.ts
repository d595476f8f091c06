/**
 * The clipped policy loss by tokens, that of PPO, GRPO, Dr. GRPO and DAPO, which differ in bounds, advantages and aggregation.
 *
 * Source: verl, verl/trainer/ppo/core_algos.py (compute_policy_loss). Verified (code). Kept: the log-ratio clamped to ±20, separate
 * bounds below and above, the dual clip with c = 3. Aggregation and advantage are one weight of each token. Dropped: rollout
 * correction weights.
 */
import { type Static, Type } from 'typebox';
import { requireRows } from '../../../store/evaluate/methods/refuse.ts';
import { Bit, nullable } from '../../../store/evaluate/methods/shapes.ts';
import type { Value } from '../../tensor/node.ts';
import { clip, exp, less, maximum, scalar, subtract, sum } from '../../tensor/operations.ts';
import { type AggregationMode, AggregationModes, aggregate } from './aggregation.ts';
import type { Loss } from './loss.ts';
import type { LossMethod } from './method.ts';
import { type Bounds, type ClipRange, surrogate, surrogateGraph } from './surrogate.ts';

const LOG_RATIO_BOUND = 20;

export type PpoClipOptions = ClipRange & { readonly dualClip?: number | null };

function boundsOf({ clipLow = 0.2, clipHigh = 0.2, dualClip = 3 }: PpoClipOptions): Bounds {
  return { clipLow, clipHigh, dualClip };
}

/**
 * Σ of the surrogate of each token's ratio exp(log p − log p_old) with its `weight`. Reports `clip_share`, 1 where a bound took the
 * gradient away, and `ratio`.
 */
export function ppoClipLoss(options: PpoClipOptions = {}): Loss {
  const bounds = boundsOf(options);
  return {
    key: `ppo-clip ${bounds.clipLow} ${bounds.clipHigh} ${bounds.dualClip}`,
    build: ({ logprobs, column }) => {
      const free = subtract(logprobs, column('old.logprob'));
      const ratio = exp(clip(free, -LOG_RATIO_BOUND, LOG_RATIO_BOUND));
      const { loss, clipped } = surrogateGraph(column('weight'), ratio, bounds);
      return { loss: sum(loss, [0, 1]), report: { clip_share: maximum(clipped, outside(free)), ratio } };
    },
  };
}

function outside(logRatio: Value): Value {
  return maximum(less(logRatio, scalar(-LOG_RATIO_BOUND)), less(scalar(LOG_RATIO_BOUND), logRatio));
}

export type PolicyToken = {
  readonly loss: number;
  /** True where a bound took the gradient away. */
  readonly clipped: boolean;
  readonly ratio: number;
};

/** One token's loss in plain numbers. */
export function ppoClipToken(
  logprob: number,
  oldLogprob: number,
  advantage: number,
  options: PpoClipOptions = {},
): PolicyToken {
  const free = logprob - oldLogprob;
  const logRatio = Math.min(Math.max(free, -LOG_RATIO_BOUND), LOG_RATIO_BOUND);
  const ratio = Math.exp(logRatio);
  const { loss, clipped } = surrogate(advantage, ratio, boundsOf(options));
  return { loss, clipped: clipped || logRatio !== free, ratio };
}

const Matrix = Type.Array(Type.Array(Type.Number()));
const Input = Type.Object({
  logp: Matrix,
  old_logp: Matrix,
  advantages: Matrix,
  mask: Type.Array(Type.Array(Bit)),
});
type Params = {
  readonly clip_low: number;
  readonly clip_high: number;
  readonly clip_c: number | null;
  readonly agg: AggregationMode;
  readonly norm: number | null;
};
const params: Params = { clip_low: 0.2, clip_high: 0.2, clip_c: 3, agg: 'token-mean', norm: null };

/** `token` has a row for each sequence, null for the tokens that are masked. */
type TokenLosses = { readonly token: readonly (readonly (number | null)[])[]; readonly loss: number };

export const ppoClip: LossMethod<Static<typeof Input>, Params, TokenLosses> = {
  name: 'ppo_clip_loss',
  kind: 'loss',
  source: 'PPO with dual clip: verl/trainer/ppo/core_algos.py; verified (code)',
  version: 1,
  summary: 'The clipped policy loss of each token and their aggregate.',
  params,
  limits: {
    clip_low: Type.Number({ minimum: 0, maximum: 1 }),
    clip_high: Type.Number({ minimum: 0 }),
    clip_c: nullable(Type.Number({ exclusiveMinimum: 1 })),
    agg: AggregationModes,
    norm: nullable(Type.Number({ exclusiveMinimum: 0 })),
  },
  input: Input,
  run: ({ logp, old_logp, advantages, mask }, { clip_low, clip_high, clip_c, agg, norm }) => {
    for (const [name, matrix] of Object.entries({ old_logp, advantages, mask })) {
      requireRows(name, matrix, logp.length, 'logp');
      for (const [i, row] of matrix.entries()) {
        requireRows(`${name}[${i}]`, row, logp[i]!.length, `logp[${i}]`);
      }
    }
    const options = { clipLow: clip_low, clipHigh: clip_high, dualClip: clip_c };
    const loss = logp.map((row, i) =>
      row.map((logprob, t) => ppoClipToken(logprob, old_logp[i]![t]!, advantages[i]![t]!, options).loss),
    );
    return {
      token: loss.map((row, i) => row.map((value, t) => (mask[i]![t] === 1 ? value : null))),
      loss: aggregate(agg, loss, mask, { norm }),
    };
  },
};
