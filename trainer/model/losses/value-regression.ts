/**
 * A value head held to targets: the losses of process and outcome reward models, and of a critic without a bound.
 *
 * Source: milad1378yz/MASPRM, src/train/trainer.py. Verified (code). Its head outputs an unbounded number z at the end of each step; the
 * target of the regressions is atanh(q), q clamped to ±0.95, which `masprm_target` computes, and tanh(z) is the value in (−1, 1). Its
 * default is the cross-entropy of a logit, whose target is 0 or 1 for an outcome; for steps it is given atanh(q) too, which is no share of
 * anything, and that is not kept. A regression of a scalar reward is `valueMseLoss` with
 * its weight at the last token. The mean over tokens is in the weights. Dropped: the pairs of steps of its preference mode, which are
 * `reward-head.ts`.
 *
 * `values` are the outputs of the head before a token is drawn: the target of a step belongs to the token that follows the step's last one.
 */
import { less, maximum, minimum, multiply, negate, scalar, softplus, subtract, sum } from '../../tensor/operations.ts';
import type { Loss } from './loss.ts';

/** Σ `weight`·(v − R)², R being `return`. Reports `value_error`, (v − R)². */
export const valueMseLoss: Loss = {
  key: 'value-mse',
  build: ({ values, column }) => {
    const difference = subtract(values, column('return'));
    const error = multiply(difference, difference);
    return { loss: sum(multiply(column('weight'), error), [0, 1]), report: { value_error: error } };
  },
};

export type HuberOptions = {
  /** Error up to which the loss is a square; 0.1 in MASPRM. */
  readonly width?: number;
};

/** Σ `weight`·h(v − R), h(d) = d²/2w for |d| ≤ w and |d| − w/2 beyond. Reports `value_error`, (v − R)². */
export function valueHuberLoss({ width = 0.1 }: HuberOptions = {}): Loss {
  return {
    key: `value-huber ${width}`,
    build: ({ values, column }) => {
      const difference = subtract(values, column('return'));
      const size = maximum(difference, negate(difference));
      // With m = min(|d|, w): m·(|d| − m/2)/w is both branches.
      const near = minimum(size, scalar(width));
      const error = multiply(multiply(near, subtract(size, multiply(near, scalar(0.5)))), scalar(1 / width));
      return {
        loss: sum(multiply(column('weight'), error), [0, 1]),
        report: { value_error: multiply(difference, difference) },
      };
    },
  };
}

/** Σ `weight`·(−R·log σ(v) − (1 − R)·log σ(−v)), R being the share of right answers. Reports `accuracy`, 1 where v and R lean alike. */
export const valueCrossEntropyLoss: Loss = {
  key: 'value-cross-entropy',
  build: ({ values, column }) => {
    const target = column('return');
    const error = subtract(softplus(values), multiply(target, values));
    const margin = less(scalar(0), values);
    const is = less(scalar(0.5), target);
    return {
      loss: sum(multiply(column('weight'), error), [0, 1]),
      report: { accuracy: subtract(scalar(1), maximum(subtract(margin, is), subtract(is, margin))) },
    };
  },
};
