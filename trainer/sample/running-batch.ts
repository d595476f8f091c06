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

type BatchRow = { readonly asked: BatchRequest; readonly sample: GrowingSample };

/** Share of the rows that one request may have: the rest is for those who come later. */
const SHARE = 0.75;

export class RunningBatch {
  readonly #model: StepModel;
  readonly #limits: BatchLimits;
  readonly #cache: KeyValueCache;
  /** As in the cache; null where a row has left and nobody has its place yet, which is so between two steps only. */
  readonly #rows: (BatchRow | null)[] = [];
  readonly #free: number[] = [];
  /** What a step writes: new memory for each would make the runtime collect garbage all the time. */
  readonly #results = new Map<string, Float32Array>();
  /** In order of arrival; those that have not been read, and those that have samples left to join. */
  #unread: BatchRequest[] = [];
  #joining: BatchRequest[] = [];
  #held = 0;
  #running: Promise<void> | null = null;
  readonly #isOpen = (asked: BatchRequest): boolean => {
    if (asked.open && asked.signal?.aborted) this.#end(asked, gone());
    return asked.open;
  };

  constructor(model: StepModel, limits: BatchLimits) {
    this.#model = model;
    this.#limits = limits;
    this.#cache = new KeyValueCache(model.sizes);
  }

  /**
   * The n samples of a request that has been checked: n and maxTokens above 0.
   * @throws TroupeError `checkpoint_damaged` when the weights give no probabilities, `interrupted` when `signal` is aborted.
   */
  generate(request: SampleRequest, signal?: AbortSignal): Promise<Sample[]> {
    return new Promise((resolve, reject) => {
      const onAbort = () => this.#end(asked, gone());
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
      this.#unread.push(asked);
      // The first run begins a microtask later, so that all who ask in one turn begin together.
      this.#running ??= Promise.resolve()
        .then(() => this.#run())
        .finally(() => {
          this.#running = null;
        });
    });
  }

  /** Resolves when no request runs or waits. */
  async idle(): Promise<void> {
    while (this.#running !== null) await this.#running;
  }

  #inUse(): number {
    return this.#rows.length - this.#free.length;
  }

  #end(asked: BatchRequest, outcome: Sample[] | Error): void {
    if (!asked.open) return;
    asked.open = false;
    asked.done(outcome);
  }

  #endIfComplete(asked: BatchRequest): void {
    if (asked.rows > 0 || asked.samples.length < asked.request.n) return;
    this.#end(asked, asked.samples.map(finished));
  }

  #floatsOf({ request }: BatchRequest) {
    return rowFloats(this.#model.sizes, request.promptIds.length + request.maxTokens);
  }

  /** Runs `body`; if it fails, so do those it was for. */
  async #guarded(whose: readonly BatchRequest[], body: () => Promise<void>): Promise<void> {
    try {
      await body();
    } catch (error) {
      for (const asked of whose) this.#end(asked, error as Error);
    }
  }

  /** Next token of a sample; a request whose weights give none ends alone. */
  #take(asked: BatchRequest, sample: GrowingSample, from: Distributions, row: number): void {
    try {
      takeToken(sample, from, row);
    } catch (error) {
      this.#end(asked, error as Error);
    }
  }

  /** Reads prompts of the first length that waits, or one piece of a long prompt. */
  async #read(): Promise<void> {
    this.#unread = this.#unread.filter(this.#isOpen);
    const short = this.#unread.filter(({ request }) => request.promptIds.length <= this.#limits.readTokens);
    const long = this.#unread.find(({ request }) => request.promptIds.length > this.#limits.readTokens);
    if (long !== undefined) await this.#guarded([long], () => this.#readPiece(long));
    let budget = this.#limits.readTokens;
    while (short.length > 0 && this.#joining.length < this.#limits.rows) {
      const P = (short[0] as BatchRequest).request.promptIds.length;
      if (P > budget) return;
      // A prompt of one token is read alone, as a product of one row.
      const most = P === 1 ? 1 : Math.max(1, Math.floor(budget / P));
      const group = short.filter(({ request }) => request.promptIds.length === P).slice(0, most);
      for (const asked of group) short.splice(short.indexOf(asked), 1);
      budget -= Math.max(P * group.length, this.#limits.readTokens / 16);
      await this.#guarded(group, () => this.#readWhole(group));
    }
  }

  async #readWhole(group: readonly BatchRequest[]): Promise<void> {
    this.#unread = this.#unread.filter((asked) => !group.includes(asked));
    const readings = group.map(({ request }) => ({
      ids: request.promptIds,
      inverseTemperature: inverseTemperature(request),
      past: null,
    }));
    const { probabilities, logits, parts } = await readPrompts(
      this.#model,
      readings,
      group.some(({ request }) => needsLogits(request)),
    );
    for (const [q, asked] of group.entries()) {
      const row = (data: Float32Array) => data.subarray(q * this.#model.vocabulary, (q + 1) * this.#model.vocabulary);
      asked.read = parts[q] as ReadPart;
      asked.first = {
        probabilities: row(probabilities),
        logits: logits && row(logits),
        vocabulary: this.#model.vocabulary,
      };
      this.#joining.push(asked);
    }
  }

  async #readPiece(asked: BatchRequest): Promise<void> {
    const { promptIds } = asked.request;
    const from = asked.read?.tokens ?? 0;
    const left = promptIds.length - from;
    // Two tokens at least stay for the last piece: one row would be summed in another order.
    const length = left <= this.#limits.readTokens ? left : Math.min(this.#limits.readTokens, left - 2);
    const reading = {
      ids: promptIds.slice(from, from + length),
      inverseTemperature: inverseTemperature(asked.request),
      past: asked.read,
    };
    const { probabilities, logits, parts } = await readPrompts(this.#model, [reading], needsLogits(asked.request));
    asked.read = parts[0] as ReadPart;
    if (length < left) return;
    asked.first = { probabilities, logits, vocabulary: this.#model.vocabulary };
    this.#unread = this.#unread.filter((other) => other !== asked);
    this.#joining.push(asked);
  }

  /** Gives free rows to those who wait, one each in turn. */
  #join(): void {
    this.#joining = this.#joining.filter(this.#isOpen);
    const most = Math.max(1, Math.floor(this.#limits.rows * SHARE));
    const wanted = this.#joining.reduce((sum, { request, samples }) => sum + request.n - samples.length, 0);
    const longest = this.#joining.reduce((P, { request }) => Math.max(P, request.promptIds.length), 0);
    const more = Math.min(wanted, this.#limits.rows - this.#inUse()) - this.#free.length;
    if (more > 1 && this.#held + more * rowFloats(this.#model.sizes, longest) <= this.#limits.cacheFloats)
      this.#cache.reserve(more, longest);
    let turn = this.#joining;
    while (turn.length > 0) {
      const next: BatchRequest[] = [];
      for (const asked of turn) {
        const fits = this.#inUse() === 0 || this.#held + this.#floatsOf(asked) <= this.#limits.cacheFloats;
        if (this.#inUse() >= this.#limits.rows || asked.rows >= most || !fits) continue;
        const sample = newSample(asked.request, asked.samples.length);
        asked.samples.push(sample);
        this.#take(asked, sample, asked.first as Distributions, 0);
        if (asked.open && sample.finish === null) {
          const place = this.#free.pop() ?? this.#rows.length;
          this.#rows[place] = { asked, sample };
          this.#cache.put(place, (asked.read as ReadPart).arrays);
          asked.rows += 1;
          this.#held += this.#floatsOf(asked);
        }
        if (asked.open && asked.samples.length < asked.request.n) next.push(asked);
      }
      turn = next;
    }
    for (const asked of this.#joining) {
      if (asked.samples.length < asked.request.n) continue;
      asked.read = null;
      asked.first = null;
      this.#endIfComplete(asked);
    }
    this.#joining = this.#joining.filter((asked) => asked.open && asked.samples.length < asked.request.n);
  }

  #leave(): void {
    for (const [i, row] of this.#rows.entries()) {
      if (row === null || (this.#isOpen(row.asked) && row.sample.finish === null)) continue;
      const { asked } = row;
      this.#rows[i] = null;
      this.#free.push(i);
      asked.rows -= 1;
      this.#held -= this.#floatsOf(asked);
      this.#endIfComplete(asked);
    }
  }

  /** Moves the last rows to the places that nobody took. Returns those that run. */
  #closeUp(): readonly BatchRow[] {
    for (const place of this.#free.sort((a, b) => b - a)) {
      const last = this.#rows.pop() as BatchRow | null;
      if (place < this.#rows.length) this.#rows[place] = last;
      this.#cache.remove(place);
    }
    this.#free.length = 0;
    this.#cache.trim();
    return this.#rows as BatchRow[];
  }

  /** Memory for a result of a step, of which no more is read once the step is over. */
  #memory(name: string, shape: readonly number[]): Feed {
    const length = shape.reduce((a, b) => a * b, 1);
    if ((this.#results.get(name)?.length ?? -1) < length) this.#results.set(name, new Float32Array(length));
    return { shape, data: this.#results.get(name)!.subarray(0, length) };
  }

  async #step(running: readonly BatchRow[]): Promise<void> {
    const session = await this.#model.step();
    const B = running.length;
    const logits = running.some(({ asked }) => needsLogits(asked.request));
    const names = cacheNames(this.#model.sizes);
    const wanted = ['probabilities', ...(logits ? ['logits'] : [])];
    const into = Object.fromEntries([
      ...wanted.map((name) => [name, this.#memory(name, [B, this.#model.vocabulary])]),
      ...names.map((name) => [name, this.#memory(name, [B, this.#model.sizes.H, 1, this.#model.sizes.D])]),
    ]) as Record<string, Feed>;
    await session.run({ ...this.#model.stepParameters, ...this.#cache.feeds(), ...this.#positionFeeds(running) }, into);
    const result = (name: string) => (into[name] as Feed).data as Float32Array;
    this.#cache.append(names.map(result));
    const from = {
      probabilities: result('probabilities'),
      logits: logits ? result('logits') : null,
      vocabulary: this.#model.vocabulary,
    };
    for (const [row, { asked, sample }] of running.entries()) if (asked.open) this.#take(asked, sample, from, row);
  }

  #positionFeeds(running: readonly BatchRow[]): Feeds {
    const B = running.length;
    const half = this.#model.sizes.D / 2;
    const scale = 1 / Math.sqrt(this.#model.sizes.D);
    const ids = new Int32Array(B);
    const inverse = new Float32Array(B);
    const tables = Array.from({ length: 4 }, () => new Float32Array(B * half));
    const [cos, sin, queryCos, querySin] = tables as [Float32Array, Float32Array, Float32Array, Float32Array];
    for (const [row, { asked, sample }] of running.entries()) {
      ids[row] = sample.tokenIds.at(-1) as number;
      inverse[row] = inverseTemperature(asked.request);
      const at = this.#model.rotary.rows(asked.request.promptIds.length + sample.tokenIds.length - 1, 1);
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

  async #run(): Promise<void> {
    while (this.#unread.length + this.#joining.length + this.#inUse() > 0) {
      if (this.#unread.length > 0 && this.#inUse() < this.#limits.rows) await this.#read();
      this.#join();
      this.#leave();
      const running = this.#closeUp();
      if (running.length > 0) {
        const whose = [...new Set(running.map(({ asked }) => asked))];
        await this.#guarded(whose, () => this.#step(running));
        this.#leave();
      }
    }
    // Memory of many rows is not kept for few.
    this.#results.clear();
    this.#closeUp();
  }
}

const gone = (): TroupeError =>
  new TroupeError('interrupted', 'The request was withdrawn before its samples were generated.');
