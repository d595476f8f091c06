/** Two candidates on the same tasks. What the tasks differ in cancels, so far fewer are needed than for two separate rates. */
import type { Interval } from './bootstrap.ts';

/** The same measure of both, more being better. */
export type Both = { readonly incumbent: number; readonly candidate: number };

/**
 * The means of both, and of candidate − incumbent; null where there is no pair.
 * @param limit how many times what the incumbent takes the candidate may take: the differences are then what the limit leaves
 */
export function pairedMeans(
  pairs: readonly Both[],
  intervalOf: (differences: readonly number[]) => Interval | null,
  limit?: number,
) {
  const differences = pairs.map(({ incumbent, candidate }) =>
    limit === undefined ? candidate - incumbent : limit * incumbent - candidate,
  );
  return {
    tasks: pairs.length,
    incumbent: meanOf(pairs.map((pair) => pair.incumbent)),
    candidate: meanOf(pairs.map((pair) => pair.candidate)),
    difference: meanOf(differences),
    interval: intervalOf(differences),
  };
}

/** Null where there are none. */
export const meanOf = (values: readonly number[]): number | null =>
  values.length === 0 ? null : values.reduce((a, b) => a + b, 0) / values.length;
