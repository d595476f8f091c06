/** Which signatures meet: pairs that agree on a whole band, found in time linear in the number of signatures. */
import type { Bands } from './banding.ts';
import { mix } from './words.ts';

export type Signatures = {
  readonly count: number;
  /** Words of one signature. */
  readonly width: number;
  /** One signature after the other. */
  readonly words: Int32Array;
};

/** Words after the band that a large bucket is ordered by; more made no difference and cost time where all are alike. */
const DEPTH = 8;

/**
 * Visits pairs that share a band, each perhaps several times. A bucket of more than `window` members is put in the order of the words
 * after the band, which brings the near ones together as a longer band would, and each member meets the `window` before it: so one
 * bucket that holds everything costs no more for each member than many small ones. What is lost there is measured in the tests.
 */
export function meetingPairs(
  { count, width, words }: Signatures,
  { bands, rows }: Bands,
  window: number,
  visit: (a: number, b: number) => void,
): void {
  const next = new Int32Array(count);
  for (let band = 0; band < bands; band++) {
    const last = new Map<number, number>();
    for (let member = 0; member < count; member++) {
      const key = bandKey(words, member * width + band * rows, rows);
      next[member] = last.get(key) ?? -1;
      last.set(key, member);
    }
    for (const end of last.values()) {
      if (next[end]! < 0) continue;
      const bucket: number[] = [];
      for (let member = end; member >= 0; member = next[member]!) bucket.push(member);
      if (bucket.length > window) bucket.sort(byWordsFrom((band * rows + rows) % width));
      for (let at = 1; at < bucket.length; at++)
        for (let before = Math.max(0, at - window); before < at; before++) visit(bucket[before]!, bucket[at]!);
    }
  }

  function byWordsFrom(start: number) {
    const depth = Math.min(DEPTH, width);
    return (a: number, b: number): number => {
      for (let i = 0; i < depth; i++) {
        const place = (start + i) % width;
        const order = words[a * width + place]! - words[b * width + place]!;
        if (order !== 0) return order;
      }
      return a - b;
    };
  }
}

function bandKey(words: Int32Array, start: number, rows: number): number {
  let key = 0;
  for (let at = start; at < start + rows; at++) key = mix(Math.imul(key, 31) ^ words[at]!);
  return key;
}
