/**
 * Tasks whose embeddings point the same way, as clusters: a cosine of at least the threshold, computed from the vectors themselves.
 * Up to `exact_up_to` vectors all pairs are looked at; of more, those that meet in bands of random hyperplanes (Charikar, Similarity
 * estimation techniques from rounding algorithms, 2002), so that time is linear. Clusters are what pairs connect (single linkage).
 *
 * Only additions, multiplications and square roots of IEEE doubles in a fixed order, and planes from integers: the same on every machine.
 */
import { refuseInput } from '../methods/refuse.ts';
import { type Bands, bandsFor } from './banding.ts';
import { disjointSets, inOrderOfIds, type Placement } from './clusters.ts';
import { meetingPairs } from './meeting-pairs.ts';
import { wordAt } from './words.ts';

export type TaskVector = { readonly id: string; readonly vector: readonly number[] | null };

export type SimilarVectorsParams = {
  /** Cosine from which two vectors are near. */
  readonly threshold: number;
  /** Vectors up to which all pairs are compared. */
  readonly exact_up_to: number;
  /** Hyperplanes: bits of a signature. */
  readonly planes: number;
  /** Least probability that a pair at the threshold meets, where not all pairs are compared. */
  readonly recall: number;
  /** Members of a bucket that one is compared with at most. */
  readonly window: number;
  readonly seed: number;
};

/** With these, 21 bands of 12 bits: a pair of cosine 0.9 meets with probability 0.97. */
export const SIMILAR_VECTORS: SimilarVectorsParams = {
  threshold: 0.9,
  exact_up_to: 1000,
  planes: 256,
  recall: 0.95,
  window: 32,
  seed: 0,
};

/** A cosine below the threshold by less than this is taken to be at it: unit vectors are kept as 32-bit floats. */
const ROUNDING = 1e-6;
/** Bits of a band that fit a word. */
const MOST_ROWS = 31;

/**
 * The cluster of each task, by id; it does not depend on the order of the rows. A row is alone, with the reason, without a vector
 * (`no_vector`), with another length than most (`other_length`; of equally many the shorter is right), with a number that is none
 * (`not_finite`), or with nothing but zeros (`zero_vector`).
 * @throws TroupeError `method_input` for an id that is there twice, or a parameter out of its range.
 */
export function similarByVectors(
  rows: readonly TaskVector[],
  given: Partial<SimilarVectorsParams> = {},
): Map<string, Placement> {
  const params = { ...SIMILAR_VECTORS, ...given };
  checkParams(params);
  const { sorted, repeated } = inOrderOfIds(rows);
  if (repeated !== null) refuseInput('rows', 'rows of different ids', repeated);
  const length = usualLength(sorted);
  const reasons = sorted.map(({ vector }) => refusal(vector, length));
  const members = [...sorted.keys()].filter((i) => reasons[i] === null);
  const units = unitVectors(
    members.map((i) => sorted[i]!.vector!),
    length,
  );
  const { root, join } = disjointSets(sorted.length);
  const visit = (a: number, b: number) => {
    const [x, y] = [members[a]!, members[b]!];
    if (root(x) !== root(y) && product(units, a, b, length) >= params.threshold - ROUNDING) join(x, y);
  };
  if (members.length <= params.exact_up_to) {
    for (let b = 1; b < members.length; b++) for (let a = 0; a < b; a++) visit(a, b);
  } else {
    const bands = vectorBands(params);
    const words = sides(units, members.length, length, bands, params.seed);
    const signatures = { count: members.length, width: bands.bands, words };
    meetingPairs(signatures, { bands: bands.bands, rows: 1 }, params.window, visit);
  }
  return new Map(sorted.map(({ id }, i) => [id, { cluster: sorted[root(i)]!.id, reason: reasons[i]! }]));
}

/** Bands of bits in which vectors at the threshold meet: a random plane leaves both on one side with probability 1 − angle / π. */
export function vectorBands({ threshold, planes, recall }: SimilarVectorsParams): Bands {
  const { bands, rows } = bandsFor(1 - Math.acos(threshold) / Math.PI, planes, recall);
  return rows <= MOST_ROWS ? { bands, rows } : { bands: Math.floor(planes / MOST_ROWS), rows: MOST_ROWS };
}

function usualLength(rows: readonly TaskVector[]): number {
  const counts = new Map<number, number>();
  for (const { vector } of rows) if (vector !== null) counts.set(vector.length, (counts.get(vector.length) ?? 0) + 1);
  return [...counts].reduce(
    (best, one) => (one[1] > best[1] || (one[1] === best[1] && one[0] < best[0]) ? one : best),
    [0, 0],
  )[0];
}

function refusal(vector: readonly number[] | null, length: number): string | null {
  if (vector === null) return 'no_vector';
  if (vector.length !== length) return 'other_length';
  if (!vector.every(Number.isFinite)) return 'not_finite';
  return vector.every((x) => x === 0) ? 'zero_vector' : null;
}

/** One unit vector after the other. The largest number is divided out first, so that squares neither overflow nor vanish. */
function unitVectors(vectors: readonly (readonly number[])[], length: number): Float32Array {
  const units = new Float32Array(vectors.length * length);
  for (const [v, vector] of vectors.entries()) {
    const largest = vector.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    const norm = Math.sqrt(vector.reduce((sum, x) => sum + (x / largest) * (x / largest), 0));
    for (let i = 0; i < length; i++) units[v * length + i] = vector[i]! / largest / norm;
  }
  return units;
}

function product(units: Float32Array, a: number, b: number, length: number): number {
  let sum = 0;
  for (let i = 0; i < length; i++) sum += units[a * length + i]! * units[b * length + i]!;
  return sum;
}

/** For each vector a word for each band: a bit for each plane, 1 on its positive side, the first plane in the highest bit. */
function sides(units: Float32Array, count: number, length: number, { bands, rows }: Bands, seed: number): Int32Array {
  const planes = Float32Array.from({ length: bands * rows * length }, (_, i) => bell(wordAt(seed, i)));
  const words = new Int32Array(count * bands);
  for (let v = 0; v < count; v++) {
    for (let plane = 0; plane < bands * rows; plane++) {
      let sum = 0;
      for (let i = 0; i < length; i++) sum += units[v * length + i]! * planes[plane * length + i]!;
      const at = v * bands + Math.floor(plane / rows);
      words[at] = (words[at]! << 1) | (sum > 0 ? 1 : 0);
    }
  }
  return words;
}

/** The sum of the four bytes of a word about its mean: near enough to a normal draw for planes in any direction, in integers alone. */
const bell = (word: number): number =>
  (word & 255) + ((word >>> 8) & 255) + ((word >>> 16) & 255) + (word >>> 24) - 510;

function checkParams({ threshold, exact_up_to, planes, recall, window, seed }: SimilarVectorsParams): void {
  const whole = (field: string, value: number, least: number, most: number) => {
    if (!Number.isInteger(value) || value < least || value > most)
      refuseInput(field, `a whole number from ${least} to ${most}`, value);
  };
  if (!(threshold >= -1 && threshold <= 1)) refuseInput('threshold', 'from −1 to 1', threshold);
  whole('exact_up_to', exact_up_to, 0, 10_000);
  whole('planes', planes, 1, 4096);
  whole('window', window, 1, 10_000);
  if (!(recall > 0 && recall < 1)) refuseInput('recall', 'between 0 and 1', recall);
  if (!Number.isSafeInteger(seed)) refuseInput('seed', 'a whole number', seed);
}
