/**
 * A reward model that learns from preferences: the value head is to score the chosen answer higher than the rejected one.
 *
 * Source: the Bradley-Terry likelihood of Ouyang et al. 2022 (arXiv:2203.02155, equation 1); trl/trainer/reward_trainer.py; the pairwise mode
 * of milad1378yz/MASPRM, src/train/trainer.py. An optional margin of TRL and its centring term are dropped. A regression to scalar rewards is
 * `valueMseLoss`.
 *
 * `values` are the outputs of the head before a token is drawn, so an answer should end with a token that closes it.
 */
import { less, multiply, negate, scalar, softplus, sum } from '../../tensor/operations.ts';
import type { Loss } from './loss.ts';

/**
 * Σ over pairs of −log σ(v_chosen − v_rejected) times the pair's weight; rows and segments as `lastTokenPreference` makes them. Reports
 * `reward_margin` and `accuracy`, 1 where the margin is positive, of each token's pair.
 */
export const bradleyTerryLoss: Loss = {
  key: 'bradley-terry',
  build: ({ values, column, segments }) => {
    const margin = segments.sum(multiply(column('weight'), values));
    return {
      loss: sum(multiply(segments.weight, softplus(negate(margin))), [0, 1]),
      report: { reward_margin: segments.spread(margin), accuracy: segments.spread(less(scalar(0), margin)) },
    };
  },
};
