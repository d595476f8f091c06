/**
 * Limits of time and memory are asserted where nothing else runs, by the proof `limits-hold`. `npm test` runs the same code beside other
 * programs and asserts what it gives.
 */
import { expect } from 'vitest';

export const MEASURED = 'TROUPE_MEASURED';

/** Asserts in the proof that a measured time or size is below its limit. */
export function expectBelow(measured: number, limit: number, what?: string): void {
  if (process.env[MEASURED]) expect(measured, what).toBeLessThan(limit);
}
