/**
 * Direct preference optimisation: the policy is to raise the chosen answer over the rejected one by more than the reference does.
 *
 * Source: DPO (arXiv:2305.18290, equation 7); trl/trainer/dpo_trainer.py. Verified (code). Log-probabilities are sums over an answer's
 * tokens. Label smoothing ε is the conservative form of earlier TRL releases. Dropped: TRL's other loss types, among them the unbiased form
 * for flipped labels ("robust", arXiv:2403.00409), and its reference-free form.
 */
import { type Static, Type } from 'typebox';
import { add, less, multiply, negate, scalar, softplus, subtract, sum } from '../../tensor/operations.ts';
import { logSigmoid } from './log-sigmoid.ts';
import type { Loss } from './loss.ts';
import type { LossMethod } from './method.ts';

export type DpoOptions = { readonly beta?: number; readonly labelSmoothing?: number };

/**
 * Σ over pairs of −(1−ε)·log σ(βΔ) − ε·log σ(−βΔ), times the pair's weight; rows and segments as `preferenceSegments` makes them. Reports
 * `reward_margin` βΔ and `accuracy`, 1 where Δ > 0, of each token's pair.
 */
export function dpoLoss({ beta = 0.1, labelSmoothing = 0 }: DpoOptions = {}): Loss {
  return {
    key: `dpo ${beta} ${labelSmoothing}`,
    build({ logprobs, column, segments }) {
      const gain = segments.sum(multiply(column('weight'), subtract(logprobs, column('ref.logprob'))));
      const margin = multiply(gain, scalar(beta));
      const loss = add(
        multiply(softplus(negate(margin)), scalar(1 - labelSmoothing)),
        multiply(softplus(margin), scalar(labelSmoothing)),
      );
      return {
        loss: sum(multiply(segments.weight, loss), [0, 1]),
        report: { reward_margin: segments.spread(margin), accuracy: segments.spread(less(scalar(0), margin)) },
      };
    },
  };
}

/** One pair in plain numbers, of Δ in nats. */
export function dpoPair(delta: number, { beta = 0.1, labelSmoothing = 0 }: DpoOptions = {}): number {
  return -(1 - labelSmoothing) * logSigmoid(beta * delta) - labelSmoothing * logSigmoid(-beta * delta);
}

const Input = Type.Object({
  pol_chosen: Type.Number(),
  ref_chosen: Type.Number(),
  pol_rejected: Type.Number(),
  ref_rejected: Type.Number(),
});
const params = { beta: 0.1, label_smoothing: 0 };

export const dpo: LossMethod<Static<typeof Input>, typeof params, number> = {
  name: 'dpo_loss',
  kind: 'loss',
  source: 'DPO: arXiv:2305.18290; trl/trainer/dpo_trainer.py; verified (code)',
  version: 1,
  summary: 'The loss of one preference from the log-probabilities of both answers under policy and reference.',
  params,
  limits: { beta: Type.Number({ exclusiveMinimum: 0 }), label_smoothing: Type.Number({ minimum: 0, maximum: 0.5 }) },
  input: Input,
  run: ({ pol_chosen, ref_chosen, pol_rejected, ref_rejected }, { beta, label_smoothing }) =>
    dpoPair(pol_chosen - ref_chosen - (pol_rejected - ref_rejected), { beta, labelSmoothing: label_smoothing }),
};
