/** The outcome of an interval for a candidate against an incumbent. */
import type { Interval } from './bootstrap.ts';

export type Outcome = 'better' | 'not_worse' | 'worse' | 'inconclusive' | 'no_data';

/**
 * @param interval of candidate − incumbent, in the measure's unit, where more is better
 * @param margin the loss, from 0, that would still be accepted (non-inferiority margin δ)
 * @returns better: above 0 as a whole; not_worse: above −margin as a whole; worse: below 0 as a whole; no_data is never a pass
 */
export function outcomeOf(interval: Interval | null, margin: number): Outcome {
  if (interval === null) return 'no_data';
  if (interval.low > 0) return 'better';
  if (interval.low > -margin || (margin > 0 && interval.low === 0)) return 'not_worse';
  return interval.high < 0 ? 'worse' : 'inconclusive';
}
