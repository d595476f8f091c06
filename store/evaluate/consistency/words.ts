/** 32-bit words: hashing that gives the same bits on every machine. */

/** A bijection of 32-bit words in which each input bit reaches each output bit (the finalizer of MurmurHash3). */
export function mix(word: number): number {
  let h = word | 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) | 0;
}

/** The 32-bit word, signed, that belongs to a seed and a counter. */
export const wordAt = (seed: number, counter: number): number =>
  mix(mix(seed ^ Math.imul(counter + 1, 0x9e3779b9)) ^ seed);
