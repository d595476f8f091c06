/** The spread measure that PettingLLMs ranks groups by. Source: pettingllms-ai/PettingLLMs, core_algo.py. */

import { standardDeviation } from './statistics.ts';

/** var(ddof 0) / (max − min)², between 0 and 0.25; 0 when all are equal or there are none. */
export function rangeNormalizedVarianceOf(rewards: readonly number[]): number {
  const range = Math.max(...rewards) - Math.min(...rewards);
  return range > 0 ? (standardDeviation(rewards, 0) / range) ** 2 : 0;
}
