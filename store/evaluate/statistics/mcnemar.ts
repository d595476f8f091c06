/**
 * Do two candidates solve the same tasks equally often? Only tasks that one of them solves and the other does not are informative.
 *
 * Source: McNemar 1947, Psychometrika 12; the mid-p value as in Fagerland, Lydersen and Laake 2013, BMC Medical Research Methodology 13:91.
 */
import { binomialCdf, binomialPoint } from './distributions.ts';

export type McNemar = {
  /** Tasks that only the first solves, and only the second. */
  readonly only_first: number;
  readonly only_second: number;
  /** Two-sided chance of a split as uneven as this or more, if both were equal; 1 without a task on which they differ. */
  readonly exact: number;
  /** The same with half the weight of the split itself: closer to its level, still rarely above it. */
  readonly mid_p: number;
};

/** The test over the two counts, each a whole number from 0. */
export function mcnemar(onlyFirst: number, onlySecond: number): McNemar {
  const n = onlyFirst + onlySecond;
  const least = Math.min(onlyFirst, onlySecond);
  const exact = n === 0 ? 1 : Math.min(1, 2 * binomialCdf(least, n, 0.5));
  const midP =
    n === 0 ? 1 : onlyFirst === onlySecond ? 1 - binomialPoint(least, n, 0.5) : exact - binomialPoint(least, n, 0.5);
  return { only_first: onlyFirst, only_second: onlySecond, exact, mid_p: midP };
}
