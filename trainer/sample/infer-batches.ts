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
type Answer = SampleAnswer | LogprobsAnswer | LoadAnswer | PromptAnswer;

export type Batches = {
  /** Answers when it is done; rejects with a `TroupeError` that concerns this request alone. */
  submit(asked: InferTask): Promise<Answer>;
  status(): StatusAnswer;
  /** Takes no more requests for a model; those under way are answered. A name that is not loaded changes nothing. */
  unload(name: string): void;
  /** Ends within one run of a model; what has no answer yet is rejected as `interrupted`. */
  close(): Promise<void>;
};

/** A loaded model without its weights, which the speaker has. */
type LoadedModel = Omit<OpenModel, 'weights' | 'optimizer' | 'state'> & {
  readonly name: string;
  readonly shapes: string;
  readonly speaker: Speaker;
};

const shapesOf = ({ config, weights }: Pick<OpenModel, 'config' | 'weights'>): string =>
  JSON.stringify([config, [...weights].map(([name, { shape }]) => [name, shape]).sort()]);

/** Starts taking requests. */
export function startBatches(
  { threads, maxRows = 4096, maxWaiting = 10_000 }: BatchOptions,
  loadPolicy: LoadPolicy,
): Batches {
  const models = new Map<string, LoadedModel>();
  /** One for each request without an answer. */
  const withdrawals = new Set<AbortController>();
  let closed = false;
  /** Everything that came before and was begun; loads are done. */
  let begun: Promise<unknown> = Promise.resolve();
  const underWay = new Set<Promise<unknown>>();
  const counts = { requests: 0, samples: 0, tokens: 0 };

  const modelFor = (name: string | undefined): LoadedModel => {
    const model = name === undefined && models.size === 1 ? [...models.values()][0] : models.get(name ?? '');
    if (model) return model;
    const names = [...models.keys()].join(', ') || 'none';
    throw new TroupeError('not_found', `No model ${name === undefined ? 'is named' : got(name)}; loaded: ${names}.`, {
      field: 'model',
      hint: models.size === 0 ? 'Load a checkpoint first.' : 'Name one of the loaded models.',
    });
  };

  async function load({ dir, name }: LoadAsk): Promise<LoadAnswer> {
    if (typeof dir !== 'string' || typeof name !== 'string' || name === '') {
      throw new TroupeError('input_refused', `A load needs dir and name, it has ${got({ dir, name })}.`, {
        field: 'dir',
      });
    }
    const before = models.get(name);
    // Whatever it takes the place of or lies beside: checkpoints of one training have one tokenizer.
    const like = before ?? [...models.values()].at(-1);
    const { weights, optimizer: _, state: __, ...model } = await openModel(dir, like);
    const shapes = shapesOf({ config: model.config, weights });
    let speaker = before?.speaker;
    if (before && before.id === model.id) {
      // The same weights are loaded already.
    } else if (before && speaker && before.shapes === shapes) {
      // Should this fail, half of the weights may be new: the model is not there until a load has come through.
      models.delete(name);
      try {
        await speaker.setWeights(weights, model);
      } catch (error) {
        await speaker.close();
        throw error;
      }
    } else {
      speaker = await loadPolicy(model.config, weights, { threads, model });
      // Running requests of the previous model are finished; nothing waits for them.
      if (before) track(Promise.resolve(before.speaker.close()));
    }
    models.set(name, { ...model, name, shapes, speaker: speaker! });
    return { model: name, checkpoint: model.id };
  }

  async function sample(ask: SampleAsk, signal: AbortSignal, onPart: OnPart | undefined): Promise<SampleAnswer> {
    const model = modelFor(ask.model);
    if (model.config.head === 'value') return value(model, ask, onPart);
    const prepared = prepareSample(ask, model, { maxRows });
    const begun = { prompt_token_ids: prepared.request.promptIds, model: model.name, checkpoint: model.id };
    const drew =
      ask.stream === true && onPart ? textStream(prepared, model.tokenizer, (part) => onPart(part, begun)) : null;
    const request = drew === null ? prepared.request : { ...prepared.request, drew };
    const [samples = []] = await model.speaker.sample([request], { signal });
    const choices = samples.map((each) => toChoice(each, prepared, model.tokenizer));
    const completion = choices.reduce((sum, choice) => sum + choice.token_ids.length, 0);
    counts.requests++;
    counts.samples += choices.length;
    counts.tokens += completion;
    return {
      choices,
      ...begun,
      usage: { prompt_tokens: prepared.request.promptIds.length, completion_tokens: completion },
    };
  }

  /** A model with a value head answers with one number: the value of the prompt as it is read. Nothing is drawn. */
  async function value(model: LoadedModel, ask: SampleAsk, onPart: OnPart | undefined): Promise<SampleAnswer> {
    const asked =
      ask.json_schema !== undefined ? 'JSON of a schema' : ask.tool_choice !== undefined ? 'the call of a tool' : null;
    if (asked !== null)
      throw new TroupeError(
        'input_refused',
        `This model has a value head and answers with one number, but the request demands ${asked}.`,
        { expected: 'a request without a response format and without a forced tool', got: asked },
      );
    const { promptIds, n } = prepareSample(ask, model, { maxRows }).request;
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
    counts.requests++;
    counts.samples += n;
    return { choices, ...begun, usage: { prompt_tokens: promptIds.length, completion_tokens: 0 } };
  }

  async function logprobs(ask: LogprobsAsk): Promise<LogprobsAnswer> {
    const model = modelFor(ask.model);
    const rows = await model.speaker.logprobs(prepareLogprobs(ask, model));
    return { rows, model: model.name, checkpoint: model.id };
  }

  function read(ask: PromptAsk): PromptAnswer {
    const model = modelFor(ask.model);
    return { prompt_token_ids: promptOf(ask, model), model: model.name, checkpoint: model.id };
  }

  function track<T>(work: Promise<T>): Promise<T> {
    const settled = work.then(
      () => {},
      () => {},
    );
    underWay.add(settled);
    void settled.then(() => underWay.delete(settled));
    return work;
  }

  /** Begins a request in its turn: after what came before has begun, and loads are done. */
  function begin(asked: InferTask, { signal }: AbortController): Promise<object> {
    const { op, ask } = asked;
    const answered = begun.then((): Promise<object> => {
      if (signal.aborted) throw interrupted();
      if (op === 'load') return load(ask);
      if (op === 'prompt') return Promise.resolve(read(ask));
      return asked.op === 'sample' ? sample(asked.ask, signal, asked.onPart) : logprobs(asked.ask);
    });
    if (op === 'load') begun = answered.catch(() => {});
    return answered;
  }

  return {
    submit: async (asked) => {
      if (closed) throw interrupted();
      if (underWay.size >= maxWaiting) {
        throw new TroupeError('busy', `${underWay.size} requests are under way already; ask again later.`);
      }
      const withdrawal = new AbortController();
      const withdraw = () => withdrawal.abort();
      withdrawals.add(withdrawal);
      if (asked.signal?.aborted) withdraw();
      asked.signal?.addEventListener('abort', withdraw, { once: true });
      try {
        return (await track(begin(asked, withdrawal))) as Answer;
      } catch (error) {
        throw closed ? interrupted() : error;
      } finally {
        asked.signal?.removeEventListener('abort', withdraw);
        withdrawals.delete(withdrawal);
      }
    },
    status: () => ({
      pid: process.pid,
      models: [...models.values()].map(({ name, id, dir, config }) => ({
        name,
        checkpoint: id,
        dir,
        vocab_size: config.vocab_size,
        max_tokens: config.max_position_embeddings,
      })),
      waiting: underWay.size,
      ...counts,
    }),
    unload(name) {
      const model = models.get(name);
      if (model === undefined) return;
      models.delete(name);
      track(Promise.resolve(model.speaker.close()));
    },
    async close() {
      closed = true;
      for (const withdrawal of withdrawals) withdrawal.abort();
      while (underWay.size > 0) await Promise.all(underWay);
      for (const { speaker } of models.values()) await speaker.close();
      models.clear();
    },
  };
}

const interrupted = (): TroupeError =>
  new TroupeError('interrupted', 'The sampling process stops; ask again once it is back.');
