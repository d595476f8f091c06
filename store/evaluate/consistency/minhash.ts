/**
 * Signatures whose agreement estimates how near two sets are: of each of `hashes` orders of all words, the least word that the set
 * holds (Broder, Charikar, Frieze, Mitzenmacher, Min-wise independent permutations, 1998). Orders are x → a·x + b modulo 2^32 over
 * words that are already mixed; the tests hold the estimate to the deviation of independent draws.
 */
import { wordAt } from './words.ts';

/** Orders that are followed in one walk over the set: measured twice as fast as one. */
const TOGETHER = 4;
const LARGEST = 0x7fffffff;

/** Writes signatures of `hashes` words; they are equal on every machine for the same seed. */
export function minHasher(hashes: number, seed: number): (set: Int32Array, into: Int32Array) => void {
  const length = TOGETHER * Math.ceil(hashes / TOGETHER);
  const factors = Int32Array.from({ length }, (_, i) => wordAt(seed, 2 * i) | 1);
  const offsets = Int32Array.from({ length }, (_, i) => wordAt(seed, 2 * i + 1));
  return (set, into) => {
    for (let i = 0; i < hashes; i += TOGETHER) {
      const [a, b, c, d] = [factors[i]!, factors[i + 1]!, factors[i + 2]!, factors[i + 3]!];
      const [p, q, r, s] = [offsets[i]!, offsets[i + 1]!, offsets[i + 2]!, offsets[i + 3]!];
      let [w, x, y, z] = [LARGEST, LARGEST, LARGEST, LARGEST];
      for (let at = 0; at < set.length; at++) {
        const word = set[at]!;
        const e = (Math.imul(a, word) + p) | 0;
        const f = (Math.imul(b, word) + q) | 0;
        const g = (Math.imul(c, word) + r) | 0;
        const h = (Math.imul(d, word) + s) | 0;
        if (e < w) w = e;
        if (f < x) x = f;
        if (g < y) y = g;
        if (h < z) z = h;
      }
      // What lies behind the end of the signature is not written.
      into[i] = w;
      into[i + 1] = x;
      into[i + 2] = y;
      into[i + 3] = z;
    }
  };
}
