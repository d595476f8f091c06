/**
 * Runs of words that texts share: a text is contaminated by a benchmark where so many words in a row are the same. With 13 words this is
 * the rule of GPT-3 (Brown et al., Language Models are Few-Shot Learners, 2020, appendix C), which also compares a text of 8 to 12 words
 * as a whole and a shorter one never.
 *
 * A run is held as 53 bits of hash: two different runs are taken for the same once in 2^53 pairs.
 */
import { mix } from '../evaluate/consistency/words.ts';

/** Texts with fewer words are too short to be distinguished. */
export const FEWEST = 8;
/** What one set of JavaScript holds; more would take a gigabyte. */
const MOST = 2 ** 24 - 1;

/** Letters and digits in a row, whatever their case; a sign of a script that is written without spaces is a word by itself. */
const WORD =
  /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]|(?:(?![\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}])[\p{L}\p{N}\p{M}])+/gu;
const wordsOf = (text: string): readonly string[] => text.normalize('NFKC').toLowerCase().match(WORD) ?? [];

export type WordRuns = {
  /** Takes the runs of a text; false where it has too few words to be compared. */
  readonly add: (text: string) => boolean;
  /** The first run of the text that was added, as words; null where there is none. */
  readonly find: (text: string) => string | null;
  /** True where no further text should be added. */
  readonly isFull: () => boolean;
  readonly size: () => number;
};

/** An empty set of runs of `length` words. */
export function wordRuns(length: number): WordRuns {
  const runs = new Set<number>();
  const lengths = new Set<number>();
  return {
    add(text) {
      const words = hashed(wordsOf(text));
      if (words.length < Math.min(FEWEST, length)) return false;
      const run = Math.min(length, words.length);
      lengths.add(run);
      for (let at = 0; at + run <= words.length && runs.size < MOST; at++) runs.add(runAt(words, at, run));
      return true;
    },
    find(text) {
      const words = wordsOf(text);
      const hashes = hashed(words);
      for (const run of lengths)
        for (let at = 0; at + run <= words.length; at++)
          if (runs.has(runAt(hashes, at, run))) return words.slice(at, at + run).join(' ');
      return null;
    },
    isFull: () => runs.size >= MOST,
    size: () => runs.size,
  };
}

const hashed = (words: readonly string[]): readonly (readonly [number, number])[] =>
  words.map((word) => {
    let [a, b] = [0x811c9dc5, 0x01000193];
    for (let i = 0; i < word.length; i++) {
      a = Math.imul(a ^ word.charCodeAt(i), 0x01000193);
      b = Math.imul(b + word.charCodeAt(i), 0x5bd1e995) ^ (b >>> 13);
    }
    return [mix(a), mix(b)] as const;
  });

function runAt(words: readonly (readonly [number, number])[], from: number, length: number): number {
  let [a, b] = [length, length];
  for (let at = from; at < from + length; at++) {
    a = mix(Math.imul(a, 31) ^ words[at]![0]);
    b = mix(Math.imul(b, 31) ^ words[at]![1]);
  }
  return (a >>> 0) * 2 ** 21 + (b >>> 11);
}
