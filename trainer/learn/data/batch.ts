/**
 * From rows to the arrays a graph is fed. Rows of one completion each become sequences without padding (`models/sequence.ts`); where
 * completions share prompts, each prompt is computed once (`models/decoder.ts`). Either way the loss sees the K trained tokens alone.
 */
import { TroupeError } from '../../../errors.ts';
import type { TokenColumn } from '../../model/losses/loss.ts';
import { causalMask, MASKED, type RotaryTable } from '../../model/positions.ts';
import type { ModelConfig } from '../../model/weights.ts';
import type { Feed, Feeds } from '../../tensor/session.ts';
import type { Completion, Row } from './row.ts';
import { sequenceFeeds } from './sequence-feeds.ts';

/**
 * Tokens computed at once; it bounds memory, whatever the size of the batch. Measured at width 128: parts of 4,096 tokens
 * take 5 % less CPU time than one of 8,192, whose activations leave the processor's cache, and parts of 512 take 10 % more.
 */
export const TOKENS_AT_ONCE = 4096;

/** How rows are laid out: one session is compiled for each. */
export type Layout = 'sequences' | 'shared-prompts';

/** Which tokens become the K of a batch: those that a loss trains, or all of the completions. */
export type TokenChoice = 'trained' | 'all';

export type Batch = {
  readonly rows: readonly Row[];
  readonly layout: Layout;
  readonly feeds: Feeds;
  /** K: the tokens that results are given for. */
  readonly tokens: number;
  /** Of each of the K tokens its row, its completion there and its place in that. */
  readonly places: readonly (readonly [row: number, completion: number, token: number])[];
};

const COLUMNS: Readonly<Record<TokenColumn, keyof Completion>> = {
  weight: 'weights',
  'old.logprob': 'oldLogprobs',
  'ref.logprob': 'refLogprobs',
  'entropy.weight': 'entropyWeights',
  'kl.weight': 'klWeights',
  return: 'returns',
};

export function layoutOf(rows: readonly Row[]): Layout {
  return rows.every(({ completions }) => completions.length === 1) ? 'sequences' : 'shared-prompts';
}

/** True for a token that a loss may send a gradient from. */
function isTrained({ weights, entropyWeights, klWeights }: Completion, token: number): boolean {
  return weights[token] !== 0 || (entropyWeights?.[token] ?? 0) !== 0 || (klWeights?.[token] ?? 0) !== 0;
}

/**
 * One batch of rows in the given layout.
 * @throws TroupeError `training_failed` when there is no row, a prompt is empty, an array has not the length of its tokens, or no
 * token is wanted.
 */
export function makeBatch(
  rows: readonly Row[],
  model: { readonly config: ModelConfig; readonly rotary: RotaryTable },
  { wanted = 'trained', layout = layoutOf(rows) }: { readonly wanted?: TokenChoice; readonly layout?: Layout } = {},
): Batch {
  if (rows.length === 0) throw new TroupeError('training_failed', 'a batch needs at least one row, got none');
  const places: [number, number, number][] = [];
  for (const [q, { promptIds, completions }] of rows.entries()) {
    if (promptIds.length === 0) {
      throw new TroupeError('training_failed', `a prompt needs at least one token; prompt ${q} of this batch has none`);
    }
    for (const [i, completion] of completions.entries()) {
      for (const field of Object.values(COLUMNS)) checkLength(field, completion);
      checkLength('segments', completion);
      for (let t = 0; t < completion.tokenIds.length; t++) {
        if (wanted === 'all' || isTrained(completion, t)) places.push([q, i, t]);
      }
    }
  }
  if (places.length === 0) {
    throw new TroupeError('training_failed', 'a batch needs at least one token with a weight, got none');
  }
  const laid =
    layout === 'sequences' ? sequenceFeeds(rows, places, model) : sharedPromptFeeds(rows, places, model.rotary);
  return { rows, layout, feeds: { ...laid, ...tokenFeeds(rows, places) }, tokens: places.length, places };
}

/** Per-token results [K] as one list for each completion of each row; null for a token that was not wanted. */
export function perCompletion({ rows, places }: Batch, values: ArrayLike<number>): (number | null)[][][] {
  const lists = rows.map((row) => row.completions.map(({ tokenIds }): (number | null)[] => tokenIds.map(() => null)));
  for (const [k, [q, i, t]] of places.entries()) {
    const list = lists[q]?.[i];
    if (list !== undefined) list[t] = values[k] as number;
  }
  return lists;
}

/**
 * Rows in parts of about `tokens` computed tokens, like lengths together: row numbers of each part. A part is at least one row, so one
 * long row makes a part of its own.
 */
export function partition(rows: readonly Row[], tokens: number, layout: Layout = layoutOf(rows)): number[][] {
  const sizes = rows.map(({ promptIds, completions }) => ({
    n: completions.length,
    T: completions.reduce((most, { tokenIds }) => Math.max(most, tokenIds.length), 0),
    P: promptIds.length,
  }));
  const size = (index: number) => sizes[index] as { readonly n: number; readonly T: number; readonly P: number };
  const length = (index: number) => size(index).P + size(index).T;
  const order = [...rows.keys()].sort(
    layout === 'sequences'
      ? (a, b) => length(a) - length(b)
      : (a, b) => size(a).n - size(b).n || size(a).T - size(b).T || size(a).P - size(b).P,
  );
  const parts: number[][] = [];
  let most = { n: 0, T: 0, P: 0 };
  let total = 0;
  for (const index of order) {
    const { n, T, P } = size(index);
    const part = parts.at(-1);
    const wider = { n: Math.max(most.n, n), T: Math.max(most.T, T), P: Math.max(most.P, P) };
    const cost =
      layout === 'sequences' ? total + length(index) : ((part?.length ?? 0) + 1) * (wider.n * wider.T + wider.P);
    if (part !== undefined && cost <= tokens) {
      part.push(index);
      most = wider;
      total += length(index);
    } else {
      parts.push([index]);
      most = { n, T, P };
      total = length(index);
    }
  }
  return parts;
}

/**
 * Feeds of the prompt tower: prompts padded on the left to P slots.
 * @throws TroupeError `training_failed` for a prompt without tokens: nothing would predict the first token.
 */
function promptFeeds(prompts: readonly (readonly number[])[], rotary: RotaryTable) {
  const Q = prompts.length;
  const P = prompts.reduce((most, ids) => Math.max(most, ids.length), 1);
  const ids = new Int32Array(Q * P);
  const mask = new Float32Array(Q * P);
  const last = new Int32Array(Q);
  for (const [q, prompt] of prompts.entries()) {
    if (prompt.length === 0) {
      throw new TroupeError('training_failed', `a prompt needs at least one token; prompt ${q} of this batch has none`);
    }
    const start = q * P + P - prompt.length;
    ids.set(prompt, start);
    mask.fill(MASKED, q * P, start);
    last[q] = q * P + P - 1;
  }
  const { cos, sin } = rotary.rows(0, P);
  const at = rotary.rows(P - 1, 1);
  return {
    P,
    feeds: {
      'prompt.ids': { shape: [Q, P], data: ids },
      'prompt.mask': { shape: [Q, P], data: mask },
      'prompt.causal': causalMask(P),
      'prompt.last': { shape: [Q], data: last },
      'prompt.cos': cos,
      'prompt.sin': sin,
      'last.cos': at.cos,
      'last.sin': at.sin,
    },
  };
}

/** Prompts padded on the left and, for each, n completions of T = 1 + S tokens padded on the right, where nothing looks at them. */
function sharedPromptFeeds(rows: readonly Row[], places: Batch['places'], rotary: RotaryTable): Feeds {
  const Q = rows.length;
  const n = rows.reduce((most, row) => Math.max(most, row.completions.length), 1);
  // At least one token after the first, so that no dimension is 0.
  const T = rows.flatMap((row) => row.completions).reduce((most, { tokenIds }) => Math.max(most, tokenIds.length), 2);
  const S = T - 1;
  const ids = new Int32Array(Q * n * S);
  for (const [q, row] of rows.entries()) {
    for (const [i, { tokenIds }] of row.completions.entries()) ids.set(tokenIds.slice(0, -1), (q * n + i) * S);
  }
  const { P, feeds } = promptFeeds(
    rows.map((row) => row.promptIds),
    rotary,
  );
  const { cos, sin } = rotary.rows(P, S);
  return {
    ...feeds,
    'completion.ids': { shape: [Q, n, S], data: ids },
    'completion.causal': causalMask(S),
    'completion.cos': cos,
    'completion.sin': sin,
    predict: { shape: [places.length], data: Int32Array.from(places, ([q, i, t]) => (q * n + i) * T + t) },
  };
}

/** What the loss reads: of each wanted token its id, its columns, and its segment. */
function tokenFeeds(rows: readonly Row[], places: Batch['places']): Feeds {
  const K = places.length;
  const each = places.map(([q, i]) => rows[q]?.completions[i] as Completion);
  const feeds: Record<string, Feed> = {
    target: { shape: [K], data: Int32Array.from(places, ([, , t], k) => each[k]?.tokenIds[t] as number) },
  };
  for (const [column, field] of Object.entries(COLUMNS)) {
    const data = new Float32Array(K);
    let given = 0;
    for (const [k, [, , t]] of places.entries()) {
      const numbers = each[k]?.[field];
      if (numbers === undefined) continue;
      data[k] = numbers[t] as number;
      given += 1;
    }
    // The weights of terms that a row leaves out are 0; a log-probability that is left out is unknown.
    if (given === K || column.endsWith('weight')) feeds[column] = { shape: [K], data };
  }
  const starts: number[] = [];
  const weights: number[] = [];
  for (const { segmentWeights = [] } of rows) {
    starts.push(weights.length);
    weights.push(...segmentWeights);
  }
  if (weights.length > 0) {
    const segment = places.map(([q, , t], k) => (starts[q] as number) + (each[k]?.segments?.[t] ?? 0));
    feeds.segment = { shape: [K], data: Int32Array.from(segment) };
    feeds['segment.weight'] = { shape: [weights.length], data: Float32Array.from(weights) };
  }
  return feeds;
}

function checkLength(field: keyof Completion, completion: Completion): void {
  const { [field]: values, tokenIds } = completion;
  if (values === undefined || values.length === tokenIds.length) return;
  throw new TroupeError(
    'training_failed',
    `${field} must have one number for each of ${tokenIds.length} tokens, got ${values.length}`,
  );
}
