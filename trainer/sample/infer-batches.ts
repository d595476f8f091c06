/**
 * Requests to the models of a process, batched continuously: a new request joins those that are running. Order is that of
 * arrival, and a load is a border: earlier requests are sampled with the old weights, later ones with the new weights.
 */
import { got, TroupeError } from '../../errors.ts';
import { type OpenModel, openModel } from '../model/model-directory.ts';
import type { ModelConfig, Sample, SampleRequest, Weights } from '../model/weights.ts';
import { prepareLogprobs, prepareSample, promptOf, type ScoreRow, toChoice } from './infer-request.ts';
import type {
  LoadAnswer,
  LoadAsk,
  LogprobsAnswer,
  LogprobsAsk,
  OnPart,
  PromptAnswer,
  PromptAsk,
  SampleAnswer,
  SampleAsk,
  StatusAnswer,
} from './infer-wire.ts';
import { textStream } from './text-stream.ts';

/** What is needed of a policy here. */
export type Speaker = {
  /** For each request its n samples; calls may overlap, and end early where `signal` is aborted. */
  sample(
    requests: readonly SampleRequest[],
    options?: { readonly signal?: AbortSignal },
  ): Promise<readonly (readonly Sample[])[]>;
  /** For each row the log-probability of each of its tokens after the prompt. */
  logprobs(rows: readonly ScoreRow[]): Promise<readonly (readonly number[])[]>;
  /** For each row the value of what comes before each of its tokens; only of a model with a value head. */
  values(rows: readonly ScoreRow[]): Promise<readonly (readonly number[])[]>;
  /** Takes weights of the same names and shapes; calls under way end with those they began with. */
  setWeights(weights: Weights, model: ModelPlace): void | Promise<void>;
  close(): void | Promise<void>;
};

/** The id of weights, and where their files lie. */
export type ModelPlace = Pick<OpenModel, 'id' | 'dir'>;

export type LoadPolicy = (
  config: ModelConfig,
  weights: Weights,
  options: { readonly threads: number; readonly model: ModelPlace },
) => Speaker | Promise<Speaker>;

export type BatchOptions = {
  readonly threads: number;
  /** Samples of one request, at most. */
  readonly maxRows?: number;
  /** Requests under way, at most; one more is refused as `busy`. */
  readonly maxWaiting?: number;
};

/** What is asked, and what ends it early. */
export type InferTask = { readonly signal?: AbortSignal } & (
  | { readonly op: 'sample'; readonly ask: SampleAsk; readonly onPart?: OnPart }
  | { readonly op: 'logprobs'; readonly ask: LogprobsAsk }
  | { readonly op: 'prompt'; readonly ask: PromptAsk }
  | { readonly op: 'load'; readonly ask: LoadAsk }
);

/** What a request is answered, by its operation. */
type InferAnswer = SampleAnswer | LogprobsAnswer | LoadAnswer | PromptAnswer;

/** A loaded model without its weights, which the speaker has. */
type LoadedModel = Omit<OpenModel, 'weights' | 'optimizer' | 'state'> & {
  readonly name: string;
  readonly shapes: string;
  readonly speaker: Speaker;
};

const shapesOf = ({ config, weights }: Pick<OpenModel, 'config' | 'weights'>): string =>
  JSON.stringify([config, [...weights].map(([name, { shape }]) => [name, shape]).sort()]);

export class Batches {
  readonly #models = new Map<string, LoadedModel>();
  /** One for each request without an answer. */
  readonly #withdrawals = new Set<AbortController>();
  #closed = false;
  /** Everything that came before and was begun; loads are done. */
  #begun: Promise<unknown> = Promise.resolve();
  readonly #underWay = new Set<Promise<unknown>>();
  readonly #counts = { requests: 0, samples: 0, tokens: 0 };

  readonly #options: Required<BatchOptions>;
  readonly #loadPolicy: LoadPolicy;

  constructor(options: BatchOptions, loadPolicy: LoadPolicy) {
    this.#options = { maxRows: 4096, maxWaiting: 10_000, ...options };
    this.#loadPolicy = loadPolicy;
  }

  /** Answers when it is done; rejects with a `TroupeError` that concerns this request alone. */
  async submit(asked: InferTask): Promise<InferAnswer> {
    if (this.#closed) throw interrupted();
    if (this.#underWay.size >= this.#options.maxWaiting) {
      throw new TroupeError('busy', `${this.#underWay.size} requests are under way already; ask again later.`);
    }
    const withdrawal = new AbortController();
    const withdraw = () => withdrawal.abort();
    this.#withdrawals.add(withdrawal);
    if (asked.signal?.aborted) withdraw();
    asked.signal?.addEventListener('abort', withdraw, { once: true });
    try {
      return (await this.#track(this.#begin(asked, withdrawal))) as InferAnswer;
    } catch (error) {
      throw this.#closed ? interrupted() : error;
    } finally {
      asked.signal?.removeEventListener('abort', withdraw);
      this.#withdrawals.delete(withdrawal);
    }
  }

  status(): StatusAnswer {
    return {
      pid: process.pid,
      models: [...this.#models.values()].map(({ name, id, dir, config }) => ({
        name,
        checkpoint: id,
        dir,
        vocab_size: config.vocab_size,
        max_tokens: config.max_position_embeddings,
      })),
      waiting: this.#underWay.size,
      ...this.#counts,
    };
  }

  /** Takes no more requests for a model; those under way are answered. A name that is not loaded changes nothing. */
  unload(name: string): void {
    const model = this.#models.get(name);
    if (model === undefined) return;
    this.#models.delete(name);
    this.#track(Promise.resolve(model.speaker.close()));
  }

  /** Ends within one run of a model; what has no answer yet is rejected as `interrupted`. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const withdrawal of this.#withdrawals) withdrawal.abort();
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
    for (const { speaker } of this.#models.values()) await speaker.close();
    this.#models.clear();
  }

  #modelFor(name: string | undefined): LoadedModel {
    const model =
      name === undefined && this.#models.size === 1 ? [...this.#models.values()][0] : this.#models.get(name ?? '');
    if (model) return model;
    const names = [...this.#models.keys()].join(', ') || 'none';
    throw new TroupeError('not_found', `No model ${name === undefined ? 'is named' : got(name)}; loaded: ${names}.`, {
      field: 'model',
      hint: this.#models.size === 0 ? 'Load a checkpoint first.' : 'Name one of the loaded models.',
    });
  }

  async #load({ dir, name }: LoadAsk): Promise<LoadAnswer> {
    if (typeof dir !== 'string' || typeof name !== 'string' || name === '') {
      throw new TroupeError('input_refused', `A load needs dir and name, it has ${got({ dir, name })}.`, {
        field: 'dir',
      });
    }
    const before = this.#models.get(name);
    // Whatever it takes the place of or lies beside: checkpoints of one training have one tokenizer.
    const like = before ?? [...this.#models.values()].at(-1);
    const { weights, optimizer: _, state: __, ...model } = await openModel(dir, like);
    const shapes = shapesOf({ config: model.config, weights });
    let speaker = before?.speaker;
    if (before && before.id === model.id) {
      // The same weights are loaded already.
    } else if (before && speaker && before.shapes === shapes) {
      // Should this fail, half of the weights may be new: the model is not there until a load has come through.
      this.#models.delete(name);
      try {
        await speaker.setWeights(weights, model);
      } catch (error) {
        await speaker.close();
        throw error;
      }
    } else {
      speaker = await this.#loadPolicy(model.config, weights, { threads: this.#options.threads, model });
      // Running requests of the previous model are finished; nothing waits for them.
      if (before) this.#track(Promise.resolve(before.speaker.close()));
    }
    this.#models.set(name, { ...model, name, shapes, speaker: speaker! });
    return { model: name, checkpoint: model.id };
  }

  async #sample(ask: SampleAsk, signal: AbortSignal, onPart: OnPart | undefined): Promise<SampleAnswer> {
    const model = this.#modelFor(ask.model);
    if (model.config.head === 'value') return this.#value(model, ask, onPart);
    const prepared = prepareSample(ask, model, this.#options);
    const begun = { prompt_token_ids: prepared.request.promptIds, model: model.name, checkpoint: model.id };
    const drew =
      ask.stream === true && onPart ? textStream(prepared, model.tokenizer, (part) => onPart(part, begun)) : null;
    const request = drew === null ? prepared.request : { ...prepared.request, drew };
    const [samples = []] = await model.speaker.sample([request], { signal });
    const choices = samples.map((each) => toChoice(each, prepared, model.tokenizer));
    const completion = choices.reduce((sum, choice) => sum + choice.token_ids.length, 0);
    this.#counts.requests++;
    this.#counts.samples += choices.length;
    this.#counts.tokens += completion;
    return {
      choices,
      ...begun,
      usage: { prompt_tokens: prepared.request.promptIds.length, completion_tokens: completion },
    };
  }

  /** A model with a value head answers with one number: the value of the prompt as it is read. Nothing is drawn. */
  async #value(model: LoadedModel, ask: SampleAsk, onPart: OnPart | undefined): Promise<SampleAnswer> {
    const asked =
      ask.json_schema !== undefined ? 'JSON of a schema' : ask.tool_choice !== undefined ? 'the call of a tool' : null;
    if (asked !== null)
      throw new TroupeError(
        'input_refused',
        `This model has a value head and answers with one number, but the request demands ${asked}.`,
        { expected: 'a request without a response format and without a forced tool', got: asked },
      );
    const { promptIds, n } = prepareSample(ask, model, this.#options).request;
    const begun = { prompt_token_ids: promptIds, model: model.name, checkpoint: model.id };
    const [[found] = []] = await model.speaker.values([{ promptIds, tokenIds: promptIds.slice(0, 1) }]);
    const text = String(Number(found!.toPrecision(9)));
    const choices = Array.from({ length: n }, () => ({
      text,
      token_ids: [],
      logprobs: [],
      finish_reason: 'stop' as const,
    }));
    if (ask.stream) for (const choice of choices.keys()) onPart?.({ choice, at: 0, text }, begun);
    this.#counts.requests++;
    this.#counts.samples += n;
    return { choices, ...begun, usage: { prompt_tokens: promptIds.length, completion_tokens: 0 } };
  }

  async #logprobs(ask: LogprobsAsk): Promise<LogprobsAnswer> {
    const model = this.#modelFor(ask.model);
    const rows = await model.speaker.logprobs(prepareLogprobs(ask, model));
    return { rows, model: model.name, checkpoint: model.id };
  }

  #read(ask: PromptAsk): PromptAnswer {
    const model = this.#modelFor(ask.model);
    return { prompt_token_ids: promptOf(ask, model), model: model.name, checkpoint: model.id };
  }

  #track<T>(work: Promise<T>): Promise<T> {
    const settled = work.then(
      () => {},
      () => {},
    );
    this.#underWay.add(settled);
    void settled.then(() => this.#underWay.delete(settled));
    return work;
  }

  /** Begins a request in its turn: after what came before has begun, and loads are done. */
  #begin(asked: InferTask, { signal }: AbortController): Promise<object> {
    const { op, ask } = asked;
    const answered = this.#begun.then((): Promise<object> => {
      if (signal.aborted) throw interrupted();
      if (op === 'load') return this.#load(ask);
      if (op === 'prompt') return Promise.resolve(this.#read(ask));
      return asked.op === 'sample' ? this.#sample(asked.ask, signal, asked.onPart) : this.#logprobs(asked.ask);
    });
    if (op === 'load') this.#begun = answered.catch(() => {});
    return answered;
  }
}

const interrupted = (): TroupeError =>
  new TroupeError('interrupted', 'The sampling process stops; ask again once it is back.');
