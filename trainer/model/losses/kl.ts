/**
 * The divergence to a reference policy, estimated from the tokens sampled, and as a term beside any policy loss.
 *
 * Source: verl, verl/trainer/ppo/core_algos.py (kl_penalty); k1, k2, k3 after J. Schulman, "Approximating KL divergence". Verified (code).
 * With d = log p − log p_ref: k1 = d, abs = |d|, k2 = d²/2, k3 = exp(−d) + d − 1, −d clamped to ±20 and the result to ±10. Only k2 and
 * k3 have gradients that pull to the reference from both sides; k1 and abs are for measuring. Dropped: the straight-through variants and the
 * full divergence over the vocabulary.
 */
import { type Static, Type } from 'typebox';
import type { Value } from '../../tensor/node.ts';
import { add, clip, exp, less, multiply, negate, scalar, subtract, sum } from '../../tensor/operations.ts';
import type { Loss } from './loss.ts';
import type { LossMethod } from './method.ts';

export type KlEstimator = 'k1' | 'abs' | 'k2' | 'k3';

const LOG_RATIO_BOUND = 20;
const K3_BOUND = 10;

/** Adds Σ `kl.weight`·estimate to a policy loss; the coefficient β is in the weight. Reports `kl`. */
export function withReferenceKl(policy: Loss, estimator: KlEstimator = 'k3'): Loss {
  return {
    key: `${policy.key}, ${estimator}`,
    build: (tokens) => {
      const { loss, report } = policy.build(tokens);
      const kl = klGraph(estimator, subtract(tokens.logprobs, tokens.column('ref.logprob')));
      const penalty = sum(multiply(tokens.column('kl.weight'), kl), [0, 1]);
      return { loss: add(loss, penalty), report: { ...report, kl } };
    },
  };
}

/** The estimate of each token, of the shape of d. */
function klGraph(estimator: KlEstimator, d: Value): Value {
  const zero = scalar(0);
  switch (estimator) {
    case 'k1':
      return d;
    case 'abs':
      // As a product with the sign, whose gradient at 0 is 0: a policy that is its own reference is pushed nowhere.
      return multiply(d, subtract(less(zero, d), less(d, zero)));
    case 'k2':
      return multiply(multiply(d, d), scalar(0.5));
    case 'k3': {
      const r = clip(negate(d), -LOG_RATIO_BOUND, LOG_RATIO_BOUND);
      return clip(subtract(subtract(exp(r), r), scalar(1)), -K3_BOUND, K3_BOUND);
    }
  }
}

/** All four estimates of one token, in nats. */
export function klEstimates(logprob: number, refLogprob: number): Record<KlEstimator, number> {
  const d = logprob - refLogprob;
  const back = Math.min(Math.max(-d, -LOG_RATIO_BOUND), LOG_RATIO_BOUND);
  // exp(r) − 1 − r cancels for small r.
  const k3 = Math.expm1(back) - back;
  return { k1: d, abs: Math.abs(d), k2: (d * d) / 2, k3: Math.min(Math.max(k3, -K3_BOUND), K3_BOUND) };
}

const Input = Type.Object({ logp: Type.Number(), ref_logp: Type.Number() });

export const klEstimators: LossMethod<Static<typeof Input>, Record<never, never>, Record<KlEstimator, number>> = {
  name: 'kl_estimators',
  kind: 'loss',
  source: 'verl/trainer/ppo/core_algos.py (kl_penalty); verified (code)',
  version: 1,
  summary: 'Four estimates of the divergence to a reference from one sampled token.',
  params: {},
  input: Input,
  run: ({ logp, ref_logp }) => klEstimates(logp, ref_logp),
};
