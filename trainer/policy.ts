/**
 * A policy that speaks: samples with a key-value cache, and scores given tokens. A run blocks the event loop while it
 * computes, so a policy that serves others lives in a process of its own.
 */
import { got, TroupeError } from '../errors.ts';
import { makeBatch, partition, perCompletion, type Row } from './batch.ts';
import { speak } from './decode.ts';
import { type Feed, type Feeds, openSession, type Session } from './graph/session.ts';
import { decodeGraph, prefillGraph, scoreGraph } from './models/graphs.ts';
import { checkWeights, headSize, parameterShapes } from './models/llama.ts';
import { type RotaryTable, rotaryTable } from './models/positions.ts';
import type { ModelConfig, Sample, SampleRequest, Weights } from './weights.ts';

export type PolicyOptions = { readonly threads?: number };
export type ScoreRow = { readonly promptIds: readonly number[]; readonly tokenIds: readonly number[] };

/** Rows of one decoding batch: more no longer make products faster, and their activations leave the processor's cache. */
const ROWS_AT_ONCE = 1024;
/** Floats of a decoding batch's own keys and values, at most (256 MiB). */
const CACHE_FLOATS = 2 ** 26;
/** Tokens of one scoring batch. */
const TOKENS_AT_ONCE = 4096;

export class Policy {
  readonly config: ModelConfig;
  readonly #rotary: RotaryTable;
  readonly #prefill: Session;
  readonly #decode: Session;
  readonly #threads: number;
  #score: Promise<Session> | null = null;
  #parameters: Feeds;

  private constructor(config: ModelConfig, weights: Weights, prefill: Session, decode: Session, threads: number) {
    this.config = config;
    this.#rotary = rotaryTable(config);
    this.#prefill = prefill;
    this.#decode = decode;
    this.#threads = threads;
    this.#parameters = copyOf(config, weights);
  }

  /**
   * Compiles the graphs of a model and takes a copy of its weights.
   * @throws TroupeError `model_unsupported` when weights and configuration disagree, `platform_unsupported` without a runtime.
   */
  static async load(config: ModelConfig, weights: Weights, { threads = 1 }: PolicyOptions = {}): Promise<Policy> {
    checkWeights(config, weights);
    const prefill = await openSession(prefillGraph(config), { threads });
    const decode = await openSession(decodeGraph(config), { threads });
    return new Policy(config, weights, prefill, decode, threads);
  }

  /** Speaks with other weights of the same model from the next call on; calls under way end with those they began with. */
  setWeights(weights: Weights): void {
    checkWeights(this.config, weights);
    this.#parameters = copyOf(this.config, weights);
  }

  /**
   * The n samples of each request, in order. Log-probabilities are those of the distribution sampled from, its temperature
   * applied; at temperature 0 they are those at temperature 1.
   * @throws TroupeError `input_refused` for a request that cannot be spoken to, naming it.
   */
  async sample(requests: readonly SampleRequest[]): Promise<Sample[][]> {
    for (const [index, request] of requests.entries()) this.#checkRequest(request, index);
    const results: Sample[][] = requests.map((request) =>
      Array.from({ length: request.n }, () => ({ tokenIds: [], logprobs: [], finish: 'length' })),
    );
    const speaker = {
      prefill: this.#prefill,
      decode: this.#decode,
      parameters: this.#parameters,
      rotary: this.#rotary,
      sizes: {
        layers: this.config.num_hidden_layers,
        H: this.config.num_key_value_heads,
        D: headSize(this.config),
      },
      vocabulary: this.config.vocab_size,
    };
    for (const group of this.#batches(requests)) {
      const spoken = await speak(
        speaker,
        group.map((index) => this.#bounded(requests[index] as SampleRequest)),
      );
      for (const [i, index] of group.entries()) results[index] = spoken[i] as Sample[];
    }
    return results;
  }

  /** Log-probability of each token of each row at temperature 1, given its prompt and the tokens before it. */
  async logprobs(rows: readonly ScoreRow[]): Promise<number[][]> {
    const results: number[][] = rows.map(() => []);
    const wanted = [...rows.keys()].filter((i) => (rows[i] as ScoreRow).tokenIds.length > 0);
    for (const i of wanted) {
      const { promptIds, tokenIds } = rows[i] as ScoreRow;
      this.#checkIds(promptIds, `rows[${i}].promptIds`);
      this.#checkIds(tokenIds, `rows[${i}].tokenIds`);
    }
    this.#score ??= openSession(scoreGraph(this.config), { threads: this.#threads });
    const session = await this.#score;
    const groups = byPrompt(rows, wanted);
    const shared = groups.map((members): Row => {
      const completions = members.map((i) => {
        const { tokenIds } = rows[i] as ScoreRow;
        return { tokenIds, weights: tokenIds.map(() => 0) };
      });
      return { promptIds: (rows[members[0] as number] as ScoreRow).promptIds, completions };
    });
    for (const part of partition(shared, TOKENS_AT_ONCE)) {
      const batch = makeBatch(
        part.map((q) => shared[q] as Row),
        this.#rotary,
      );
      const out = await session.run({ ...this.#parameters, ...batch.feeds }, { logprobs: null });
      for (const [q, ofRow] of perCompletion(batch, (out.logprobs as Feed).data).entries()) {
        for (const [i, logprobs] of ofRow.entries()) results[groups[part[q] as number]?.[i] as number] = logprobs;
      }
    }
    return results;
  }

  async close(): Promise<void> {
    await this.#prefill.close();
    await this.#decode.close();
    if (this.#score !== null) await (await this.#score).close();
  }

  /** Requests that ask for equally many samples, short prompts with short ones, as many as one batch bears. */
  #batches(requests: readonly SampleRequest[]): number[][] {
    const at = (index: number) => requests[index] as SampleRequest;
    const order = [...requests.keys()]
      .filter((i) => at(i).n > 0 && this.#bounded(at(i)).maxTokens > 0)
      .sort((a, b) => at(a).n - at(b).n || at(a).promptIds.length - at(b).promptIds.length);
    const { num_hidden_layers: layers, num_key_value_heads: H } = this.config;
    const perToken = 2 * layers * H * headSize(this.config);
    const groups: number[][] = [];
    let longest = 0;
    for (const index of order) {
      const { n, maxTokens, promptIds } = at(index);
      const group = groups.at(-1);
      const first = group === undefined ? undefined : at(group[0] as number);
      longest = Math.max(group === undefined ? 0 : longest, maxTokens);
      const rows = ((group?.length ?? 0) + 1) * n;
      const fits =
        first?.n === n &&
        rows <= ROWS_AT_ONCE &&
        rows * longest * perToken <= CACHE_FLOATS &&
        promptIds.length <= 1.5 * first.promptIds.length + 16;
      if (fits) group?.push(index);
      else {
        groups.push([index]);
        longest = maxTokens;
      }
    }
    return groups;
  }

  #bounded(request: SampleRequest): SampleRequest {
    const room = this.config.max_position_embeddings - request.promptIds.length;
    return request.maxTokens <= room ? request : { ...request, maxTokens: room };
  }

  #checkRequest(request: SampleRequest, index: number): void {
    const { promptIds, n, maxTokens, temperature } = request;
    const at = `requests[${index}]`;
    this.#checkIds(promptIds, `${at}.promptIds`);
    const limit = this.config.max_position_embeddings;
    if (promptIds.length > limit) {
      throw new TroupeError(
        'too_large',
        `${at}: the model reads ${limit} tokens at most, the prompt has ${promptIds.length}`,
      );
    }
    if (!Number.isInteger(n) || n < 0 || !Number.isInteger(maxTokens) || maxTokens < 0) {
      throw new TroupeError('input_refused', `${at}: n and maxTokens must be whole numbers, got ${n} and ${maxTokens}`);
    }
    if (!(temperature >= 0 && Number.isFinite(temperature))) {
      throw new TroupeError('input_refused', `${at}: temperature must be 0 or more, got ${got(temperature)}`);
    }
  }

  #checkIds(ids: readonly number[], field: string): void {
    const { vocab_size } = this.config;
    if (ids.length === 0)
      throw new TroupeError('input_refused', `${field} needs at least one token, got none`, { field });
    for (const id of ids) {
      if (Number.isInteger(id) && id >= 0 && id < vocab_size) continue;
      const message = `${field} must hold whole numbers from 0 to ${vocab_size - 1}, got ${got(id)}`;
      throw new TroupeError('input_refused', message, { field });
    }
  }
}

function copyOf(config: ModelConfig, weights: Weights): Feeds {
  return Object.fromEntries(
    parameterShapes(config).map(([name, shape]) => [name, { shape, data: (weights.get(name) as Feed).data.slice() }]),
  );
}

/** Row numbers of equal prompts together, where their lengths are alike: each is one prompt computed once. */
function byPrompt(rows: readonly ScoreRow[], wanted: readonly number[]): number[][] {
  const groups = new Map<string, number[]>();
  for (const index of wanted) {
    const { promptIds, tokenIds } = rows[index] as ScoreRow;
    const key = `${Math.ceil(Math.log2(tokenIds.length))} ${promptIds.join()}`;
    const members = groups.get(key);
    if (members === undefined) groups.set(key, [index]);
    else members.push(index);
  }
  return [...groups.values()];
}
