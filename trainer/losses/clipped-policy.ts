/**
 * The clipped surrogate of PPO (Schulman et al. 2017, arXiv:1707.06347, section 3) with separate bounds below and above as in
 * DAPO (arXiv:2503.14476, section 3.1), minus an entropy bonus. The log-ratio is clamped to ±20 as in verl
 * (verl/trainer/ppo/core_algos.py). No dual clip, no KL term.
 */
import { add, clip, exp, less, minimum, multiply, negate, scalar, subtract, sum } from '../graph/operations.ts';
import type { Loss } from './loss.ts';

export type ClipRange = { readonly clipLow?: number; readonly clipHigh?: number };

const LOG_RATIO_BOUND = 20;

/** −Σ min(A·r, A·clip(r, 1−low, 1+high)) − Σ w·H, with r = exp(log p − log p_old), A the weight, H entropy and w its weight. */
export function clippedPolicyLoss({ clipLow = 0.2, clipHigh = 0.28 }: ClipRange = {}): Loss {
  return {
    key: `clipped-policy ${clipLow} ${clipHigh}`,
    build: ({ logprobs, oldLogprobs, weights, entropy, entropyWeights }) => {
      const logRatio = clip(subtract(logprobs, oldLogprobs), -LOG_RATIO_BOUND, LOG_RATIO_BOUND);
      const ratio = exp(logRatio);
      const free = multiply(weights, ratio);
      const clipped = multiply(weights, clip(ratio, 1 - clipLow, 1 + clipHigh));
      const surrogate = sum(minimum(free, clipped), [0, 1]);
      const bonus = sum(multiply(entropyWeights, entropy), [0, 1]);
      return {
        loss: negate(add(surrogate, bonus)),
        entropy,
        keep: subtract(scalar(1), less(clipped, free)),
      };
    },
  };
}

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
  const logRatio = Math.min(Math.max(logprob - oldLogprob, -LOG_RATIO_BOUND), LOG_RATIO_BOUND);
  const ratio = Math.exp(logRatio);
  const free = advantage * ratio;
  const clipped = advantage * Math.min(Math.max(ratio, 1 - clipLow), 1 + clipHigh);
  return { loss: -Math.min(free, clipped), kept: free <= clipped };
}
