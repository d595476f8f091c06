/** Every random choice of this team comes from a seed through here, so a run can be repeated choice for choice. */
import { createHash } from 'node:crypto';

export type Random = {
  /** A number in [0, 1). */
  readonly next: () => number;
  /** A whole number in 0 … n-1. */
  readonly int: (n: number) => number;
  readonly pick: <T>(items: readonly T[]) => T;
  /** A shuffled copy. */
  readonly shuffle: <T>(items: readonly T[]) => T[];
};

/** The generator mulberry32 (Tommy Ettinger, public domain): 32 bits of state, enough for drawing exercises. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const int = (n: number): number => Math.floor(next() * n);
  return {
    next,
    int,
    pick: (items) => items[int(items.length)]!,
    shuffle(items) {
      const copy = [...items];
      for (let last = copy.length - 1; last > 0; last--) {
        const other = int(last + 1);
        [copy[last], copy[other]] = [copy[other]!, copy[last]!];
      }
      return copy;
    },
  };
}

/** SHA-256 of a list of plain values, in hex: ids and seeds that depend on nothing else. */
export const digest = (...parts: readonly (string | number | null)[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('hex');

/** A 32-bit seed made of plain values. */
export const seedOf = (...parts: readonly (string | number | null)[]): number =>
  Number.parseInt(digest(...parts).slice(0, 8), 16);
