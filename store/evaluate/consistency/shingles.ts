/**
 * A text as the set of its character n-grams (Broder, On the resemblance and containment of documents, 1997): what of it must be the
 * same for two texts to be near. Characters are code points, so that no script and no emoji is cut in half.
 */
import { mix } from './words.ts';

/** NFKC, lower case whatever the locale, runs of white space as one space, none at the ends. */
export const normaliseText = (text: string): string =>
  text.normalize('NFKC').toLowerCase().normalize('NFKC').replace(/\s+/gu, ' ').trim();

/**
 * Hashes of the n-grams of a normalised text, each once, ascending. A text shorter than n characters is one n-gram, so it is
 * near only to itself. Two n-grams share a hash once in 2^32 pairs.
 */
export function shingles(text: string, length: number): Int32Array {
  const codes = codePoints(text);
  const hashes = new Int32Array(Math.max(1, codes.length - length + 1));
  for (let start = 0; start < hashes.length; start++) {
    let hash = codes.length;
    // The length counts only in a text that is one short n-gram.
    if (codes.length >= length) hash = length;
    const end = Math.min(start + length, codes.length);
    for (let at = start; at < end; at++) hash = Math.imul(hash ^ codes[at]!, 0x01000193) ^ (hash >>> 15);
    hashes[start] = mix(hash);
  }
  hashes.sort();
  let kept = 1;
  for (let at = 1; at < hashes.length; at++) if (hashes[at] !== hashes[at - 1]) hashes[kept++] = hashes[at]!;
  return hashes.subarray(0, kept);
}

function codePoints(text: string): Int32Array {
  const codes = new Int32Array(text.length);
  let count = 0;
  for (let at = 0; at < text.length; count++) {
    const code = text.codePointAt(at)!;
    codes[count] = code;
    at += code > 0xffff ? 2 : 1;
  }
  return codes.subarray(0, count);
}

/** Members of both over members of either, of two sets in ascending order without repeats; 1 for two empty ones. */
export function jaccard(a: Int32Array, b: Int32Array): number {
  let both = 0;
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const [x, y] = [a[i]!, b[j]!];
    if (x === y) both++;
    if (x <= y) i++;
    if (y <= x) j++;
  }
  const either = a.length + b.length - both;
  return either === 0 ? 1 : both / either;
}
