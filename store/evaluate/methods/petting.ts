/** The spread measure that PettingLLMs ranks groups by. Source: pettingllms-ai/PettingLLMs, core_algo.py. */

import { largest, standardDeviation } from './statistics.ts';

/** var(ddof 0) / (max − min)², between 0 and 0.25; 0 when all are equal or there are none. */
export function rangeNormalizedVarianceOf(rewards: readonly number[]): number {
  const low = -largest(rewards.map((reward) => -reward));
  // Halved, so that the range of numbers near the largest double is one too.
  const range = largest(rewards) / 2 - low / 2;
  return range > 0
    ? standardDeviation(
        rewards.map((reward) => (reward / 2 - low / 2) / range),
        0,
      ) ** 2
    : 0;
}
