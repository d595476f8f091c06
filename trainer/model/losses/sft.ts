/**
 * Supervised fine-tuning: weighted negative log-likelihood. Whether the mean is taken over sequences or over tokens is given
 * by the weights: 1/(sequences · tokens of the sequence), or 1/tokens. M1-32B (arXiv:2504.09772) writes the first in its
 * paper and trains with the second, its framework's default; so both are here. `sft-sequence-mean.ts` and `sft-token-mean.ts` are the
 * means themselves.
 */
import { multiply, negate, sum } from '../../tensor/operations.ts';
import type { Loss } from './loss.ts';

/** −Σ weight · log p. */
export const sftLoss: Loss = {
  key: 'sft',
  build: ({ logprobs, column }) => ({
    loss: negate(sum(multiply(logprobs, column('weight')), [0, 1])),
    report: {},
  }),
};

/**
 * Weights that make the loss a mean over sequences of each sequence's mean over its trained tokens. A sequence without a
 * trained token is skipped: it counts in no mean.
 * @param masks for each sequence and token whether it is trained
 */
export function sequenceMeanWeights(masks: readonly (readonly boolean[])[]): number[][] {
  const counts = masks.map((mask) => mask.filter(Boolean).length);
  const sequences = counts.filter((count) => count > 0).length;
  return masks.map((mask, i) => mask.map((on) => (on ? 1 / (sequences * (counts[i] as number)) : 0)));
}

/** Weights that make the loss a mean over all trained tokens. */
export function tokenMeanWeights(masks: readonly (readonly boolean[])[]): number[][] {
  const tokens = masks.flat().filter(Boolean).length;
  return masks.map((mask) => mask.map((on) => (on ? 1 / tokens : 0)));
}
