/**
 * The policy-gradient recipes by name. All are one clipped loss of tokens (`ppo-clip.ts`); what they differ in is the bounds, the
 * aggregation, which becomes weights (`aggregation.ts`), the divergence to a reference, and whether advantages are divided by the
 * standard deviation of their group, which is the business of the method that judged them.
 *
 * Sources: PPO, arXiv:1707.06347; GRPO, arXiv:2402.03300, equation 3; Dr. GRPO, arXiv:2503.20783; DAPO, arXiv:2503.14476, section 3; the
 * dual clip of all is that of verl (verl/trainer/ppo/core_algos.py).
 */
import type { AggregationMode } from './aggregation.ts';
import { withReferenceKl } from './kl.ts';
import type { Loss } from './loss.ts';
import { ppoClipLoss } from './ppo-clip.ts';

export type PolicyPreset = {
  readonly loss: Loss;
  readonly aggregation: AggregationMode;
};

/** Clip 0.2 on both sides, all tokens alike. */
export const ppo = (): PolicyPreset => ({ loss: ppoClipLoss(), aggregation: 'token-mean' });

/**
 * As PPO, with the k3 estimate of the divergence to a reference by `kl.weight` (β times aggregation weight; β is 0.04 in the paper), and
 * each sequence alike.
 */
export const grpo = (): PolicyPreset => ({ loss: withReferenceKl(ppoClipLoss()), aggregation: 'seq-mean-token-mean' });

/** Clip 0.2 on both sides, no divergence, a constant length as divisor; advantages are not divided by the standard deviation. */
export const drGrpo = (): PolicyPreset => ({ loss: ppoClipLoss(), aggregation: 'dr_grpo' });

/** Clip 0.2 below and 0.28 above, no divergence, all tokens alike. */
export const dapo = (): PolicyPreset => ({ loss: ppoClipLoss({ clipHigh: 0.28 }), aggregation: 'token-mean' });
