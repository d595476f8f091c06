/**
 * The clipped surrogate that policy losses share, of one ratio and one weight (advantage times aggregation weight): the bound of PPO
 * (arXiv:1707.06347, section 3) with its own value below and above (DAPO, arXiv:2503.14476, section 3.1), and the dual clip for a negative
 * advantage (arXiv:1912.09729, section 4; verl/trainer/ppo/core_algos.py). The bound δ that TRL sets on the unclipped ratio
 * (trl/trainer/grpo_trainer.py) is the dual clip with c = δ, for any δ of at least 1 + clipHigh: a positive advantage never meets it.
 */
import type { Value } from '../../tensor/node.ts';
import { clip, less, maximum, minimum, multiply, negate, scalar } from '../../tensor/operations.ts';

export type ClipRange = { readonly clipLow?: number; readonly clipHigh?: number };

export type Bounds = {
  /** The ratio counts no less than 1 − clipLow and no more than 1 + clipHigh where that would gain. */
  readonly clipLow: number;
  readonly clipHigh: number;
  /** Most ratio that counts against a negative advantage; above 1 + clipHigh. Null sets no bound. */
  readonly dualClip: number | null;
};

/** In plain numbers: max(−A·r, −A·clip(r)), and no more than −A·dualClip where A < 0; and whether a bound decides, so that no gradient is sent. */
export function surrogate(
  weight: number,
  ratio: number,
  { clipLow, clipHigh, dualClip }: Bounds,
): { readonly loss: number; readonly clipped: boolean } {
  const free = -weight * ratio;
  const held = -weight * Math.min(Math.max(ratio, 1 - clipLow), 1 + clipHigh);
  const loss = Math.max(free, held);
  if (weight < 0 && dualClip !== null && loss > -weight * dualClip) {
    return { loss: -weight * dualClip, clipped: true };
  }
  return { loss, clipped: held > free };
}

/**
 * The same in the graph, for columns of one shape; `clipped` is 1 or 0. Where the weight is not negative the loss is not positive, so that
 * |A|·dualClip bounds nothing there.
 */
export function surrogateGraph(
  weight: Value,
  ratio: Value,
  { clipLow, clipHigh, dualClip }: Bounds,
): { readonly loss: Value; readonly clipped: Value } {
  const free = negate(multiply(weight, ratio));
  const held = negate(multiply(weight, clip(ratio, 1 - clipLow, 1 + clipHigh)));
  const loss = maximum(free, held);
  const clipped = less(free, held);
  if (dualClip === null) return { loss, clipped };
  const most = multiply(maximum(weight, negate(weight)), scalar(dualClip));
  return { loss: minimum(loss, most), clipped: maximum(clipped, less(most, loss)) };
}
