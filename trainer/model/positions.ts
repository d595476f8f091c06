/** What a graph is fed about positions: rotary tables and additive masks, as plain arrays. */
import { TroupeError } from '../../errors.ts';
import type { Feed } from '../tensor/session.ts';
import { rotaryFrequencies } from './rotary-frequencies.ts';
import type { ModelConfig } from './weights.ts';

/** Added to a score that must not count: finite, so that a row of nothing but padding stays finite too. */
export const MASKED = -1e9;

export type RotaryTable = {
  /**
   * cos and sin of positions `from` to `from + length`, [length, D/2] each.
   * @throws TroupeError `model_unsupported` past the length that the model's rotary scaling can be run to.
   */
  readonly rows: (from: number, length: number) => { readonly cos: Feed; readonly sin: Feed };
};

/**
 * Cosines and sines of position times frequency. Computed in double precision and grown on demand. A score depends on
 * differences of positions only, so a prompt padded on the left may start at any position.
 */
export function rotaryTable(config: ModelConfig): RotaryTable {
  const { frequencies, attentionFactor, end: limit } = rotaryFrequencies(config);
  const half = frequencies.length;
  let cos = new Float32Array(0);
  let sin = new Float32Array(0);
  const grow = (positions: number) => {
    cos = new Float32Array(positions * half);
    sin = new Float32Array(positions * half);
    for (let p = 0; p < positions; p++) {
      for (let i = 0; i < half; i++) {
        const angle = p * (frequencies[i] as number);
        cos[p * half + i] = attentionFactor * Math.cos(angle);
        sin[p * half + i] = attentionFactor * Math.sin(angle);
      }
    }
  };
  return {
    rows: (from, length) => {
      const end = from + length;
      if (limit !== null && end > limit) {
        const scaling = 'rope_scaling "dynamic" can be run up to max_position_embeddings';
        throw new TroupeError('model_unsupported', `${scaling}, ${limit}; got a sequence of ${end} tokens`, {
          field: 'rope_scaling',
          expected: `at most ${limit} tokens`,
          got: String(end),
        });
      }
      if (end * half > cos.length) grow(Math.max(64, 2 ** Math.ceil(Math.log2(end))));
      const shape = [length, half];
      return {
        cos: { shape, data: cos.subarray(from * half, end * half) },
        sin: { shape, data: sin.subarray(from * half, end * half) },
      };
    },
  };
}

const causalMasks = new Map<number, Feed>();

/** [length, length]: a token sees itself and what came before. */
export function causalMask(length: number): Feed {
  const known = causalMasks.get(length);
  if (known !== undefined) return known;
  const data = new Float32Array(length * length);
  for (let i = 0; i < length; i++) data.fill(MASKED, i * length + i + 1, (i + 1) * length);
  const mask = { shape: [length, length], data };
  // Long masks are cheap to make again and dear to keep.
  if (length <= 512) causalMasks.set(length, mask);
  return mask;
}
