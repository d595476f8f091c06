/**
 * Byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909): the pair of symbols that occurs most often becomes a symbol,
 * again and again. Counts are kept up to date where a merge changes them, so a merge costs the pieces that hold the pair.
 */

export type Merge = readonly [left: number, right: number, made: number];

export type MergeOptions = {
  /** Id of the symbol of each byte, 256 of them, all below 256. */
  readonly symbolOf: readonly number[];
  /** Name of each of the first 256 symbols, by id. */
  readonly names: readonly string[];
  /** Symbols beyond the first 256, at most. */
  readonly limit: number;
  /** A pair that occurs less often is not merged. */
  readonly minFrequency: number;
  readonly onMerge?: (done: number, total: number) => void;
};

/** Ids stay below this, so that a pair is one exact number. */
const SHIFT = 2 ** 26;

/**
 * The merges in the order they were made, and the name of each symbol by id. Of pairs that occur equally often the one whose
 * left symbol is older goes first, then the one whose right symbol is older: equal counts give equal merges, whatever
 * the order of the text. Two merges that spell the same name share one symbol.
 */
export function learnMerges(
  counts: ReadonlyMap<string, number>,
  { symbolOf, names, limit, minFrequency, onMerge }: MergeOptions,
): { readonly merges: readonly Merge[]; readonly names: readonly string[] } {
  const words = symbolsOf(counts, symbolOf);
  const pairs = pairTable();
  for (let word = 0; word < words.count.length; word++) {
    const [from, to] = [words.start[word] as number, words.end[word] as number];
    for (let i = from; i + 1 < to; i++) {
      pairs.change(words.symbols[i] as number, words.symbols[i + 1] as number, words.count[word] as number, word);
    }
  }
  pairs.queueGrown();

  const made = [...names];
  const ids = new Map(made.map((name, id) => [name, id]));
  const merges: Merge[] = [];
  const visited = new Int32Array(words.count.length).fill(-1);
  while (made.length < names.length + limit) {
    const best = pairs.take();
    if (best === null || best.count < Math.max(1, minFrequency)) break;
    const { left, right, holders } = best;
    const name = `${made[left]}${made[right]}`;
    const id = ids.get(name) ?? made.push(name) - 1;
    ids.set(name, id);
    merges.push([left, right, id]);
    for (const word of holders) {
      if (visited[word] === merges.length) continue;
      visited[word] = merges.length;
      words.end[word] = mergeIn(words, word, best, id, pairs);
    }
    pairs.queueGrown();
    onMerge?.(made.length - names.length, limit);
  }
  return { merges, names: made };
}

type Words = {
  /** The symbols of all pieces, one after another. */
  readonly symbols: Int32Array;
  readonly start: Int32Array;
  /** Moves towards the start as merges shorten a piece. */
  readonly end: Int32Array;
  readonly count: Float64Array;
};

function symbolsOf(counts: ReadonlyMap<string, number>, symbolOf: readonly number[]): Words {
  let total = 0;
  for (const piece of counts.keys()) total += Buffer.byteLength(piece);
  const words: Words = {
    symbols: new Int32Array(total),
    start: new Int32Array(counts.size),
    end: new Int32Array(counts.size),
    count: Float64Array.from(counts.values()),
  };
  let at = 0;
  let word = 0;
  for (const piece of counts.keys()) {
    words.start[word] = at;
    for (const byte of Buffer.from(piece)) words.symbols[at++] = symbolOf[byte] as number;
    words.end[word++] = at;
  }
  return words;
}

/** Joins each `left right` of a piece from the front; answers where the piece now ends. */
function mergeIn(
  { symbols, start, end, count }: Words,
  word: number,
  { left, right }: { readonly left: number; readonly right: number },
  id: number,
  pairs: PairTable,
): number {
  const [from, to, times] = [start[word] as number, end[word] as number, count[word] as number];
  let out = from;
  for (let i = from; i < to; ) {
    const symbol = symbols[i] as number;
    if (symbol !== left || i + 1 >= to || symbols[i + 1] !== right) {
      symbols[out++] = symbol;
      i++;
      continue;
    }
    if (out > from) {
      const before = symbols[out - 1] as number;
      pairs.change(before, left, -times, word);
      pairs.change(before, id, times, word);
    }
    if (i + 2 < to) {
      const after = symbols[i + 2] as number;
      // In a run of one symbol that is the pair being merged, which no longer counts.
      if (left !== right || after !== right) pairs.change(right, after, -times, word);
      pairs.change(id, after, times, word);
    }
    symbols[out++] = id;
    i += 2;
  }
  return out;
}

type PairTable = {
  /** Adds to how often a pair occurs; `word` holds it from now on if the change is above 0. */
  readonly change: (left: number, right: number, by: number, word: number) => void;
  /** Puts the pairs that grew into the queue that `take` reads. */
  readonly queueGrown: () => void;
  /** Removes and answers the pair that occurs most often, with the pieces that hold it or once did. */
  readonly take: () => {
    readonly left: number;
    readonly right: number;
    readonly count: number;
    readonly holders: readonly number[];
  } | null;
};

type Pair = { readonly key: number; count: number; holders: number[]; grown: boolean };

/** A pair as the heap knows it: its count may have fallen since, which is found out when it comes to the top. */
type PairCount = { readonly pair: Pair; readonly count: number };

const precedes = (a: PairCount, b: PairCount): boolean =>
  a.count !== b.count ? a.count > b.count : a.pair.key < b.pair.key;

function pairTable(): PairTable {
  const pairs = new Map<number, Pair>();
  const heap: PairCount[] = [];
  let grown: Pair[] = [];

  const push = (entry: PairCount): void => {
    let at = heap.length;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!precedes(entry, heap[parent] as PairCount)) break;
      heap[at] = heap[parent] as PairCount;
      at = parent;
    }
    heap[at] = entry;
  };
  const pop = (): PairCount | undefined => {
    const top = heap[0];
    const last = heap.pop();
    if (heap.length === 0 || last === undefined) return top;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && precedes(heap[child + 1] as PairCount, heap[child] as PairCount)) child++;
      if (!precedes(heap[child] as PairCount, last)) break;
      heap[at] = heap[child] as PairCount;
      at = child;
    }
    heap[at] = last;
    return top;
  };

  return {
    change(left, right, by, word) {
      const key = left * SHIFT + right;
      let pair = pairs.get(key);
      if (pair === undefined) {
        pair = { key, count: 0, holders: [], grown: false };
        pairs.set(key, pair);
      }
      pair.count += by;
      if (by <= 0) return;
      if (pair.holders.at(-1) !== word) pair.holders.push(word);
      if (!pair.grown) grown.push(pair);
      pair.grown = true;
    },
    queueGrown() {
      for (const pair of grown) {
        pair.grown = false;
        if (pair.count > 0) push({ pair, count: pair.count });
      }
      grown = [];
    },
    take() {
      for (let top = pop(); top !== undefined; top = pop()) {
        const { pair, count } = top;
        if (pairs.get(pair.key) !== pair || pair.count <= 0) continue;
        if (pair.count !== count) {
          if (pair.count < count) push({ pair, count: pair.count });
          continue;
        }
        pairs.delete(pair.key);
        return { left: Math.floor(pair.key / SHIFT), right: pair.key % SHIFT, count, holders: pair.holders };
      }
      return null;
    },
  };
}
