/**
 * The keys and values of the samples of a running batch, as plain arrays [B, H, C, D] that are fed to the graph where they
 * lie: nothing is copied for a step but the new slot. Rows come and go at token boundaries; the last row fills a gap.
 */

import { MASKED } from '../model/positions.ts';
import type { Feed } from '../tensor/session.ts';

export type CacheSizes = { readonly layers: number; readonly H: number; readonly D: number };

/**
 * Slots come in blocks of so many. The runtime sums a row of C + 1 probabilities in vectors of up to 16, so masked blocks
 * behind a sample's own, which are exactly 0, leave the bits of its sum as they are; the last slot, which stands alone, is
 * never filled. Measured: with blocks of 16 no bit depends on other samples' lengths, with blocks of 5 most sums do.
 */
const BLOCK = 16;

/** Slots of an array that holds `filled` tokens. */
export const slotsFor = (filled: number): number => BLOCK * Math.ceil((filled + 1) / BLOCK);

/** Floats of the keys and values of one sample that ends with `tokens` tokens. */
export const rowFloats = ({ layers, H, D }: CacheSizes, tokens: number): number =>
  2 * layers * H * D * slotsFor(tokens);

/** Names of the arrays in their order: keys and values of each layer. */
export const cacheNames = ({ layers }: CacheSizes): string[] =>
  Array.from({ length: layers }, (_, i) => [`k.${i}`, `v.${i}`]).flat();

/** Floats of arrays that are kept when no sample is being generated, all together (128 MiB). */
const KEPT_FLOATS = 2 ** 25;

export class KeyValueCache {
  readonly #sizes: CacheSizes;
  #C = BLOCK;
  /** Tokens of each row. */
  #filled: number[] = [];
  /** Longer than what they hold. What lies beyond a row's tokens is old but finite, and masked. */
  #arrays: Float32Array[];
  #mask = new Float32Array(0);

  constructor(sizes: CacheSizes) {
    this.#sizes = sizes;
    this.#arrays = cacheNames(sizes).map(() => new Float32Array(0));
  }

  get rows(): number {
    return this.#filled.length;
  }

  /** Makes room for rows that are about to be added, each with a prompt of at most P tokens. */
  reserve(rows: number, P: number): void {
    this.#layOut(this.rows + rows, this.rows === 0 ? slotsFor(P) : Math.max(this.#C, slotsFor(P)));
  }

  /** Takes a row whose first tokens are those of a prompt: [H, P, D] of each array. `row` is the place of one that has gone, or the next. */
  put(row: number, prompt: readonly Float32Array[]): void {
    const { H, D } = this.#sizes;
    const P = (prompt[0] as Float32Array).length / (H * D);
    this.#layOut(Math.max(this.rows, row + 1), Math.max(this.#C, slotsFor(P)));
    for (const [i, from] of prompt.entries()) {
      const to = this.#arrays[i] as Float32Array;
      for (let h = 0; h < H; h++) to.set(from.subarray(h * P * D, (h + 1) * P * D), (row * H + h) * this.#C * D);
    }
    this.#filled[row] = P;
    this.#maskRow(row);
  }

  /** Takes the new slot of every row: [B, H, 1, D] of each array. */
  append(fresh: readonly Float32Array[]): void {
    const { H, D } = this.#sizes;
    const most = this.#filled.reduce((a, b) => Math.max(a, b), 0) + 1;
    if (slotsFor(most) > this.#C) this.#layOut(this.rows, slotsFor(most + (most >> 3)));
    const C = this.#C;
    const B = this.rows;
    for (const [i, from] of fresh.entries()) {
      const to = this.#arrays[i] as Float32Array;
      for (let row = 0, at = 0; row < B; row++) {
        const slot = this.#filled[row] as number;
        // Number by number: a head is so short that making a view of it costs more.
        for (let h = 0; h < H; h++) {
          const start = ((row * H + h) * C + slot) * D;
          for (let d = 0; d < D; d++) to[start + d] = from[at++] as number;
        }
      }
    }
    for (let row = 0; row < B; row++) {
      const slot = this.#filled[row] as number;
      this.#mask[row * (1 + C) + 1 + slot] = 0;
      this.#filled[row] = slot + 1;
    }
  }

  /** Drops a row; the last one takes its place. */
  remove(row: number): void {
    const last = this.rows - 1;
    if (row < last) {
      const block = this.#sizes.H * this.#C * this.#sizes.D;
      for (const data of this.#arrays) data.copyWithin(row * block, last * block, (last + 1) * block);
      this.#filled[row] = this.#filled[last] as number;
      this.#maskRow(row);
    }
    this.#filled.pop();
  }

  /** Gives up what rows that have gone needed: a long sample leaves slots that would be read for nothing, and a crowd leaves memory. */
  trim(): void {
    const most = this.#filled.reduce((a, b) => Math.max(a, b), 0);
    if (this.rows > 0 && slotsFor(2 * most) < this.#C) this.#layOut(this.rows, slotsFor(most));
    if (this.rows === 0) this.#C = BLOCK;
    if (this.rows === 0 && this.#arrays.length * (this.#arrays[0] as Float32Array).length > KEPT_FLOATS) {
      this.#arrays = this.#arrays.map(() => new Float32Array(0));
    }
  }

  /** What the step graph is fed of the cache. */
  feeds(): Record<string, Feed> {
    const { H, D } = this.#sizes;
    const [B, C] = [this.rows, this.#C];
    const feeds: Record<string, Feed> = {
      'own.mask': { shape: [B, 1 + C], data: this.#mask.subarray(0, B * (1 + C)) },
    };
    for (const [i, name] of cacheNames(this.#sizes).entries()) {
      const data = (this.#arrays[i] as Float32Array).subarray(0, B * H * C * D);
      feeds[`own.${name}`] = { shape: [B, H, C, D], data };
    }
    return feeds;
  }

  #maskRow(row: number): void {
    const start = row * (1 + this.#C);
    const filled = start + 1 + (this.#filled[row] as number);
    this.#mask.fill(0, start, filled);
    this.#mask.fill(MASKED, filled, start + 1 + this.#C);
  }

  /** Makes room for `rows` rows of C slots. Rows move inside their arrays: fresh memory costs more than the moving does. */
  #layOut(rows: number, C: number): void {
    const { H, D } = this.#sizes;
    const before = this.#C;
    const needed = rows * H * C * D;
    const fits = (this.#arrays[0] as Float32Array).length >= needed;
    if (fits && C === before && this.#mask.length >= rows * (1 + C)) return;
    this.#arrays = this.#arrays.map((from) => {
      const to = fits ? from : new Float32Array(needed + (this.rows === 0 ? 0 : needed >> 1));
      const move = (head: number): void => {
        const filled = this.#filled[Math.floor(head / H)] as number;
        const start = head * before * D;
        if (fits) to.copyWithin(head * C * D, start, start + filled * D);
        else to.set(from.subarray(start, start + filled * D), head * C * D);
      };
      // Towards the end from the end on, towards the front from the front on, so that no head is written over unmoved.
      const heads = this.rows * H;
      for (let i = 0; i < heads; i++) move(C > before ? heads - 1 - i : i);
      return to;
    });
    this.#C = C;
    this.#mask = new Float32Array(2 * rows * (1 + C));
    for (const row of this.#filled.keys()) this.#maskRow(row);
  }
}
