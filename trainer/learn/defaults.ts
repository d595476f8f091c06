/** What the numbers of a training are where they are left out, by hand, in a plan and in a job alike. */
import type { ModelConfig } from '../model/weights.ts';

export const DEFAULTS = {
  batch: 32,
  groups: 16,
  learning_rate: 1e-4,
  warmup: 0,
  beta1: 0.9,
  /** Second moments forget faster than torch's 0.999, since runs here are short. */
  beta2: 0.99,
  epsilon: 1e-8,
  weight_decay: 0.01,
  /** Largest norm of the gradients. */
  clip: 1,
  entropy: 0,
  beta: 0.1,
  label_smoothing: 0,
  epochs: 1,
  sft_loss: 'sequence-mean',
  rl_loss: 'clipped-policy',
  value_loss: 'mse',
  /** A policy gradient has many short runs, one after the other, so its rate does not fall in each. */
  schedule: { sft: 'wsd', dpo: 'linear', rl: 'constant', value: 'constant', reward: 'constant' },
} as const;

/**
 * Learning rate of a policy gradient where none is given, by the width of the model: 5e-4 at 128, 1e-5 at 896 (0.5 billion parameters),
 * 2e-6 at 2048. Measured up to a width of 128; above that it meets what is published for models of those sizes.
 */
export const rlLearningRate = ({ hidden_size }: Pick<ModelConfig, 'hidden_size'>): number =>
  Number(Math.min(1e-3, 8 / hidden_size ** 2).toPrecision(1));
