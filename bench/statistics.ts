/** Statistics of repeated measurements: the median, the smallest and the largest. Pure. */

/** One side's work in one round. */
export type Measured = {
  /** Units of work done: tokens, megabytes. */
  readonly work: number;
  /** Wall time. */
  readonly seconds: number;
  /** Processor time of all threads of the process, user and system. */
  readonly cpuSeconds: number;
  /** Processor time of comparing outputs beside the work, so that it is not taken for that of other programs. */
  readonly checkingCpuSeconds?: number;
};

export type Summary = {
  readonly median: number;
  /** Smallest and largest. */
  readonly spread: readonly [min: number, max: number];
};

/** Median (the mean of the middle two for an even count) and range. @throws RangeError for no numbers. */
export function summary(values: readonly number[]): Summary {
  if (values.length === 0) throw new RangeError('a median needs at least one number, got none');
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const median = (sorted[Math.ceil(middle) - 1]! + sorted[Math.floor(middle)]!) / 2;
  return { median, spread: [sorted[0]!, sorted.at(-1)!] };
}

/** Work a second. */
export const rate = ({ work, seconds }: Measured): number => work / seconds;

/**
 * Rates of one side over those of the other, round by round, and only then the median: what slows a whole round slows
 * both sides and leaves its ratio alone. Above 1 the first side is faster.
 * @throws RangeError where the sides have not equally many rounds.
 */
export function ratios(ours: readonly Measured[], other: readonly Measured[]): Summary {
  if (ours.length !== other.length) throw new RangeError(`rounds must pair up, got ${ours.length} and ${other.length}`);
  return summary(ours.map((measured, round) => rate(measured) / rate(other[round]!)));
}

/** Largest relative difference of two lists of numbers; infinite where one is longer, or a number is not finite. */
export function furthestApart(a: readonly number[], b: readonly number[]): number {
  if (a.length !== b.length) return Number.POSITIVE_INFINITY;
  return a.reduce((most, value, i) => {
    const gap = value === b[i] ? 0 : Math.abs(value - b[i]!) / Math.abs(b[i]!);
    return Number.isFinite(gap) ? Math.max(most, gap) : Number.POSITIVE_INFINITY;
  }, 0);
}
