/** A sample while it is generated: its draws, and when it ends. Its result depends on its request and its number alone. */
import { TroupeError } from '../../errors.ts';
import type { Sample, SampleRequest } from '../models/weights.ts';
import { hashInts, uniformAt } from '../random.ts';
import { bestTokens, drawToken, greedyToken, keep, rawLogprob, truncates } from './sampling.ts';

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
  readonly tokenIds: number[];
  readonly logprobs: number[];
  readonly rawLogprobs: number[];
  readonly topLogprobs: { token: number; logprob: number }[][];
  finish: Sample['finish'] | null;
};

/** Sample number `index` of a request, with no token yet. */
export function newSample(request: SampleRequest, index: number): GrowingSample {
  const { seed, promptIds } = request;
  const key = hashInts([seed | 0, Math.floor(seed / 2 ** 32) | 0, index, hashInts(promptIds)]);
  return { request, index, key, tokenIds: [], logprobs: [], rawLogprobs: [], topLogprobs: [], finish: null };
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
  { probabilities, logits, vocabulary }: Distributions,
  row: number,
): void {
  const { request, tokenIds } = sample;
  const at = row * vocabulary;
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
    const raw =
      logits !== null && needsLogits(request)
        ? rawLogprob(logits, at, vocabulary, token)
        : Math.log(probabilities[at + token] as number);
    sample.rawLogprobs.push(raw);
  }
  if ((request.topLogprobs ?? 0) > 0) {
    sample.topLogprobs.push(bestTokens(probabilities, at, vocabulary, request.topLogprobs as number, kept));
  }
  tokenIds.push(token);
  sample.logprobs.push(logprob);
  request.drew?.(sample.index, tokenIds);
  if (request.stopIds.includes(token) || request.ended?.(tokenIds) === true) sample.finish = 'stop';
  else if (tokenIds.length >= request.maxTokens) sample.finish = 'length';
}

export function finished({ request, tokenIds, logprobs, rawLogprobs, topLogprobs, finish }: GrowingSample): Sample {
  return {
    tokenIds,
    logprobs,
    finish: finish ?? 'length',
    ...(request.rawLogprobs === true ? { rawLogprobs } : {}),
    ...((request.topLogprobs ?? 0) > 0 ? { topLogprobs } : {}),
  };
}
