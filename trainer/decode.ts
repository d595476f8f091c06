/**
 * Speaks for a batch of requests that ask for equally many samples: prompts are read once, then all samples grow by one
 * token a step until each has stopped. Rows that stopped are dropped as soon as that makes the batch a fifth smaller.
 */
import { TroupeError } from '../errors.ts';
import { promptFeeds } from './batch.ts';
import type { Feed, Feeds, Session } from './graph/session.ts';
import {
  append,
  type CacheSizes,
  cacheFeeds,
  emptyOwn,
  firstCapacity,
  type KeyValueCache,
  keepRows,
} from './key-value-cache.ts';
import type { RotaryTable } from './models/positions.ts';
import { hashInts, uniformAt } from './random.ts';
import { drawToken, greedyToken } from './sampling.ts';
import type { Sample, SampleRequest } from './weights.ts';

export type Speaker = {
  readonly prefill: Session;
  readonly decode: Session;
  readonly parameters: Feeds;
  readonly rotary: RotaryTable;
  readonly sizes: CacheSizes;
  readonly vocabulary: number;
};

/** A sample that grows. */
type Growing = {
  readonly request: SampleRequest;
  readonly key: number;
  readonly tokenIds: number[];
  readonly logprobs: number[];
  finish: Sample['finish'] | null;
};

const DROP_BELOW = 0.8;

/**
 * Samples of each request, in order. All requests have the same n; each has a prompt and at least one token to speak.
 * @throws TroupeError `checkpoint_damaged` when the weights give no probabilities.
 */
export async function speak(speaker: Speaker, requests: readonly SampleRequest[]): Promise<Sample[][]> {
  const { vocabulary, sizes } = speaker;
  const samples = requests.map((request) =>
    Array.from({ length: request.n }, (_, i): Growing => {
      const key = hashInts([request.seed | 0, Math.floor(request.seed / 2 ** 32) | 0, i, hashInts(request.promptIds)]);
      return { request, key, tokenIds: [], logprobs: [], finish: null };
    }),
  );
  const first = await readPrompts(speaker, requests);
  for (const [q, growing] of samples.entries()) {
    for (const sample of growing) take(sample, first.probabilities, q * vocabulary, vocabulary);
  }
  const steps = Math.max(...requests.map((request) => request.maxTokens)) - 1;
  // The grid of live samples, row by row of the cache; undefined where a row has nobody.
  let grid: (Growing | undefined)[] = samples.flat();
  const n = grid.length / requests.length;
  const C = firstCapacity(steps - 1);
  let cache: KeyValueCache = {
    ...first,
    Q: requests.length,
    n,
    C,
    filled: 0,
    own: emptyOwn(sizes, grid.length, C),
  };
  for (let step = 0; step < steps; step++) {
    ({ grid, cache } = dropStopped(grid, cache, sizes));
    if (grid.length === 0) break;
    const { probabilities, fresh } = await stepForward(speaker, grid, cache, first.P + step);
    for (const [row, sample] of grid.entries()) {
      if (sample?.finish === null) take(sample, probabilities, row * vocabulary, vocabulary);
    }
    if (step + 1 < steps) cache = append(cache, fresh, sizes);
  }
  return samples.map((growing) =>
    growing.map(({ tokenIds, logprobs, finish }) => ({ tokenIds, logprobs, finish: finish ?? 'length' })),
  );
}

const inverseTemperature = ({ temperature }: SampleRequest): number => (temperature === 0 ? 1 : 1 / temperature);

async function readPrompts({ prefill, parameters, rotary, sizes }: Speaker, requests: readonly SampleRequest[]) {
  const { P, feeds } = promptFeeds(
    requests.map((request) => request.promptIds),
    rotary,
  );
  const inverse = Float32Array.from(requests, inverseTemperature);
  const names = Array.from({ length: sizes.layers }, (_, i) => [`prompt.k.${i}`, `prompt.v.${i}`]).flat();
  const out = await prefill.run(
    { ...parameters, ...feeds, 'inverse.temperature': { shape: [requests.length], data: inverse } },
    Object.fromEntries(['probabilities', ...names].map((name) => [name, null])),
  );
  return {
    P,
    probabilities: (out.probabilities as Feed).data as Float32Array,
    promptMask: (feeds['prompt.mask'] as Feed).data as Float32Array,
    prompt: names.map((name) => (out[name] as Feed).data as Float32Array),
  };
}

async function stepForward(
  { decode, parameters, rotary, sizes }: Speaker,
  grid: readonly (Growing | undefined)[],
  cache: KeyValueCache,
  position: number,
): Promise<{ readonly probabilities: Float32Array; readonly fresh: readonly Float32Array[] }> {
  const { Q, n } = cache;
  const { cos, sin } = rotary.rows(position, 1);
  const ids = Int32Array.from(grid, (sample) => sample?.tokenIds.at(-1) ?? 0);
  const inverse = Float32Array.from(grid, (sample) => (sample === undefined ? 1 : inverseTemperature(sample.request)));
  const names = Array.from({ length: sizes.layers }, (_, i) => [`k.${i}`, `v.${i}`]).flat();
  const out = await decode.run(
    {
      ...parameters,
      ...cacheFeeds(cache, sizes),
      'step.ids': { shape: [Q, n], data: ids },
      'step.cos': cos,
      'step.sin': sin,
      'inverse.temperature': { shape: [Q * n], data: inverse },
    },
    Object.fromEntries(['probabilities', ...names].map((name) => [name, null])),
  );
  return {
    probabilities: (out.probabilities as Feed).data as Float32Array,
    fresh: names.map((name) => (out[name] as Feed).data as Float32Array),
  };
}

/** Gives a sample its next token; the draw depends on the sample's own key and length only. */
function take(sample: Growing, probabilities: Float32Array, at: number, vocabulary: number): void {
  const { request, tokenIds } = sample;
  const { token, logprob } =
    request.temperature === 0
      ? greedyToken(probabilities, at, vocabulary)
      : drawToken(probabilities, at, vocabulary, uniformAt(sample.key, tokenIds.length));
  if (!Number.isFinite(logprob)) {
    throw new TroupeError(
      'checkpoint_damaged',
      'the probabilities of the next token must be numbers, got NaN; the weights are damaged',
    );
  }
  tokenIds.push(token);
  sample.logprobs.push(logprob);
  if (request.stopIds.includes(token)) sample.finish = 'stop';
  else if (tokenIds.length >= request.maxTokens) sample.finish = 'length';
}

/** Live samples move to the front of their prompt's rows; prompts without one go. */
function dropStopped(
  grid: readonly (Growing | undefined)[],
  cache: KeyValueCache,
  sizes: CacheSizes,
): { grid: (Growing | undefined)[]; cache: KeyValueCache } {
  const { Q, n } = cache;
  const live = Array.from({ length: Q }, (_, q) =>
    Array.from({ length: n }, (_, i) => q * n + i).filter((row) => grid[row]?.finish === null),
  );
  const width = Math.max(...live.map((rows) => rows.length));
  const prompts = live.flatMap((rows, q) => (rows.length > 0 ? [q] : []));
  if (prompts.length * width > DROP_BELOW * Q * n) return { grid: [...grid], cache };
  const rows = prompts.flatMap((q) => Array.from({ length: width }, (_, i) => live[q]?.[i] ?? -1));
  if (rows.length === 0) return { grid: [], cache };
  return { grid: rows.map((row) => grid[row]), cache: keepRows(cache, prompts, rows, sizes) };
}
