/**
 * Rows whose text is nearly the same as that of an earlier one. Two texts are near where their sets of character n-grams have at least
 * the threshold in common (Jaccard), as estimated by 64 words of MinHash: the deviation of the estimate is 0.05 at 0.8. Rows that nearness connects are one
 * cluster, of which the first stays (Lee et al., Deduplicating Training Data Makes Language Models Better, 2022, connects them so).
 *
 * Texts are read once and not held: 256 bytes a row, and about 100 more while a band is looked at.
 */
import { bandsFor } from '../evaluate/consistency/banding.ts';
import { disjointSets } from '../evaluate/consistency/clusters.ts';
import { meetingPairs } from '../evaluate/consistency/meeting-pairs.ts';
import type { RowText } from './row-texts.ts';
import { commonWords, HASHES, textSignatures } from './text-signatures.ts';

/** Probability that a pair at the threshold is looked at. */
const RECALL = 0.95;
/** Rows of a large bucket that one is compared with. */
const WINDOW = 32;

/** @param characters length of the n-grams */
export async function nearDuplicates(
  rows: AsyncIterable<RowText>,
  { threshold, characters }: { readonly threshold: number; readonly characters: number },
): Promise<{
  /** Places of the rows to drop, each with that of the row that stays for it. */
  readonly dropped: ReadonlyMap<number, number>;
  /** Rows without a text, which are like nothing. */
  readonly empty: number;
}> {
  const { places, words, empty } = await textSignatures(rows, characters);
  const { root, join } = disjointSets(places.length);
  const signatures = { count: places.length, width: HASHES, words };
  meetingPairs(signatures, bandsFor(threshold, HASHES, RECALL), WINDOW, (a, b) => {
    if (root(a) !== root(b) && commonWords(words, a, b) / HASHES >= threshold) join(a, b);
  });
  const dropped = new Map<number, number>();
  for (const [i, place] of places.entries()) if (root(i) !== i) dropped.set(place, places[root(i)]!);
  return { dropped, empty };
}
