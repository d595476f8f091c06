/** What an intervention gained. Source: DoVer, arXiv 2512.06749; secondary. */
import { sum } from './statistics.ts';

/** Milestones that were met after and not before, less those that were lost, as a share of all; both have one entry a milestone. */
export const milestonesGained = (before: readonly number[], after: readonly number[]): number =>
  (sum(after) - sum(before)) / before.length;
