/**
 * The keys and values of a batch while it speaks, as plain arrays: those of the prompts, [Q, H, P, D], shared by their
 * samples, and those of each sample's own tokens, [Q·n, H, C, D], in slots that are filled one a step.
 * A row's slots lie together, so that rows which stopped can be dropped by copying whole blocks.
 */
import type { Feed } from './graph/session.ts';
import { MASKED } from './models/positions.ts';

export type CacheSizes = { readonly layers: number; readonly H: number; readonly D: number };

export type KeyValueCache = {
  readonly Q: number;
  readonly n: number;
  readonly P: number;
  /** Slots of each row, of which `filled` are in use. */
  readonly C: number;
  readonly filled: number;
  readonly promptMask: Float32Array;
  /** Two for each layer, keys then values. */
  readonly prompt: readonly Float32Array[];
  readonly own: readonly Float32Array[];
};

/** Slots that serve `tokens` more tokens without growing more than four times past the first. */
export function firstCapacity(tokens: number): number {
  return Math.max(1, Math.min(tokens, 16));
}

export function emptyOwn({ layers, H, D }: CacheSizes, rows: number, C: number): Float32Array[] {
  return Array.from({ length: 2 * layers }, () => new Float32Array(rows * H * C * D));
}

/** Takes the new tokens' keys and values, [Q·n, H, 1, D] for each layer, into the next slot; grows when there is none. */
export function append(cache: KeyValueCache, fresh: readonly Float32Array[], sizes: CacheSizes): KeyValueCache {
  const roomy = cache.filled < cache.C ? cache : grow(cache, sizes);
  const { C, filled, own } = roomy;
  const { D } = sizes;
  for (const [i, from] of fresh.entries()) {
    const to = own[i] as Float32Array;
    // Copying numbers one by one: a head is so short that making a view of it costs more.
    for (let head = 0, at = 0; at < from.length; head++) {
      const slot = (head * C + filled) * D;
      for (let d = 0; d < D; d++) to[slot + d] = from[at++] as number;
    }
  }
  return { ...roomy, filled: filled + 1 };
}

function grow(cache: KeyValueCache, sizes: CacheSizes): KeyValueCache {
  const { Q, n, C, own } = cache;
  const { H, D } = sizes;
  const wider = emptyOwn(sizes, Q * n, 2 * C);
  for (const [i, to] of wider.entries()) {
    const from = own[i] as Float32Array;
    for (let head = 0; head < Q * n * H; head++) {
      to.set(from.subarray(head * C * D, (head + 1) * C * D), head * 2 * C * D);
    }
  }
  return { ...cache, C: 2 * C, own: wider };
}

/** The cache of fewer rows. `rows` are the old rows to keep, `n` for each prompt of `prompts`; −1 is a row nobody reads. */
export function keepRows(
  cache: KeyValueCache,
  prompts: readonly number[],
  rows: readonly number[],
  sizes: CacheSizes,
): KeyValueCache {
  const { P, C } = cache;
  const n = rows.length / prompts.length;
  const promptBlock = sizes.H * P * sizes.D;
  const rowBlock = sizes.H * C * sizes.D;
  return {
    ...cache,
    Q: prompts.length,
    n,
    promptMask: blocks(cache.promptMask, prompts, P),
    prompt: cache.prompt.map((data) => blocks(data, prompts, promptBlock)),
    own: cache.own.map((data) => blocks(data, rows, rowBlock)),
  };
}

function blocks(from: Float32Array, which: readonly number[], size: number): Float32Array {
  const to = new Float32Array(which.length * size);
  for (const [i, index] of which.entries()) {
    if (index >= 0) to.set(from.subarray(index * size, (index + 1) * size), i * size);
  }
  return to;
}

/** What the decode graph is fed of the cache. */
export function cacheFeeds(cache: KeyValueCache, { H, D }: CacheSizes): Record<string, Feed> {
  const { Q, n, P, C, filled } = cache;
  const feeds: Record<string, Feed> = {
    'prompt.mask': { shape: [Q, P], data: cache.promptMask },
    'own.mask': { shape: [C], data: new Float32Array(C).fill(MASKED, filled) },
  };
  for (const [i, data] of cache.prompt.entries()) {
    feeds[`prompt.${i % 2 === 0 ? 'k' : 'v'}.${i >> 1}`] = { shape: [Q, H, P, D], data };
  }
  for (const [i, data] of cache.own.entries()) {
    feeds[`own.${i % 2 === 0 ? 'k' : 'v'}.${i >> 1}`] = { shape: [Q, n, H, C, D], data };
  }
  return feeds;
}
