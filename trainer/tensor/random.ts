/**
 * Random numbers from seeds: the same seed gives the same numbers on every machine. Two kinds, for two needs: a stream to
 * draw from in order, and `uniformAt`, which has no state, so that a sample's draws do not depend on its neighbours'.
 */

/** Numbers in [0, 1), 32 bits each, in an order fixed by the seed. */
export type RandomStream = {
  readonly uniform: () => number;
  /** Standard normal. */
  readonly normal: () => number;
};

/** A stream for a seed; counter-based, so streams of different seeds do not overlap by accident of state. */
export function randomStream(seed: number): RandomStream {
  const key = hashInts([seed | 0, Math.floor(seed / 2 ** 32) | 0]);
  let counter = 0;
  const uniform = () => uniformAt(key, counter++);
  // Box-Muller; 1 − u keeps the logarithm finite.
  const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  return { uniform, normal };
}

/** The number in [0, 1) that belongs to a place: a key and a counter. */
export function uniformAt(key: number, counter: number): number {
  const low = mix(mix(key ^ Math.imul(counter + 1, 0x9e3779b9)) ^ key);
  return (low >>> 0) / 2 ** 32;
}

/** One 32-bit key of a list of integers; the order counts. */
export function hashInts(values: ArrayLike<number>): number {
  let hash = 0x2545f491 ^ values.length;
  for (let i = 0; i < values.length; i++) hash = mix(Math.imul(hash, 31) ^ Math.imul(values[i] as number, 0x9e3779b9));
  return hash >>> 0;
}

/** A bijection of 32-bit words in which each input bit reaches each output bit (the finalizer of MurmurHash3). */
function mix(word: number): number {
  let h = word | 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) | 0;
}
