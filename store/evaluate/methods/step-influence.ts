/** How much a step changed what came after it. Source: Dr. MAMR, arXiv 2511.02303; secondary. */
import { type GroupKey, groupRows, groupStatistics } from './statistics.ts';

/** Each value's mean over its cluster. */
export function meanByCluster(cluster: readonly GroupKey[], values: readonly number[]): number[] {
  const groups = groupRows(cluster);
  const { mean } = groupStatistics(groups, values, 0);
  return Array.from(groups.numbers, (group) => mean[group]!);
}

/** 1 if leaving the history out makes a right answer likelier or a wrong one less likely, −1 for the contrary. */
export function restartSign(correct: boolean, logpWithout: number, logpWith: number): number {
  const sign = Math.sign(logpWithout - logpWith);
  return correct || sign === 0 ? sign : -sign;
}
