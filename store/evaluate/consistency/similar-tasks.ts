/**
 * Tasks whose texts are nearly the same, as clusters. Near is an exact Jaccard similarity of their character n-grams of at least the
 * threshold; who is compared with whom is found by MinHash and bands. The estimate alone would flip pairs at the threshold with the
 * seed (its deviation is 0.04 for 128 hashes), and the exact number costs little, because few pairs get so far: so two texts are
 * never joined that are not near, and the seed decides only about the few pairs that do not meet.
 *
 * Clusters are what pairs connect (single linkage): two members may be less near than the threshold where others lie between them.
 * In time linear in the tasks, in 4 bytes × hashes a task beside the texts.
 */
import { sha256 } from '../../../ingest/events/json.ts';
import { refuseInput } from '../methods/refuse.ts';
import { bandsFor } from './banding.ts';
import { disjointSets, inOrderOfIds, type Placement } from './clusters.ts';
import { meetingPairs } from './meeting-pairs.ts';
import { minHasher } from './minhash.ts';
import { jaccard, normaliseText, shingles } from './shingles.ts';

export type TaskText = { readonly id: string; readonly text: string | null };

export type SimilarTasksParams = {
  /** Characters of an n-gram. */
  readonly length: number;
  /** Words of a signature. */
  readonly hashes: number;
  /** Jaccard similarity from which two texts are near. */
  readonly threshold: number;
  /** Least probability that a pair at the threshold meets; bands follow from it. */
  readonly recall: number;
  /** Members of a bucket that one is compared with at most. */
  readonly window: number;
  readonly seed: number;
};

/** With these, 25 bands of 5 rows: a pair of similarity 0.7 meets with probability 0.990, one of 0.8 with 0.99995, one of 0.3 with 0.06. */
export const SIMILAR_TASKS: SimilarTasksParams = {
  length: 5,
  hashes: 128,
  threshold: 0.7,
  recall: 0.95,
  window: 32,
  seed: 0,
};

/** Deviations of the estimate below the threshold at which a pair is not looked at exactly: one pair in 30,000 at the threshold. */
const DEVIATIONS = 4;
/** N-grams that are kept for the next look: 16 MiB. */
const REMEMBERED = 4 << 20;

/**
 * The cluster of each task, by id; it does not depend on the order of the tasks. A task without a text (`no_text`), or with nothing but
 * white space (`empty_text`), is alone.
 * @throws TroupeError `method_input` for an id that is there twice, or a parameter out of its range.
 */
export function similarTasks(
  tasks: readonly TaskText[],
  given: Partial<SimilarTasksParams> = {},
): Map<string, Placement> {
  const params = { ...SIMILAR_TASKS, ...given };
  checkParams(params);
  const { sorted, repeated } = inOrderOfIds(tasks);
  if (repeated !== null) refuseInput('tasks', 'tasks of different ids', repeated);
  const { root, join } = disjointSets(sorted.length);
  const reasons = new Array<string | null>(sorted.length).fill(null);
  const firsts = distinctTexts(sorted, reasons, join);
  const near = nearTexts(sorted, firsts, params);
  meetingPairs(near.signatures, bandsFor(params.threshold, params.hashes, params.recall), params.window, (a, b) => {
    const [x, y] = [firsts[a]!, firsts[b]!];
    if (root(x) !== root(y) && near.areNear(a, b)) join(x, y);
  });
  return new Map(sorted.map(({ id }, i) => [id, { cluster: sorted[root(i)]!.id, reason: reasons[i]! }]));
}

/** The first task of each distinct text; the others are joined to it. Only digests are held, so long texts cost no memory. */
function distinctTexts(
  tasks: readonly TaskText[],
  reasons: (string | null)[],
  join: (a: number, b: number) => void,
): number[] {
  const seen = new Map<string, number>();
  const firsts: number[] = [];
  for (const [i, { text }] of tasks.entries()) {
    const normal = text === null ? null : normaliseText(text);
    if (normal === null || normal === '') {
      reasons[i] = normal === null ? 'no_text' : 'empty_text';
      continue;
    }
    const digest = sha256(normal);
    const first = seen.get(digest);
    if (first === undefined) {
      seen.set(digest, i);
      firsts.push(i);
    } else join(first, i);
  }
  return firsts;
}

/** Signatures of texts, and whether two of them are near. N-grams are made again for a look, because holding them all would not fit. */
function nearTexts(
  tasks: readonly TaskText[],
  members: readonly number[],
  { length, hashes, threshold, seed }: SimilarTasksParams,
) {
  const words = new Int32Array(members.length * hashes);
  const make = (member: number) => shingles(normaliseText(tasks[members[member]!]!.text!), length);
  const gramsOf = remembered(make);
  const write = minHasher(hashes, seed);
  for (let m = 0; m < members.length; m++) write(make(m), words.subarray(m * hashes, (m + 1) * hashes));
  const least = hashes * threshold - DEVIATIONS * Math.sqrt(hashes * threshold * (1 - threshold));
  const agreeing = (a: number, b: number): number => {
    let same = 0;
    for (let i = 0; i < hashes; i++) if (words[a * hashes + i] === words[b * hashes + i]) same++;
    return same;
  };
  return {
    signatures: { count: members.length, width: hashes, words },
    areNear: (a: number, b: number): boolean => agreeing(a, b) >= least && jaccard(gramsOf(a), gramsOf(b)) >= threshold,
  };
}

/** What was made last, as far as it fits: members of a large bucket are looked at again and again. */
function remembered(make: (member: number) => Int32Array): (member: number) => Int32Array {
  const made = new Map<number, Int32Array>();
  let held = 0;
  return (member) => {
    let grams = made.get(member);
    if (grams !== undefined) return grams;
    grams = make(member);
    made.set(member, grams);
    held += grams.length;
    for (const [oldest, { length }] of made) {
      if (held <= REMEMBERED || oldest === member) break;
      made.delete(oldest);
      held -= length;
    }
    return grams;
  };
}

function checkParams({ length, hashes, threshold, recall, window, seed }: SimilarTasksParams): void {
  const whole = (field: string, value: number, most: number) => {
    if (!Number.isInteger(value) || value < 1 || value > most)
      refuseInput(field, `a whole number from 1 to ${most}`, value);
  };
  whole('length', length, 1000);
  whole('hashes', hashes, 4096);
  whole('window', window, 10_000);
  if (!(threshold > 0 && threshold <= 1)) refuseInput('threshold', 'above 0 and at most 1', threshold);
  if (!(recall > 0 && recall < 1)) refuseInput('recall', 'between 0 and 1', recall);
  if (!Number.isSafeInteger(seed)) refuseInput('seed', 'a whole number', seed);
}
