/** How far two lists of numbers are apart. What cannot be compared is infinitely far, so that it never passes for equal. */

/**
 * The greatest difference, relative to the second number, or to `floor` where that is larger. Infinite where the lengths differ or a
 * number is none.
 */
export function apart(
  ours: readonly number[],
  theirs: readonly number[],
  { floor = 0 }: { readonly floor?: number } = {},
): number {
  if (ours.length !== theirs.length) return Infinity;
  return ours.reduce((most, value, i) => {
    const expected = theirs[i]!;
    const gap = Math.abs(value - expected);
    const by = gap === 0 ? 0 : gap / Math.max(floor, Math.abs(expected));
    return Number.isNaN(by) ? Infinity : Math.max(most, by);
  }, 0);
}

/** A floor for losses that cross zero, where terms of either sign cancel: the largest of them. Of others there is none. */
export const signed = (losses: readonly number[]): number =>
  losses.some((loss) => loss > 0) && losses.some((loss) => loss < 0) ? Math.max(...losses.map(Math.abs)) : 0;

/** The greatest absolute difference of two lists of rows. Infinite where they are shaped differently or a number is none. */
export function furthest(ours: readonly (readonly number[])[], theirs: readonly (readonly number[])[]): number {
  const lengths = (rows: readonly (readonly number[])[]): string => rows.map((row) => row.length).join();
  if (lengths(ours) !== lengths(theirs)) return Infinity;
  const expected = theirs.flat();
  return ours.flat().reduce((most, value, i) => {
    const gap = Math.abs(value - expected[i]!);
    return Number.isNaN(gap) ? Infinity : Math.max(most, gap);
  }, 0);
}

/** Not a number is not within anything. */
export const within = (gap: number, tolerance: number): boolean => gap < tolerance;

/**
 * How far training moved the losses: the greatest change from the first to the last time the same rows were taken, relative to the largest
 * loss. Rows come again after `period` steps, of which `losses` holds whole rounds.
 */
export function movedBy(losses: readonly number[], period: number): number {
  const changes = losses.slice(0, period).map((loss, i) => Math.abs(losses[losses.length - period + i]! - loss));
  return Math.max(...changes) / Math.max(...losses.map(Math.abs));
}
