/** An interval for a share of independent trials. Source: Wilson 1927, JASA 22; without continuity correction. */
import type { Interval } from './bootstrap.ts';
import { normalQuantile } from './distributions.ts';

/** `solved` of `n`; null for n = 0. Never leaves 0 to 1, and is no point at either end. */
export function wilson(solved: number, n: number, level: number): Interval | null {
  if (n === 0) return null;
  const z = -normalQuantile((1 - level) / 2);
  const share = solved / n;
  const centre = (share + (z * z) / (2 * n)) / (1 + (z * z) / n);
  const half = (z / (1 + (z * z) / n)) * Math.sqrt((share * (1 - share)) / n + (z * z) / (4 * n * n));
  return { low: Math.max(0, centre - half), high: Math.min(1, centre + half) };
}
