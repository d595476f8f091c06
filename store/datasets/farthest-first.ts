/**
 * The rows that are least alike: the first, then again and again the one whose nearest chosen row is farthest (Gonzalez, Clustering to
 * minimize the maximum intercluster distance, 1985; as a choice of training data the greedy k-centers of Sener and Savarese, Active
 * Learning for Convolutional Neural Networks: A Core-Set Approach, 2018). Distance is the share of words that two signatures do not
 * have in common. Each choice looks at every row once.
 */
import { commonWords, HASHES } from './text-signatures.ts';

/**
 * @param members numbers of signatures in order; of rows that are equally far the first is taken
 * @returns the chosen members, at most `rows`, in the order of choice
 */
export function farthestFirst(words: Int32Array, members: Int32Array, rows: number): number[] {
  if (members.length <= rows) return [...members];
  // How much each has in common with the chosen row that is most like it; one that is chosen is not taken again.
  const nearest = new Uint8Array(members.length);
  const TAKEN = HASHES + 1;
  const chosen: number[] = [];
  let next = 0;
  while (chosen.length < rows) {
    const taken = members[next]!;
    chosen.push(taken);
    nearest[next] = TAKEN;
    let least = TAKEN;
    for (let i = 0; i < members.length; i++) {
      if (nearest[i] === TAKEN) continue;
      const common = commonWords(words, taken, members[i]!);
      if (common > nearest[i]!) nearest[i] = common;
      if (nearest[i]! < least) {
        least = nearest[i]!;
        next = i;
      }
    }
  }
  return chosen;
}
