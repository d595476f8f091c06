/**
 * The normalisation that GRPO, Dr. MAS and AT-GRPO share and that differ only in their group keys, as verl computes it
 * (`verl/trainer/ppo/core_algos.py`, compute_grpo_outcome_advantage): (r − mean) / (std with ddof 1 + eps), and a group of one
 * is measured against mean 0 and std 1, so that its reward comes through as its advantage.
 */

import { type Groups, groupStatistics } from './statistics.ts';

export const VERL_PARAMS = { scale_std: true, eps: 1e-6 };

/** One advantage a row; null where the reward is null. Without `scale_std` the centred reward is not divided. */
export function verlAdvantage(
  groups: Groups,
  rewards: readonly (number | null)[],
  params: typeof VERL_PARAMS,
): (number | null)[] {
  const { size, mean, deviation } = groupStatistics(groups, rewards, 1);
  const centre = mean.map((value, group) => (size[group] === 1 ? 0 : value));
  // With eps 0 a group of equal rewards has nothing to divide by; its centred rewards are 0 anyway.
  const scale = deviation.map((value, group) => {
    if (!params.scale_std) return 1;
    const divisor = (size[group] === 1 ? 1 : value) + params.eps;
    return divisor === 0 ? 1 : divisor;
  });
  const advantages: (number | null)[] = new Array(rewards.length);
  for (let row = 0; row < advantages.length; row++) {
    const reward = rewards[row]!;
    const group = groups.numbers[row]!;
    advantages[row] = reward === null ? null : (reward - centre[group]!) / scale[group]!;
  }
  return advantages;
}
