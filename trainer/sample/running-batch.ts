/**
 * Generates the samples of all requests, one token of each sample a step. Requests join and leave between steps (Yu et al. 2022, OSDI,
 * "iteration-level scheduling"): prompts are read in bounded pieces between two steps, rows go to the waiting requests in
 * turn, and no request holds all of them, so neither a long prompt, nor a long sample, nor many samples hold up a short one.
 */
import { TroupeError } from '../../errors.ts';
import type { Sample, SampleRequest } from '../model/weights.ts';
import type { Feed, Feeds, Session } from '../tensor/session.ts';
import {
  type Distributions,
  finished,
  type GrowingSample,
  inverseTemperature,
  needsLogits,
  newSample,
  takeToken,
} from './growing-sample.ts';
import { cacheNames, KeyValueCache, rowFloats } from './key-value-cache.ts';
import { type PromptReader, type ReadPart, readPrompts } from './prompt-reader.ts';

export type StepModel = PromptReader & {
  readonly step: () => Promise<Session>;
  /** What the step is fed of the weights; nothing where they are constants. */
  readonly stepParameters: Feeds;
  readonly vocabulary: number;
};

export type BatchLimits = {
  /** Samples that grow at once, at most. */
  readonly rows: number;
  /** Tokens of prompts that are read between two steps, about. */
  readonly readTokens: number;
  /** Floats of all keys and values, at most; one sample may have more. */
  readonly cacheFloats: number;
};

export type RunningBatch = {
  /**
   * The n samples of a request that has been checked: n and maxTokens above 0.
   * @throws TroupeError `checkpoint_damaged` when the weights give no probabilities, `interrupted` when `signal` is aborted.
   */
  generate(request: SampleRequest, signal?: AbortSignal): Promise<Sample[]>;
  /** Resolves when no request runs or waits. */
  idle(): Promise<void>;
};

type BatchRequest = {
  readonly request: SampleRequest;
  readonly samples: GrowingSample[];
  readonly done: (outcome: Sample[] | Error) => void;
  readonly signal: AbortSignal | undefined;
  read: ReadPart | null;
  first: Distributions | null;
  /** Rows it has in the batch now. */
  rows: number;
  open: boolean;
};

type Row = { readonly asked: BatchRequest; readonly sample: GrowingSample };

/** Share of the rows that one request may have: the rest is for those who come later. */
const SHARE = 0.75;

export function startBatch(model: StepModel, limits: BatchLimits): RunningBatch {
  const { sizes, vocabulary } = model;
  const cache = new KeyValueCache(sizes);
  /** As in the cache; null where a row has left and nobody has its place yet, which is so between two steps only. */
  const rows: (Row | null)[] = [];
  const free: number[] = [];
  /** What a step writes: new memory for each would make the runtime collect garbage all the time. */
  const results = new Map<string, Float32Array>();
  /** In order of arrival; those that have not been read, and those that have samples left to join. */
  let unread: BatchRequest[] = [];
  let joining: BatchRequest[] = [];
  let held = 0;
  let running: Promise<void> | null = null;

  const inUse = (): number => rows.length - free.length;

  const end = (asked: BatchRequest, outcome: Sample[] | Error): void => {
    if (!asked.open) return;
    asked.open = false;
    asked.done(outcome);
  };

  const endIfComplete = (asked: BatchRequest): void => {
    if (asked.rows > 0 || asked.samples.length < asked.request.n) return;
    end(asked, asked.samples.map(finished));
  };

  const isOpen = (asked: BatchRequest): boolean => {
    if (asked.open && asked.signal?.aborted) end(asked, gone());
    return asked.open;
  };

  const floatsOf = ({ request }: BatchRequest) => rowFloats(sizes, request.promptIds.length + request.maxTokens);

  /** Runs `body`; if it fails, so do those it was for. */
  const guarded = async (whose: readonly BatchRequest[], body: () => Promise<void>): Promise<void> => {
    try {
      await body();
    } catch (error) {
      for (const asked of whose) end(asked, error as Error);
    }
  };

  /** Next token of a sample; a request whose weights give none ends alone. */
  const take = (asked: BatchRequest, sample: GrowingSample, from: Distributions, row: number): void => {
    try {
      takeToken(sample, from, row);
    } catch (error) {
      end(asked, error as Error);
    }
  };

  /** Reads prompts of the first length that waits, or one piece of a long prompt. */
  async function read(): Promise<void> {
    unread = unread.filter(isOpen);
    const short = unread.filter(({ request }) => request.promptIds.length <= limits.readTokens);
    const long = unread.find(({ request }) => request.promptIds.length > limits.readTokens);
    if (long !== undefined) await guarded([long], () => readPiece(long));
    let budget = limits.readTokens;
    while (short.length > 0 && joining.length < limits.rows) {
      const P = (short[0] as BatchRequest).request.promptIds.length;
      if (P > budget) return;
      // A prompt of one token is read alone, as a product of one row.
      const most = P === 1 ? 1 : Math.max(1, Math.floor(budget / P));
      const group = short.filter(({ request }) => request.promptIds.length === P).slice(0, most);
      for (const asked of group) short.splice(short.indexOf(asked), 1);
      budget -= Math.max(P * group.length, limits.readTokens / 16);
      await guarded(group, () => readWhole(group));
    }
  }

  async function readWhole(group: readonly BatchRequest[]): Promise<void> {
    unread = unread.filter((asked) => !group.includes(asked));
    const readings = group.map(({ request }) => ({
      ids: request.promptIds,
      inverseTemperature: inverseTemperature(request),
      past: null,
    }));
    const { probabilities, logits, parts } = await readPrompts(
      model,
      readings,
      group.some(({ request }) => needsLogits(request)),
    );
    for (const [q, asked] of group.entries()) {
      const row = (data: Float32Array) => data.subarray(q * vocabulary, (q + 1) * vocabulary);
      asked.read = parts[q] as ReadPart;
      asked.first = { probabilities: row(probabilities), logits: logits && row(logits), vocabulary };
      joining.push(asked);
    }
  }

  async function readPiece(asked: BatchRequest): Promise<void> {
    const { promptIds } = asked.request;
    const from = asked.read?.tokens ?? 0;
    const left = promptIds.length - from;
    // Two tokens at least stay for the last piece: one row would be summed in another order.
    const length = left <= limits.readTokens ? left : Math.min(limits.readTokens, left - 2);
    const reading = {
      ids: promptIds.slice(from, from + length),
      inverseTemperature: inverseTemperature(asked.request),
      past: asked.read,
    };
    const { probabilities, logits, parts } = await readPrompts(model, [reading], needsLogits(asked.request));
    asked.read = parts[0] as ReadPart;
    if (length < left) return;
    asked.first = { probabilities, logits, vocabulary };
    unread = unread.filter((other) => other !== asked);
    joining.push(asked);
  }

  /** Gives free rows to those who wait, one each in turn. */
  function join(): void {
    joining = joining.filter(isOpen);
    const most = Math.max(1, Math.floor(limits.rows * SHARE));
    const wanted = joining.reduce((sum, { request, samples }) => sum + request.n - samples.length, 0);
    const longest = joining.reduce((P, { request }) => Math.max(P, request.promptIds.length), 0);
    const more = Math.min(wanted, limits.rows - inUse()) - free.length;
    if (more > 1 && held + more * rowFloats(sizes, longest) <= limits.cacheFloats) cache.reserve(more, longest);
    let turn = joining;
    while (turn.length > 0) {
      const next: BatchRequest[] = [];
      for (const asked of turn) {
        const fits = inUse() === 0 || held + floatsOf(asked) <= limits.cacheFloats;
        if (inUse() >= limits.rows || asked.rows >= most || !fits) continue;
        const sample = newSample(asked.request, asked.samples.length);
        asked.samples.push(sample);
        take(asked, sample, asked.first as Distributions, 0);
        if (asked.open && sample.finish === null) {
          const place = free.pop() ?? rows.length;
          rows[place] = { asked, sample };
          cache.put(place, (asked.read as ReadPart).arrays);
          asked.rows += 1;
          held += floatsOf(asked);
        }
        if (asked.open && asked.samples.length < asked.request.n) next.push(asked);
      }
      turn = next;
    }
    for (const asked of joining) {
      if (asked.samples.length < asked.request.n) continue;
      asked.read = null;
      asked.first = null;
      endIfComplete(asked);
    }
    joining = joining.filter((asked) => asked.open && asked.samples.length < asked.request.n);
  }

  function leave(): void {
    for (const [i, row] of rows.entries()) {
      if (row === null || (isOpen(row.asked) && row.sample.finish === null)) continue;
      const { asked } = row;
      rows[i] = null;
      free.push(i);
      asked.rows -= 1;
      held -= floatsOf(asked);
      endIfComplete(asked);
    }
  }

  /** Moves the last rows to the places that nobody took. Returns those that run. */
  function closeUp(): readonly Row[] {
    for (const place of free.sort((a, b) => b - a)) {
      const last = rows.pop() as Row | null;
      if (place < rows.length) rows[place] = last;
      cache.remove(place);
    }
    free.length = 0;
    cache.trim();
    return rows as Row[];
  }

  /** Memory for a result of a step, of which no more is read once the step is over. */
  function memory(name: string, shape: readonly number[]): Feed {
    const length = shape.reduce((a, b) => a * b, 1);
    if ((results.get(name)?.length ?? -1) < length) results.set(name, new Float32Array(length));
    return { shape, data: results.get(name)!.subarray(0, length) };
  }

  async function step(running: readonly Row[]): Promise<void> {
    const session = await model.step();
    const B = running.length;
    const logits = running.some(({ asked }) => needsLogits(asked.request));
    const names = cacheNames(sizes);
    const wanted = ['probabilities', ...(logits ? ['logits'] : [])];
    const into = Object.fromEntries([
      ...wanted.map((name) => [name, memory(name, [B, vocabulary])]),
      ...names.map((name) => [name, memory(name, [B, sizes.H, 1, sizes.D])]),
    ]) as Record<string, Feed>;
    await session.run({ ...model.stepParameters, ...cache.feeds(), ...positionFeeds(running) }, into);
    const result = (name: string) => (into[name] as Feed).data as Float32Array;
    cache.append(names.map(result));
    const from = { probabilities: result('probabilities'), logits: logits ? result('logits') : null, vocabulary };
    for (const [row, { asked, sample }] of running.entries()) if (asked.open) take(asked, sample, from, row);
  }

  function positionFeeds(running: readonly Row[]): Feeds {
    const B = running.length;
    const half = sizes.D / 2;
    const scale = 1 / Math.sqrt(sizes.D);
    const ids = new Int32Array(B);
    const inverse = new Float32Array(B);
    const tables = Array.from({ length: 4 }, () => new Float32Array(B * half));
    const [cos, sin, queryCos, querySin] = tables as [Float32Array, Float32Array, Float32Array, Float32Array];
    for (const [row, { asked, sample }] of running.entries()) {
      ids[row] = sample.tokenIds.at(-1) as number;
      inverse[row] = inverseTemperature(asked.request);
      const at = model.rotary.rows(asked.request.promptIds.length + sample.tokenIds.length - 1, 1);
      for (let i = 0; i < half; i++) {
        const [c, s] = [at.cos.data[i] as number, at.sin.data[i] as number];
        cos[row * half + i] = c;
        sin[row * half + i] = s;
        queryCos[row * half + i] = c * scale;
        querySin[row * half + i] = s * scale;
      }
    }
    const table = (data: Float32Array): Feed => ({ shape: [B, half], data });
    return {
      'step.ids': { shape: [B], data: ids },
      'step.cos': table(cos),
      'step.sin': table(sin),
      'query.cos': table(queryCos),
      'query.sin': table(querySin),
      'inverse.temperature': { shape: [B], data: inverse },
    };
  }

  async function run(): Promise<void> {
    while (unread.length + joining.length + inUse() > 0) {
      if (unread.length > 0 && inUse() < limits.rows) await read();
      join();
      leave();
      const running = closeUp();
      if (running.length > 0) {
        const whose = [...new Set(running.map(({ asked }) => asked))];
        await guarded(whose, () => step(running));
        leave();
      }
    }
    // Memory of many rows is not kept for few.
    results.clear();
    closeUp();
  }

  return {
    generate: (request, signal) =>
      new Promise((resolve, reject) => {
        const onAbort = () => end(asked, gone());
        const asked: BatchRequest = {
          request,
          samples: [],
          signal,
          read: null,
          first: null,
          rows: 0,
          open: true,
          done: (outcome) => {
            signal?.removeEventListener('abort', onAbort);
            if (Array.isArray(outcome)) resolve(outcome);
            else reject(outcome);
          },
        };
        if (signal?.aborted) return onAbort();
        signal?.addEventListener('abort', onAbort, { once: true });
        unread.push(asked);
        // The first run begins a microtask later, so that all who ask in one turn begin together.
        running ??= Promise.resolve()
          .then(run)
          .finally(() => {
            running = null;
          });
      }),
    idle: async () => {
      while (running !== null) await running;
    },
  };
}

const gone = (): TroupeError =>
  new TroupeError('interrupted', 'The request was withdrawn before its samples were generated.');
