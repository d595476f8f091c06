/**
 * Supervised fine-tuning on own successes with an entropy bonus: −Σ weight · log p − Σ w·H. The bonus keeps a policy that learns
 * from its own samples from closing in on them (own, no paper; the bonus is that of PPO, arXiv:1707.06347, equation 9).
 */
import { add, multiply, negate, sum } from '../graph/operations.ts';
import type { Loss } from './loss.ts';

export const sftEntropyLoss: Loss = {
  key: 'sft-entropy',
  build: ({ logprobs, weights, entropy, entropyWeights }) => ({
    loss: negate(add(sum(multiply(logprobs, weights), [0, 1]), sum(multiply(entropyWeights, entropy), [0, 1]))),
    entropy,
    keep: null,
  }),
};
