/** Random inputs of methods: what rewards and groups look like in practice, and the edges of it. */
import { randomStream } from '../trainer/tensor/random.ts';

export type Draw = {
  readonly uniform: (low?: number, high?: number) => number;
  /** Both ends included. */
  readonly integer: (low: number, high: number) => number;
  readonly chance: (probability: number) => boolean;
  readonly one: <T>(of: readonly T[]) => T;
  readonly list: <T>(length: number, make: (at: number) => T) => T[];
  /** All of one kind: right or wrong, quarters (many equal), any number, or all the same. */
  readonly rewards: (length: number) => number[];
  readonly bits: (length: number) => (0 | 1)[];
  /** Names of groups, of one row and more, one after the other or mixed. */
  readonly groups: (most: number, sizes?: readonly [low: number, high: number]) => string[];
};

export function drawing(seed: number): Draw {
  const { uniform: next, normal } = randomStream(seed);
  const uniform = (low = 0, high = 1) => low + (high - low) * next();
  const integer = (low: number, high: number) => low + Math.floor(next() * (high - low + 1));
  const chance = (probability: number) => next() < probability;
  const one = <T>(of: readonly T[]): T => of[integer(0, of.length - 1)]!;
  const list = <T>(length: number, make: (at: number) => T) => Array.from({ length }, (_, at) => make(at));
  const bits = (length: number) => {
    const share = one([0, 0.2, 0.5, 0.8, 1]);
    return list(length, () => (chance(share) ? 1 : 0));
  };
  const rewards = (length: number): number[] => {
    const same = integer(-8, 8) / 4;
    return list(length, one([() => integer(0, 1), () => integer(-8, 8) / 4, normal, () => same]));
  };
  const groups = (most: number, [low, high]: readonly [number, number] = [1, 9]) => {
    const names = list(integer(1, most), (group) => list(integer(low, high), () => `group ${group}`)).flat();
    if (chance(0.5)) {
      for (let last = names.length - 1; last > 0; last--) {
        const other = integer(0, last);
        [names[last], names[other]] = [names[other]!, names[last]!];
      }
    }
    return names;
  };
  return { uniform, integer, chance, one, list, rewards, bits, groups };
}
