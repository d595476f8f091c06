/**
 * The policy-gradient recipes by name. All are one clipped loss of tokens (`ppo-clip.ts`); what they differ in is the bounds, the
 * aggregation, which becomes weights (`aggregation.ts`), the divergence to a reference, and whether advantages are divided by the
 * standard deviation of their group, which is the business of the method that judged them.
 *
 * Sources: PPO, arXiv:1707.06347; GRPO, arXiv:2402.03300, equation 3; Dr. GRPO, arXiv:2503.20783; DAPO, arXiv:2503.14476, section 3; the
 * dual clip of all is that of verl (verl/trainer/ppo/core_algos.py).
 */
import type { AggregationMode } from './aggregation.ts';

export type PolicyPreset = {
  /** Bounds of the ratio of probabilities: 1 − clipLow to 1 + clipHigh. */
  readonly clipLow: number;
  readonly clipHigh: number;
  readonly aggregation: AggregationMode;
  /** Coefficient of the divergence to a reference (k3); 0 for none. */
  readonly kl: number;
};

/**
 * The largest bounds: no ratio is below 0, and above 1 + 10 nothing that is called clipped is left. Without bounds rows of older weights
 * make the policy collapse, and there is no row of which that is known beforehand.
 */
export const WIDEST_CLIP = { clipLow: 1, clipHigh: 10 } as const;

export const POLICY_PRESETS = {
  /** All tokens alike. */
  ppo: { clipLow: 0.2, clipHigh: 0.2, aggregation: 'token-mean', kl: 0 },
  /** Each sequence alike, with the coefficient of section 4.2. */
  grpo: { clipLow: 0.2, clipHigh: 0.2, aggregation: 'seq-mean-token-mean', kl: 0.04 },
  /** A constant length as divisor; advantages are not divided by the standard deviation. */
  'dr-grpo': { clipLow: 0.2, clipHigh: 0.2, aggregation: 'dr_grpo', kl: 0 },
  /** More room above, all tokens alike. */
  dapo: { clipLow: 0.2, clipHigh: 0.28, aggregation: 'token-mean', kl: 0 },
} as const satisfies Readonly<Record<string, PolicyPreset>>;
