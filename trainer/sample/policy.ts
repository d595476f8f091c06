/**
 * A policy that generates samples and scores given tokens. Any number of calls may be under way: their samples grow together, a
 * token at a time. A run blocks the event loop while it computes, so a policy that serves others lives in a process of its own.
 */
import { got, TroupeError } from '../../errors.ts';
import { type Layout, layoutOf, makeBatch, partition, perCompletion, TOKENS_AT_ONCE } from '../learn/data/batch.ts';
import type { Row } from '../learn/data/row.ts';
import { headSize } from '../model/families.ts';
import { scoreGraph } from '../model/graphs.ts';
import { parameterInputs } from '../model/layer.ts';
import { checkWeights, parameterShapes } from '../model/parameters.ts';
import { type RotaryTable, rotaryTable } from '../model/positions.ts';
import { parameterConstants, readGraph, stepGraph } from '../model/sampling-graphs.ts';
import type { ModelConfig, Sample, SampleRequest, Tensor, Weights } from '../model/weights.ts';
import { type Feed, type Feeds, openSession, type Session } from '../tensor/session.ts';
import type { CacheSizes } from './key-value-cache.ts';
import { type BatchLimits, RunningBatch } from './running-batch.ts';

export type PolicyOptions = {
  readonly threads?: number;
  /** Other limits than those that suit the model's size. */
  readonly limits?: Partial<BatchLimits>;
};
export type ScoreRow = { readonly promptIds: readonly number[]; readonly tokenIds: readonly number[] };

/** Floats of a running batch's keys and values, at most (256 MiB). */
const CACHE_FLOATS = 2 ** 26;
/** Rows at once: more no longer make products faster, and their activations leave the processor's cache. */
const ROWS_AT_ONCE = 1024;
/** Parameters times rows of one run, at most: about a quarter of a second on one core, which is how long others may wait. */
const PRODUCTS_AT_ONCE = 5e9;
/** Parameters of a graph that has them as constants, at most: an ONNX file ends at 2 GiB. Larger models are fed them. */
const CONSTANT_PARAMETERS = 4e8;

/** One set of weights and the requests it serves. */
type Generation = { readonly parameters: Feeds; readonly batch: RunningBatch; readonly close: () => Promise<void> };

export class Policy {
  readonly config: ModelConfig;
  readonly #rotary: RotaryTable;
  readonly #threads: number;
  readonly #limits: Partial<BatchLimits>;
  /** Sessions that take the weights as inputs and so outlive them. */
  readonly #sessions = new Map<string, Promise<Session>>();
  #now: Generation;
  readonly #leaving = new Set<Promise<void>>();

  private constructor(config: ModelConfig, weights: Weights, { threads = 1, limits = {} }: PolicyOptions) {
    this.config = config;
    this.#rotary = rotaryTable(config);
    this.#threads = threads;
    this.#limits = limits;
    this.#now = this.#generation(weights);
  }

  /**
   * Compiles the graphs of a model and takes a copy of its weights.
   * @throws TroupeError `model_unsupported` when weights and configuration disagree, `platform_unsupported` without a runtime.
   */
  static async load(config: ModelConfig, weights: Weights, options: PolicyOptions = {}): Promise<Policy> {
    checkWeights(config, weights);
    const policy = new Policy(config, weights, options);
    if (policy.#generates) await policy.#read();
    else await policy.#score('sequences');
    return policy;
  }

  /** Uses other weights of the same model from the next call on; calls under way end with those they began with. */
  setWeights(weights: Weights): void {
    checkWeights(this.config, weights);
    const before = this.#now;
    this.#now = this.#generation(weights);
    const left = before.batch.idle().then(before.close);
    this.#leaving.add(left);
    void left.finally(() => this.#leaving.delete(left));
  }

  /**
   * The n samples of each request, in order. Log-probabilities are those of the distribution sampled from; at temperature 0
   * they are those at temperature 1. With one thread a sample's bits do not depend on other samples generated meanwhile.
   * @throws TroupeError `input_refused` for a request that cannot be served, naming it; `interrupted` once `signal` is aborted.
   */
  async sample(
    requests: readonly SampleRequest[],
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<Sample[][]> {
    for (const [index, request] of requests.entries()) this.#checkRequest(request, index);
    const { batch } = this.#now;
    return Promise.all(
      requests.map((request): Sample[] | Promise<Sample[]> => {
        const bounded = this.#bounded(request);
        if (request.n > 0 && bounded.maxTokens > 0) return batch.generate(bounded, signal);
        return Array.from({ length: request.n }, () => ({ tokenIds: [], logprobs: [], finish: 'length' }));
      }),
    );
  }

  /** Log-probability of each token of each row at temperature 1, given its prompt and the tokens before it. */
  async logprobs(rows: readonly ScoreRow[]): Promise<number[][]> {
    if (!this.#generates) throw unsupported('has a language-model head', this.config);
    return this.#scores(rows, 'logprobs');
  }

  /**
   * Of each token of each row the value that a model with a value head gives to the state before it.
   * @throws TroupeError `model_unsupported` for a model without one.
   */
  async values(rows: readonly ScoreRow[]): Promise<number[][]> {
    if (this.config.head !== 'value') throw unsupported('has a value head', this.config);
    return this.#scores(rows, 'values');
  }

  /** Ends once those under way have been served. */
  async close(): Promise<void> {
    await this.#now.batch.idle();
    await this.#now.close();
    await Promise.all(this.#leaving);
    for (const session of this.#sessions.values()) await (await session).close();
    this.#sessions.clear();
  }

  get #generates(): boolean {
    return (this.config.head ?? 'lm') === 'lm';
  }

  /** Opened when it is first needed, and then kept. */
  #session(name: string, open: () => Promise<Session>): Promise<Session> {
    let session = this.#sessions.get(name);
    if (session === undefined) {
      session = open();
      this.#sessions.set(name, session);
    }
    return session;
  }

  #read = (): Promise<Session> =>
    this.#session('read', () =>
      openSession(readGraph(this.config, parameterInputs(this.config)), { threads: this.#threads }),
    );

  #score = (layout: Layout): Promise<Session> =>
    this.#session(`score ${layout}`, () => openSession(scoreGraph(this.config, layout), { threads: this.#threads }));

  #generation(weights: Weights): Generation {
    const { config } = this;
    const threads = this.#threads;
    const shapes = parameterShapes(config);
    const copy = new Map(
      shapes.map(([name, shape]): [string, Tensor] => [
        name,
        { shape, data: (weights.get(name) as Tensor).data.slice() },
      ]),
    );
    const parameters: Feeds = Object.fromEntries(copy);
    const count = [...copy.values()].reduce((sum, { data }) => sum + data.length, 0);
    const constant = count <= CONSTANT_PARAMETERS;
    let own: Promise<Session> | null = null;
    const step = () => {
      if (!constant) {
        return this.#session('step', () => openSession(stepGraph(config, parameterInputs(config)), { threads }));
      }
      // Compiled for the weights at their first sample: weights that only score never need it.
      own ??= openSession(stepGraph(config, parameterConstants(config, copy)), { threads });
      return own;
    };
    const sizes: CacheSizes = {
      layers: config.num_hidden_layers,
      H: config.num_key_value_heads,
      D: headSize(config),
    };
    const read = this.#read;
    const batch = new RunningBatch(
      {
        session: { run: async (...run) => (await read()).run(...run) },
        parameters,
        rotary: this.#rotary,
        sizes,
        step,
        stepParameters: constant ? {} : parameters,
        vocabulary: config.vocab_size,
      },
      { ...limitsOf(count, config), ...this.#limits },
    );
    return {
      parameters,
      batch,
      close: async () => {
        if (own !== null) await (await own).close();
      },
    };
  }

  async #scores(rows: readonly ScoreRow[], output: 'logprobs' | 'values'): Promise<number[][]> {
    const { parameters } = this.#now;
    const results: number[][] = rows.map(() => []);
    const wanted = [...rows.keys()].filter((i) => (rows[i] as ScoreRow).tokenIds.length > 0);
    for (const i of wanted) {
      const { promptIds, tokenIds } = rows[i] as ScoreRow;
      this.#checkIds(promptIds, `rows[${i}].promptIds`);
      this.#checkIds(tokenIds, `rows[${i}].tokenIds`);
    }
    const groups = byPrompt(rows, wanted);
    const shared = groups.map((members): Row => {
      const completions = members.map((i) => {
        const { tokenIds } = rows[i] as ScoreRow;
        return { tokenIds, weights: tokenIds.map(() => 0) };
      });
      return { promptIds: (rows[members[0] as number] as ScoreRow).promptIds, completions };
    });
    const layout = layoutOf(shared);
    const session = wanted.length === 0 ? null : await this.#score(layout);
    for (const part of session === null ? [] : partition(shared, TOKENS_AT_ONCE, layout)) {
      const batch = makeBatch(
        part.map((q) => shared[q] as Row),
        { config: this.config, rotary: this.#rotary },
        { wanted: 'all', layout },
      );
      const out = await (session as Session).run({ ...parameters, ...batch.feeds }, { [output]: null });
      for (const [q, ofRow] of perCompletion(batch, (out[output] as Feed).data).entries()) {
        for (const [i, numbers] of ofRow.entries()) {
          results[groups[part[q] as number]?.[i] as number] = numbers as number[];
        }
      }
    }
    return results;
  }

  #bounded(request: SampleRequest): SampleRequest {
    const room = this.config.max_position_embeddings - request.promptIds.length;
    return request.maxTokens <= room ? request : { ...request, maxTokens: room };
  }

  #checkRequest(request: SampleRequest, index: number): void {
    if (!this.#generates) throw unsupported('has a language-model head', this.config);
    const { promptIds, n, maxTokens, temperature, topK = 0, topP = 1, minP = 0, topLogprobs = 0 } = request;
    const at = `requests[${index}]`;
    this.#checkIds(promptIds, `${at}.promptIds`);
    const limit = this.config.max_position_embeddings;
    if (promptIds.length > limit) {
      throw new TroupeError(
        'too_large',
        `${at}: the model reads ${limit} tokens at most, the prompt has ${promptIds.length}`,
      );
    }
    const refuse = (expected: string): TroupeError => new TroupeError('input_refused', `${at}: ${expected}`);
    for (const [name, value] of Object.entries({ n, maxTokens, topK, topLogprobs })) {
      if (!Number.isInteger(value) || value < 0)
        throw refuse(`${name} must be a whole number from 0, got ${got(value)}`);
    }
    if (!(temperature >= 0 && Number.isFinite(temperature))) {
      throw refuse(`temperature must be 0 or more, got ${got(temperature)}`);
    }
    if (!(topP > 0 && topP <= 1)) throw refuse(`topP must be above 0 and at most 1, got ${got(topP)}`);
    if (!(minP >= 0 && minP <= 1)) throw refuse(`minP must be from 0 to 1, got ${got(minP)}`);
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

function limitsOf(parameters: number, { vocab_size }: ModelConfig): BatchLimits {
  const products = Math.floor(PRODUCTS_AT_ONCE / parameters);
  return {
    rows: Math.min(ROWS_AT_ONCE, Math.max(8, Math.min(products, Math.floor(2 ** 25 / vocab_size)))),
    readTokens: Math.min(TOKENS_AT_ONCE, Math.max(64, products)),
    cacheFloats: CACHE_FLOATS,
  };
}

const unsupported = (expected: string, { head = 'lm' }: ModelConfig): TroupeError =>
  new TroupeError('model_unsupported', `this needs a model that ${expected}; the head of this one is ${got(head)}`);

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
