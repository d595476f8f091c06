/** A sample while it is generated: its draws, and when it ends. Its result depends on its request and its number alone. */
import { TroupeError } from '../../errors.ts';
import type { Sample, SampleRequest } from '../model/weights.ts';
import { hashInts, uniformAt } from '../tensor/random.ts';
import type { Walk } from './constraint.ts';
import { bestTokens, type Draw, drawToken, greedyToken, keep, rawLogprob, shortFloat, truncates } from './sampling.ts';

/** Rows [rows, vocabulary] for the next token; logits are there where a sample needs them. */
export type Distributions = {
  readonly probabilities: Float32Array;
  readonly logits: Float32Array | null;
  readonly vocabulary: number;
};

export type GrowingSample = {
  readonly request: SampleRequest;
  readonly index: number;
  readonly key: number;
  readonly walk: Walk | null;
  readonly tokenIds: number[];
  readonly logprobs: number[];
  readonly rawLogprobs: number[];
  readonly topLogprobs: { token: number; logprob: number }[][];
  finish: Sample['finish'] | null;
};

/** The seed of sample number `index` of a request, of 32 bits. */
export const seedOfSample = ({ seed, promptIds }: Pick<SampleRequest, 'seed' | 'promptIds'>, index: number): number =>
  hashInts([seed | 0, Math.floor(seed / 2 ** 32) | 0, index, hashInts(promptIds)]);

/** Sample number `index` of a request, with no token yet. */
export function newSample(request: SampleRequest, index: number): GrowingSample {
  return {
    request,
    index,
    key: seedOfSample(request, index),
    walk: request.constraint?.() ?? null,
    tokenIds: [],
    logprobs: [],
    rawLogprobs: [],
    topLogprobs: [],
    finish: null,
  };
}

/** Whether log-probabilities at temperature 1 cannot be read off the probabilities. */
export const needsLogits = ({ rawLogprobs = false, temperature }: SampleRequest): boolean =>
  rawLogprobs && temperature !== 0 && temperature !== 1;

export const inverseTemperature = ({ temperature }: SampleRequest): number => (temperature === 0 ? 1 : 1 / temperature);

/**
 * Gives a sample its next token from row `row`.
 * @throws TroupeError `checkpoint_damaged` when the weights give no probabilities.
 */
export function takeToken(
  sample: GrowingSample,
  { probabilities: unmasked, logits, vocabulary }: Distributions,
  row: number,
): void {
  const { request, tokenIds, walk } = sample;
  const raw = row * vocabulary;
  const probabilities =
    walk === null ? unmasked : masked(unmasked.subarray(raw, raw + vocabulary), walk, request.stopIds);
  const at = walk === null ? raw : 0;
  const greedy = request.temperature === 0;
  const kept = !greedy && truncates(request) ? keep(probabilities, at, vocabulary, request) : undefined;
  const { token, logprob } = greedy
    ? greedyToken(probabilities, at, vocabulary)
    : drawToken(probabilities, at, vocabulary, uniformAt(sample.key, tokenIds.length), kept);
  if (!Number.isFinite(logprob)) {
    throw new TroupeError(
      'checkpoint_damaged',
      'the probabilities of the next token must be numbers, got NaN; the weights are damaged',
    );
  }
  if (request.rawLogprobs === true) {
    const logprob =
      logits !== null && needsLogits(request)
        ? rawLogprob(logits, raw, vocabulary, token)
        : Math.log(unmasked[raw + token] as number);
    sample.rawLogprobs.push(logprob);
  }
  if ((request.topLogprobs ?? 0) > 0) {
    sample.topLogprobs.push(bestTokens(probabilities, at, vocabulary, request.topLogprobs as number, kept));
  }
  tokenIds.push(token);
  sample.logprobs.push(logprob);
  request.drew?.(sample.index, tokenIds);
  walk?.take(token);
  if (request.stopIds.includes(token) || request.ended?.(tokenIds) === true) sample.finish = 'stop';
  else if (request.stopIds.length === 0 && walk?.isWhole() && walk.allowed().length === 0) sample.finish = 'stop';
  else if (tokenIds.length >= request.maxTokens) sample.finish = 'length';
}

/**
 * A row of probabilities among the tokens that may come next, which sum to 1; a sample may stop once its text is whole. Where all of
 * them are too improbable for a 32-bit float, each is as probable as the others.
 */
function masked(row: Float32Array, walk: Walk, stopIds: readonly number[]): Float32Array {
  const next = walk.allowed();
  const stops = walk.isWhole() ? stopIds : [];
  const allowed = new Float32Array(row.length);
  let sum = 0;
  for (const id of next) if (id < row.length) sum += allowed[id] = row[id] as number;
  for (const id of stops) {
    if (id >= row.length || next.includes(id)) continue;
    sum += allowed[id] = row[id] as number;
  }
  if (sum === 0) {
    for (const ids of [next, stops]) for (const id of ids) if (id < row.length) allowed[id] = 1;
    sum = allowed.reduce((total, one) => total + one, 0);
  }
  if (sum !== 1) for (let id = 0; id < allowed.length; id++) allowed[id] = (allowed[id] as number) / sum;
  return allowed;
}

const inFewDigits = (best: readonly Draw[]): Draw[] =>
  best.map(({ token, logprob }) => ({ token, logprob: shortFloat(logprob) }));

export function finished({ request, tokenIds, logprobs, rawLogprobs, topLogprobs, finish }: GrowingSample): Sample {
  return {
    tokenIds,
    logprobs: logprobs.map(shortFloat),
    finish: finish ?? 'length',
    ...(request.rawLogprobs === true ? { rawLogprobs: rawLogprobs.map(shortFloat) } : {}),
    ...((request.topLogprobs ?? 0) > 0 ? { topLogprobs: topLogprobs.map(inFewDigits) } : {}),
  };
}
