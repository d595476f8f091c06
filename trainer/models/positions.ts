/** What a graph is fed about positions: rotary tables and additive masks, as plain arrays. */
import type { Feed } from '../graph/session.ts';
import type { ModelConfig } from '../weights.ts';
import { headSize } from './llama.ts';

/** Added to a score that must not count: finite, so that a row of nothing but padding stays finite too. */
export const MASKED = -1e9;

export type RotaryTable = {
  /** cos and sin of positions `from` to `from + length`, [length, head/2] each. */
  readonly rows: (from: number, length: number) => { readonly cos: Feed; readonly sin: Feed };
};

/**
 * Angles of Su et al. 2021 (arXiv:2104.09864): position · θ^(−2i/D). Computed in double precision and grown on demand.
 * A score depends on differences of positions only, so a prompt padded on the left may start at any position.
 */
export function rotaryTable(config: ModelConfig): RotaryTable {
  const half = headSize(config) / 2;
  let cos = new Float32Array(0);
  let sin = new Float32Array(0);
  const grow = (positions: number) => {
    cos = new Float32Array(positions * half);
    sin = new Float32Array(positions * half);
    for (let p = 0; p < positions; p++) {
      for (let i = 0; i < half; i++) {
        const angle = p * config.rope_theta ** (-i / half);
        cos[p * half + i] = Math.cos(angle);
        sin[p * half + i] = Math.sin(angle);
      }
    }
  };
  return {
    rows: (from, length) => {
      const end = from + length;
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
