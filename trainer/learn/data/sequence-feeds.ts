/** Feeds of the sequence tower: tokens one behind the other, and the row numbers by which attention finds them again. */

import { headSize } from '../../model/families.ts';
import { causalMask, type RotaryTable } from '../../model/positions.ts';
import type { ModelConfig } from '../../model/weights.ts';
import type { Feed, Feeds } from '../../tensor/session.ts';
import type { Row } from './row.ts';

/**
 * Each row is its prompt and its one completion. What comes after the token that predicts the last wanted one is not computed.
 * @param places of each wanted token its row, its completion (0) and its place in that
 */
export function sequenceFeeds(
  rows: readonly Row[],
  places: readonly (readonly [row: number, completion: number, token: number])[],
  { config, rotary }: { readonly config: ModelConfig; readonly rotary: RotaryTable },
): Feeds {
  const B = rows.length;
  // A row of which nothing is wanted still has a token, so that no sequence is empty.
  const lengths = rows.map(() => 1);
  for (const [q, , t] of places) {
    lengths[q] = Math.max(lengths[q] as number, (rows[q] as Row).promptIds.length + t);
  }
  const starts: number[] = [];
  let N = 0;
  for (const length of lengths) {
    starts.push(N);
    N += length;
  }
  const ids = new Int32Array(N);
  for (const [q, { promptIds, completions }] of rows.entries()) {
    const [start, length] = [starts[q] as number, lengths[q] as number];
    for (let at = 0; at < length; at++) {
      ids[start + at] = promptIds[at] ?? (completions[0]?.tokenIds[at - promptIds.length] as number);
    }
  }
  // Few different widths, so that masks are made seldom and the runtime sees few shapes.
  const L = Math.ceil(Math.max(...lengths) / 8) * 8;
  const H = config.num_key_value_heads;
  const G = config.num_attention_heads / H;
  const queries = headRows(starts, lengths, L, H, G);
  const keys = G === 1 ? queries : headRows(starts, lengths, L, H, 1);
  const predict = places.map(([q, , t]) => (starts[q] as number) + (rows[q] as Row).promptIds.length - 1 + t);
  return {
    'tokens.ids': { shape: [N], data: ids },
    ...positions(lengths, N, headSize(config) / 2, rotary),
    'sequence.causal': groupedMask(L, G),
    'attend.queries': { shape: [B, H, G, L], data: queries.places },
    'attend.query_rows': { shape: [N, H * G], data: queries.rows },
    'attend.keys': { shape: [B, H, L], data: keys.places },
    'attend.key_rows': { shape: [N, H], data: keys.rows },
    predict: { shape: [places.length], data: Int32Array.from(predict) },
  };
}

/**
 * Where each head's row of each token stands among [B, H, G, L], and which row stands at each of those places. Padding names the first
 * row: a key there is hidden by the causal mask and a query there is read by nobody.
 */
function headRows(starts: readonly number[], lengths: readonly number[], L: number, H: number, G: number) {
  const heads = H * G;
  const N = (starts.at(-1) as number) + (lengths.at(-1) as number);
  const places = new Int32Array(starts.length * heads * L);
  const rows = new Int32Array(N * heads);
  for (const [b, start] of starts.entries()) {
    const length = lengths[b] as number;
    for (let head = 0; head < heads; head++) {
      const place = (b * heads + head) * L;
      for (let l = 0; l < length; l++) {
        const row = (start + l) * heads + head;
        places[place + l] = row;
        rows[row] = place + l;
      }
    }
  }
  return { places, rows };
}

/** Rotary tables of each token, which counts from 0 in its own sequence. */
function positions(lengths: readonly number[], N: number, half: number, rotary: RotaryTable): Feeds {
  const { cos, sin } = rotary.rows(0, Math.max(...lengths));
  const spread = ({ data }: Feed): Feed => {
    const all = new Float32Array(N * half);
    let at = 0;
    for (const length of lengths) {
      all.set(data.subarray(0, length * half) as Float32Array, at);
      at += length * half;
    }
    return { shape: [N, half], data: all };
  };
  return { 'tokens.cos': spread(cos), 'tokens.sin': spread(sin) };
}

const groupedMasks = new Map<string, Feed>();

/** The causal mask once for each of G groups of queries, [G·L, L]. */
function groupedMask(L: number, G: number): Feed {
  const mask = causalMask(L);
  if (G === 1) return mask;
  const key = `${L} ${G}`;
  const known = groupedMasks.get(key);
  if (known !== undefined) return known;
  const data = new Float32Array(G * L * L);
  for (let g = 0; g < G; g++) data.set(mask.data as Float32Array, g * L * L);
  const grouped = { shape: [G * L, L], data };
  if (L <= 512) groupedMasks.set(key, grouped);
  return grouped;
}
