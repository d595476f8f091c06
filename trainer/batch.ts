/**
 * From rows to the padded arrays a graph is fed. Prompts are padded on the left and completions on the right; slots that no
 * row fills have weight 0 and change nothing. Dimensions: Q prompts of P slots, n completions of T = 1 + S tokens.
 */
import { TroupeError } from '../errors.ts';
import type { Feed, Feeds } from './graph/session.ts';
import { causalMask, MASKED, type RotaryTable } from './models/positions.ts';

/** One completion; the arrays beside `tokenIds` have its length. */
export type Completion = {
  readonly tokenIds: readonly number[];
  /** Advantage, or the weight in a supervised mean; 0 for a token that is not trained. */
  readonly weights: readonly number[];
  /** Log-probability when it was sampled; needed by losses with a ratio. */
  readonly oldLogprobs?: readonly number[];
  readonly entropyWeights?: readonly number[];
};

/** A prompt of at least one token and the completions that share it. */
export type Row = { readonly promptIds: readonly number[]; readonly completions: readonly Completion[] };

export type Batch = {
  readonly rows: readonly Row[];
  readonly Q: number;
  readonly P: number;
  readonly n: number;
  readonly T: number;
  readonly feeds: Feeds;
  /** Completion tokens, padding not counted. */
  readonly tokens: number;
};

export type PromptFeeds = { readonly P: number; readonly feeds: Feeds };

/**
 * Feeds of the prompt tower.
 * @throws TroupeError `training_failed` for a prompt without tokens: nothing would predict the first token.
 */
export function promptFeeds(prompts: readonly (readonly number[])[], rotary: RotaryTable): PromptFeeds {
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

/**
 * One batch of rows. Its cost is that of Q·n·T tokens, so rows of like lengths and equally many completions belong together.
 * @throws TroupeError `training_failed` when a row is empty or an array has not the length of its tokens.
 */
export function makeBatch(rows: readonly Row[], rotary: RotaryTable): Batch {
  const Q = rows.length;
  const completions = rows.flatMap((row) => row.completions);
  const n = rows.reduce((most, row) => Math.max(most, row.completions.length), 1);
  // At least one token after the first, so that no dimension is 0.
  const T = completions.reduce((most, { tokenIds }) => Math.max(most, tokenIds.length), 2);
  const S = T - 1;
  if (Q === 0) throw new TroupeError('training_failed', 'a batch needs at least one row, got none');
  const ids = new Int32Array(Q * n * S);
  const target = new Int32Array(Q * n * T);
  const weight = new Float32Array(Q * n * T);
  const old = new Float32Array(Q * n * T);
  const entropy = new Float32Array(Q * n * T);
  let tokens = 0;
  for (const [q, row] of rows.entries()) {
    for (const [i, completion] of row.completions.entries()) {
      const { tokenIds, weights, oldLogprobs, entropyWeights } = completion;
      const at = (q * n + i) * T;
      checkLength('weights', weights, completion);
      checkLength('oldLogprobs', oldLogprobs, completion);
      checkLength('entropyWeights', entropyWeights, completion);
      target.set(tokenIds, at);
      weight.set(weights, at);
      if (oldLogprobs !== undefined) old.set(oldLogprobs, at);
      if (entropyWeights !== undefined) entropy.set(entropyWeights, at);
      for (let t = 0; t + 1 < tokenIds.length; t++) ids[(q * n + i) * S + t] = tokenIds[t] as number;
      tokens += tokenIds.length;
    }
  }
  const prompt = promptFeeds(
    rows.map((row) => row.promptIds),
    rotary,
  );
  const { cos, sin } = rotary.rows(prompt.P, S);
  const perToken = (data: Feed['data']): Feed => ({ shape: [Q, n, T], data });
  const feeds: Feeds = {
    ...prompt.feeds,
    'completion.ids': { shape: [Q, n, S], data: ids },
    'completion.causal': causalMask(S),
    'completion.cos': cos,
    'completion.sin': sin,
    target: perToken(target),
    weight: perToken(weight),
    'old.logprob': perToken(old),
    'entropy.weight': perToken(entropy),
  };
  return { rows, Q, P: prompt.P, n, T, feeds, tokens };
}

/**
 * Rows in parts of about `tokens` computed tokens, padding included, like lengths together: row numbers of each part.
 * A part is at least one row, so one long row makes a part of its own.
 */
export function partition(rows: readonly Row[], tokens: number): number[][] {
  const sizes = rows.map(({ promptIds, completions }) => ({
    n: completions.length,
    T: completions.reduce((most, { tokenIds }) => Math.max(most, tokenIds.length), 0),
    P: promptIds.length,
  }));
  const size = (index: number) => sizes[index] as { readonly n: number; readonly T: number; readonly P: number };
  const order = [...rows.keys()].sort(
    (a, b) => size(a).n - size(b).n || size(a).T - size(b).T || size(a).P - size(b).P,
  );
  const parts: number[][] = [];
  let most = { n: 0, T: 0, P: 0 };
  for (const index of order) {
    const { n, T, P } = size(index);
    const part = parts.at(-1);
    const wider = { n: Math.max(most.n, n), T: Math.max(most.T, T), P: Math.max(most.P, P) };
    if (part !== undefined && (part.length + 1) * (wider.n * wider.T + wider.P) <= tokens) {
      part.push(index);
      most = wider;
    } else {
      parts.push([index]);
      most = { n, T, P };
    }
  }
  return parts;
}

/** Per-token results [Q·n·T] as one list for each completion of each row, padding dropped. */
export function perCompletion(batch: Batch, values: ArrayLike<number>): number[][][] {
  const { rows, n, T } = batch;
  return rows.map((row, q) =>
    row.completions.map(({ tokenIds }, i) =>
      Array.from({ length: tokenIds.length }, (_, t) => values[(q * n + i) * T + t] as number),
    ),
  );
}

function checkLength(name: string, values: readonly number[] | undefined, { tokenIds }: Completion): void {
  if (values === undefined || values.length === tokenIds.length) return;
  throw new TroupeError(
    'training_failed',
    `${name} must have one number for each of ${tokenIds.length} tokens, got ${values.length}`,
  );
}
