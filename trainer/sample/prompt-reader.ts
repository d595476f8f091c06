/**
 * Reads prompts into keys and values. Prompts of one run are equally long and start at position 0, so what is computed of a
 * prompt does not depend on its company; a long prompt is read in pieces, so that running samples continue in between.
 */

import { causalMask, MASKED, type RotaryTable } from '../model/positions.ts';
import type { Feed, Feeds, Session } from '../tensor/session.ts';
import { type CacheSizes, cacheNames } from './key-value-cache.ts';

export type PromptReader = {
  readonly session: Pick<Session, 'run'>;
  readonly parameters: Feeds;
  readonly rotary: RotaryTable;
  readonly sizes: CacheSizes;
};

/** What has been read of a prompt: [H, tokens, D] of each array. */
export type ReadPart = { readonly tokens: number; readonly arrays: readonly Float32Array[] };

/** One prompt, or one piece of it after `past`. */
export type PromptPiece = {
  readonly ids: readonly number[];
  readonly inverseTemperature: number;
  readonly past: ReadPart | null;
};

/** Reads equally long pieces that have equally much behind them: more than one only where nothing is behind them. */
export async function readPrompts(
  reader: PromptReader,
  readings: readonly PromptPiece[],
  logits: boolean,
): Promise<{
  readonly probabilities: Float32Array;
  readonly logits: Float32Array | null;
  /** Of each reading all that has been read of its prompt now. */
  readonly parts: readonly ReadPart[];
}> {
  const { sizes, rotary, session, parameters } = reader;
  const { H, D } = sizes;
  const Q = readings.length;
  const { ids, past } = readings[0] as PromptPiece;
  const S = ids.length;
  const behind = past?.tokens ?? 0;
  // No dimension may be 0: where nothing was read there is one slot that nobody sees.
  const C = Math.max(1, behind);
  // A product of one row is summed in another order than a product of more; nobody's bits may depend on their company.
  const twice = Q === 1 ? [...readings, ...readings] : readings;
  const R = twice.length;
  const { cos, sin } = rotary.rows(behind, S);
  const names = cacheNames(sizes);
  const feeds: Record<string, Feed> = {
    ...parameters,
    'read.ids': { shape: [Q, S], data: Int32Array.from(readings.flatMap((reading) => reading.ids)) },
    'read.causal': causalMask(S),
    'read.cos': cos,
    'read.sin': sin,
    'read.last': { shape: [R], data: Int32Array.from(twice, (_, q) => ((q % Q) + 1) * S - 1) },
    'inverse.temperature': { shape: [R], data: Float32Array.from(twice, (reading) => reading.inverseTemperature) },
    'past.mask': { shape: [C], data: new Float32Array(C).fill(behind === 0 ? MASKED : 0) },
  };
  for (const [i, name] of names.entries()) {
    const data = past?.arrays[i] ?? new Float32Array(Q * H * C * D);
    feeds[`past.${name}`] = { shape: [Q, H, C, D], data };
  }
  const wanted = ['probabilities', ...(logits ? ['logits'] : []), ...names];
  const out = await session.run(feeds, Object.fromEntries(wanted.map((name) => [name, null])));
  const result = (name: string) => (out[name] as Feed).data as Float32Array;
  return {
    probabilities: result('probabilities'),
    logits: logits ? result('logits') : null,
    parts: readings.map((_, q) => ({
      tokens: behind + S,
      arrays: names.map((name, i) => {
        const fresh = result(name).subarray(q * H * S * D, (q + 1) * H * S * D);
        return past === null ? fresh : joined(past.arrays[i] as Float32Array, fresh, H);
      }),
    })),
  };
}

/** [H, a, D] and [H, b, D] as [H, a+b, D]. */
function joined(a: Float32Array, b: Float32Array, H: number): Float32Array {
  const [m, n] = [a.length / H, b.length / H];
  const all = new Float32Array(a.length + b.length);
  for (let h = 0; h < H; h++) {
    all.set(a.subarray(h * m, (h + 1) * m), h * (m + n));
    all.set(b.subarray(h * n, (h + 1) * n), h * (m + n) + m);
  }
  return all;
}
