/**
 * Requests become batches: whatever waits when a run ends goes into the next one together. Order is that of arrival, and
 * a load is a border: what came before it is spoken by the weights before, what came after by the new ones.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { got, TroupeError } from '../errors.ts';
import { type PreparedSample, prepareLogprobs, prepareSample, type ScoreRow, toChoice } from './infer-request.ts';
import type {
  LoadAnswer,
  LoadAsk,
  LogprobsAnswer,
  LogprobsAsk,
  SampleAnswer,
  SampleAsk,
  StatusAnswer,
} from './infer-wire.ts';
import { type OpenModel, openModel } from './model-directory.ts';
import type { ModelConfig, Sample, SampleRequest, Weights } from './weights.ts';

/** What is needed of a policy here. */
export type Speaker = {
  /** For each request its n samples. */
  sample(requests: readonly SampleRequest[]): Promise<readonly (readonly Sample[])[]>;
  /** For each row the log-probability of each of its tokens after the prompt. */
  logprobs(rows: readonly ScoreRow[]): Promise<readonly (readonly number[])[]>;
  /** Takes weights of the same names and shapes. */
  setWeights(weights: Weights): void | Promise<void>;
  close(): void | Promise<void>;
};

export type LoadPolicy = (
  config: ModelConfig,
  weights: Weights,
  options: { readonly threads: number },
) => Speaker | Promise<Speaker>;

export type BatchOptions = {
  readonly threads: number;
  /** Samples of one batch at most, and of one request. */
  readonly maxRows?: number;
  /** How long a batch waits for company at most, in milliseconds; it leaves once a millisecond brought nobody. */
  readonly gatherMs?: number;
  /** Requests that may wait; one more is refused as `busy`. */
  readonly maxWaiting?: number;
};

/** What is asked, and whether whoever asked has gone. */
export type Asked = { readonly abandoned?: () => boolean } & (
  | { readonly op: 'sample'; readonly ask: SampleAsk }
  | { readonly op: 'logprobs'; readonly ask: LogprobsAsk }
  | { readonly op: 'load'; readonly ask: LoadAsk }
);

export type Batches = {
  /** Waits for its turn and answers; rejects with a `TroupeError` that concerns this request alone. */
  submit(asked: Asked): Promise<SampleAnswer | LogprobsAnswer | LoadAnswer>;
  status(): StatusAnswer;
  /** Ends after the running batch; what waits is rejected as `interrupted`. */
  close(): Promise<void>;
};

type Job = Asked & {
  readonly rows: number;
  readonly resolve: (answer: never) => void;
  readonly reject: (e: unknown) => void;
};
type JobOf<Op extends Job['op']> = Extract<Job, { op: Op }>;
type Prepared = { readonly job: JobOf<'sample'>; readonly sample: PreparedSample };

/** A loaded model without its weights, which the speaker has. */
type Loaded = Omit<OpenModel, 'weights' | 'optimizer' | 'state'> & {
  readonly name: string;
  readonly shapes: string;
  readonly speaker: Speaker;
};

const shapesOf = ({ config, weights }: Pick<OpenModel, 'config' | 'weights'>): string =>
  JSON.stringify([config, [...weights].map(([name, { shape }]) => [name, shape]).sort()]);

/** Starts taking requests; one batch runs at a time. */
export function startBatches(
  { threads, maxRows = 4096, gatherMs = 4, maxWaiting = 100_000 }: BatchOptions,
  loadPolicy: LoadPolicy,
): Batches {
  const models = new Map<string, Loaded>();
  let queue: Job[] = [];
  let wake: (() => void) | null = null;
  let closed = false;
  const counts = { batches: 0, samples: 0, tokens: 0 };

  const modelFor = (name: string | undefined): Loaded => {
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
    const { weights, optimizer: _, state: __, ...model } = await openModel(dir, before);
    const shapes = shapesOf({ config: model.config, weights });
    let speaker = before?.speaker;
    if (before && before.id === model.id) {
      // The same weights speak already.
    } else if (before && speaker && before.shapes === shapes) {
      // Should this fail, half of the weights may be new: the model is not there until a load has come through.
      models.delete(name);
      try {
        await speaker.setWeights(weights);
      } catch (error) {
        await speaker.close();
        throw error;
      }
    } else {
      speaker = await loadPolicy(model.config, weights, { threads });
      await before?.speaker.close();
    }
    models.set(name, { ...model, name, shapes, speaker: speaker! });
    return { model: name, checkpoint: model.id };
  }

  /** The requests of the next batch, taken from the queue: those of the first one's model that came before the next load. */
  function takeBatch(first: JobOf<'sample'>): JobOf<'sample'>[] {
    const border = queue.findIndex((job) => job.op === 'load');
    const batch: JobOf<'sample'>[] = [];
    let rows = 0;
    const rest = queue.filter((job, i) => {
      const joins = (border < 0 || i < border) && job.op === 'sample' && job.ask.model === first.ask.model;
      if (!joins || (rows > 0 && rows + job.rows > maxRows)) return true;
      rows += job.rows;
      batch.push(job);
      return false;
    });
    queue = rest;
    return batch;
  }

  async function runSamples(jobs: readonly JobOf<'sample'>[]): Promise<void> {
    const prepared: Prepared[] = [];
    let model: Loaded | null = null;
    for (const job of jobs) {
      try {
        model ??= modelFor(job.ask.model);
        prepared.push({ job, sample: prepareSample(job.ask, model, { maxRows }) });
      } catch (error) {
        job.reject(error);
      }
    }
    if (model === null || prepared.length === 0) return;
    try {
      await speak(model, prepared);
    } catch (error) {
      // One request may have spoilt the run for all: alone, each stands or falls for itself.
      if (prepared.length === 1) prepared[0]!.job.reject(error);
      else for (const one of prepared) await speak(model, [one]).catch(one.job.reject);
    }
  }

  async function speak(model: Loaded, prepared: readonly Prepared[]): Promise<void> {
    const spoken = await model.speaker.sample(prepared.map(({ sample }) => sample.request));
    counts.batches++;
    for (const [i, { job, sample }] of prepared.entries()) {
      const choices = spoken[i]!.map((each) => toChoice(each, sample.stops, model.tokenizer));
      const completion = choices.reduce((sum, choice) => sum + choice.token_ids.length, 0);
      counts.samples += choices.length;
      counts.tokens += completion;
      const answer: SampleAnswer = {
        choices,
        prompt_token_ids: sample.request.promptIds,
        model: model.name,
        checkpoint: model.id,
        usage: { prompt_tokens: sample.request.promptIds.length, completion_tokens: completion },
      };
      job.resolve(answer as never);
    }
  }

  async function runLogprobs(ask: LogprobsAsk): Promise<LogprobsAnswer> {
    const model = modelFor(ask.model);
    const rows = await model.speaker.logprobs(prepareLogprobs(ask, model));
    return { rows, model: model.name, checkpoint: model.id };
  }

  async function gather(): Promise<void> {
    const until = performance.now() + gatherMs;
    let seen = -1;
    while (queue.length !== seen && performance.now() < until) {
      if (queue.reduce((sum, job) => sum + job.rows, 0) >= maxRows) return;
      seen = queue.length;
      await sleep(1);
    }
  }

  async function work(): Promise<void> {
    while (!closed) {
      if (queue.length === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        continue;
      }
      if (queue[0]!.op === 'sample') await gather();
      queue = queue.filter((job) => !job.abandoned?.());
      const first = queue[0];
      if (closed || !first) continue;
      if (first.op === 'sample') await runSamples(takeBatch(first));
      else {
        queue.shift();
        const answer = first.op === 'load' ? load(first.ask) : runLogprobs(first.ask);
        await answer.then(first.resolve as (answer: unknown) => void, first.reject);
      }
    }
  }

  const working = work();
  return {
    submit: (asked) =>
      new Promise((resolve, reject) => {
        if (closed) return reject(interrupted());
        if (queue.length >= maxWaiting) {
          return reject(new TroupeError('busy', `${queue.length} requests wait already; ask again later.`));
        }
        const n = asked.op === 'sample' ? Number(asked.ask.n ?? 1) : 1;
        const rows = Number.isSafeInteger(n) && n > 0 ? n : 1;
        queue.push({ ...asked, rows, resolve: resolve as (answer: never) => void, reject });
        wake?.();
      }),
    status: () => ({
      pid: process.pid,
      models: [...models.values()].map(({ name, id, dir, config }) => ({
        name,
        checkpoint: id,
        dir,
        vocab_size: config.vocab_size,
        max_tokens: config.max_position_embeddings,
      })),
      waiting: queue.length,
      ...counts,
    }),
    async close() {
      closed = true;
      wake?.();
      await working;
      for (const job of queue) job.reject(interrupted());
      queue = [];
      for (const { speaker } of models.values()) await speaker.close();
      models.clear();
    },
  };
}

const interrupted = (): TroupeError =>
  new TroupeError('interrupted', 'The sampling process stops; ask again once it is back.');
