/** Choosing one token from a row of probabilities: pure, the randomness is handed in. */

export type Draw = { readonly token: number; readonly logprob: number };

/** What a row of probabilities is cut down to before a token is drawn; what is absent cuts nothing. */
export type Truncation = {
  /** The so many most probable tokens. */
  readonly topK?: number;
  /** Of those, the fewest whose probabilities sum to so much (Holtzman et al. 2020, arXiv:1904.09751). */
  readonly topP?: number;
  /** Of those, the ones at least so many times as probable as the best (Nguyen et al. 2024, arXiv:2407.01082). */
  readonly minP?: number;
};

/**
 * The tokens that a truncation keeps: all that are more probable than `least`, and of those exactly as probable the first
 * `ties` in order of their ids. `count` tokens of probability `mass` together.
 */
export type NucleusCut = {
  readonly least: number;
  readonly ties: number;
  readonly count: number;
  readonly mass: number;
};

const EVERYTHING: NucleusCut = { least: -1, ties: 0, count: Number.POSITIVE_INFINITY, mass: 1 };

export const truncates = ({ topK = 0, topP = 1, minP = 0 }: Truncation): boolean => topK > 0 || topP < 1 || minP > 0;

/**
 * The token at which the running sum of the kept probabilities passes `uniform` of their mass, a number in [0, 1), and its
 * log-probability among the kept. Rounding can leave the sum short of it; then the last kept token is meant.
 */
export function drawToken(
  probabilities: Float32Array,
  at: number,
  vocabulary: number,
  uniform: number,
  { least, ties, mass }: NucleusCut = EVERYTHING,
): Draw {
  const wanted = uniform * mass;
  let equal = ties;
  let sum = 0;
  let token = -1;
  for (let v = 0; v < vocabulary; v++) {
    const p = probabilities[at + v] as number;
    if (p === 0 || p < least || (p === least && equal-- <= 0)) continue;
    token = v;
    sum += p;
    if (sum > wanted) break;
  }
  return { token, logprob: Math.log((probabilities[at + token] as number) / mass) };
}

/**
 * The same 32-bit float in the fewest of 6 to 9 digits. Rows, datasets and losses hold log-probabilities as such floats, and an event
 * holds each as text, which has 17 digits where it is not one.
 */
export function shortFloat(value: number): number {
  const float = Math.fround(value);
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(float.toPrecision(digits));
    if (Math.fround(short) === float) return short;
  }
  return Number(float.toPrecision(9));
}

/** The most probable token; the first of equals. */
export function greedyToken(probabilities: Float32Array, at: number, vocabulary: number): Draw {
  let token = 0;
  let most = probabilities[at] as number;
  for (let v = 1; v < vocabulary; v++) {
    const p = probabilities[at + v] as number;
    if (p > most) {
      most = p;
      token = v;
    }
  }
  return { token, logprob: Math.log(most) };
}

/** Bits of a float that its bucket drops: 32 buckets for each power of two, in the order of the numbers. */
const DROPPED_BITS = 18;
const BUCKETS = (0x3f800000 >>> DROPPED_BITS) + 2;

/**
 * What a truncation keeps of a row of probabilities. One pass counts them by size and only the tokens of the bucket in which
 * a border falls are sorted, so that a vocabulary of 152,000 costs a pass and not a sort.
 */
export function keep(probabilities: Float32Array, at: number, vocabulary: number, truncation: Truncation): NucleusCut {
  const { topK = 0, topP = 1, minP = 0 } = truncation;
  const bits = new Uint32Array(probabilities.buffer, probabilities.byteOffset + 4 * at, vocabulary);
  const counts = new Int32Array(BUCKETS);
  const masses = new Float64Array(BUCKETS);
  let most = 0;
  for (let v = 0; v < vocabulary; v++) {
    const p = probabilities[at + v] as number;
    // Numbers that are none are found by whoever draws.
    if (!(p > 0)) continue;
    const bucket = Math.min((bits[v] as number) >>> DROPPED_BITS, BUCKETS - 1);
    counts[bucket] = (counts[bucket] as number) + 1;
    masses[bucket] = (masses[bucket] as number) + p;
    if (p > most) most = p;
  }
  /** Goes down from the most probable token until `enough`, or to tokens below `floor`. */
  const down = (enough: (count: number, mass: number) => boolean, floor: number): NucleusCut => {
    let count = 0;
    let mass = 0;
    let least = 0;
    const lowest = bucketOf(floor);
    for (let bucket = BUCKETS - 1; bucket >= 0; bucket--) {
      if (counts[bucket] === 0) continue;
      const whole = [count + (counts[bucket] as number), mass + (masses[bucket] as number)] as const;
      if (!enough(...whole) && bucket > lowest) {
        [count, mass] = whole;
        continue;
      }
      const inside: number[] = [];
      for (let v = 0; v < vocabulary; v++) {
        const p = probabilities[at + v] as number;
        if (p > 0 && Math.min((bits[v] as number) >>> DROPPED_BITS, BUCKETS - 1) === bucket) inside.push(p);
      }
      inside.sort((a, b) => b - a);
      let ties = 0;
      for (const p of inside) {
        if (p < floor && ties === 0) return { least: floor, ties: Number.POSITIVE_INFINITY, count, mass };
        if (p < floor || (count > 0 && enough(count, mass))) return { least, ties, count, mass };
        ties = p === least ? ties + 1 : 1;
        least = p;
        count += 1;
        mass += p;
      }
      if (enough(count, mass)) return { least, ties, count, mass };
    }
    return { least: 0, ties: 0, count, mass };
  };
  const first = topK > 0 ? down((count) => count >= topK, 0) : down(() => false, 0);
  if (topP >= 1 && minP <= 0) return first;
  return down((count, mass) => count >= first.count || (topP < 1 && mass >= topP * first.mass), minP * most);
}

const word = new Float32Array(1);
const wordBits = new Uint32Array(word.buffer);

function bucketOf(p: number): number {
  word[0] = p;
  return (wordBits[0] as number) >>> DROPPED_BITS;
}

/** The `count` most probable tokens, best first and lower ids before higher of equals, with the logarithm of p / mass. */
export function bestTokens(
  probabilities: Float32Array,
  at: number,
  vocabulary: number,
  count: number,
  { mass, count: kept }: NucleusCut = EVERYTHING,
): Draw[] {
  const wanted = Math.min(count, kept, vocabulary);
  const best: number[] = [];
  const value = (token: number | undefined) => (token === undefined ? -1 : (probabilities[at + token] as number));
  for (let v = 0; v < vocabulary; v++) {
    const p = probabilities[at + v] as number;
    if (best.length === wanted && !(p > value(best[wanted - 1]))) continue;
    let place = Math.min(best.length, wanted - 1);
    while (place > 0 && value(best[place - 1]) < p) {
      best[place] = best[place - 1] as number;
      place -= 1;
    }
    if (wanted > 0) best[place] = v;
  }
  return best.map((token) => ({ token, logprob: Math.log(value(token) / mass) }));
}

/** log softmax(logits)[token] of one row: its log-probability at temperature 1, nothing cut. */
export function rawLogprob(logits: Float32Array, at: number, vocabulary: number, token: number): number {
  let most = Number.NEGATIVE_INFINITY;
  for (let v = 0; v < vocabulary; v++) most = Math.max(most, logits[at + v] as number);
  let sum = 0;
  for (let v = 0; v < vocabulary; v++) sum += Math.exp((logits[at + v] as number) - most);
  return (logits[at + token] as number) - most - Math.log(sum);
}
