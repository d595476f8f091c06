/** Losses in plain numbers, as their sources write them: what the graphs of the trainer are compared with. */
import { logSigmoid } from '../../trainer/model/losses/log-sigmoid.ts';
import { ppoClipToken } from '../../trainer/model/losses/ppo-clip.ts';
import type { ClipRange } from '../../trainer/model/losses/surrogate.ts';
import type { HuberOptions } from '../../trainer/model/losses/value-regression.ts';

export type ClippedToken = {
  readonly loss: number;
  /** False where the bound is active, so that the token sends no gradient. */
  readonly kept: boolean;
};

/** One token's loss in plain numbers, without the entropy bonus. */
export function clippedPolicyToken(
  logprob: number,
  oldLogprob: number,
  advantage: number,
  { clipLow = 0.2, clipHigh = 0.28 }: ClipRange = {},
): ClippedToken {
  const { loss, clipped } = ppoClipToken(logprob, oldLogprob, advantage, { clipLow, clipHigh, dualClip: null });
  return { loss, kept: !clipped };
}

/** One pair of a reward head. */
export function bradleyTerryPair(chosen: number, rejected: number): number {
  return -logSigmoid(chosen - rejected);
}

/** Supervised fine-tuning: log-probabilities and weights of all tokens. */
export function weightedLikelihood(logprobs: readonly number[], weights: readonly number[]): number {
  return -logprobs.reduce((total, logprob, t) => total + logprob * (weights[t] as number), 0);
}

/** One token of `valueMseLoss`. */
export const squaredError = (value: number, target: number): number => (value - target) ** 2;

/** One token of `valueHuberLoss`. */
export function huberError(value: number, target: number, { width = 0.1 }: HuberOptions = {}): number {
  const size = Math.abs(value - target);
  return size < width ? size ** 2 / (2 * width) : size - width / 2;
}

/** One token of `valueCrossEntropyLoss`. */
export function crossEntropy(value: number, target: number): number {
  return -target * logSigmoid(value) - (1 - target) * logSigmoid(-value);
}
