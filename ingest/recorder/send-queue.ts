/**
 * What a recorder has not sent yet. A program that runs out of work waits for it to be sent; one that is ended at once (`process.exit`,
 * an uncaught error) can only write it down. A signal that kills leaves no time for either.
 */
import { type EventLine, head, post, RecorderError, type Rejection, rejection } from './send.ts';
import { openSpill } from './spill.ts';

/** What became of the events since the flush before. `duplicates` were known to the server already. */
export type FlushReport = {
  readonly sent: number;
  readonly accepted: number;
  readonly duplicates: number;
  /** Of a recorder with a spill folder: events that were written there, and damaged files that were moved aside. */
  readonly spilled?: number;
  readonly damaged?: number;
};

export type RecorderOptions = {
  /** Where Troupe listens, such as `http://127.0.0.1:7717`. */
  readonly baseUrl: string;
  /** The CloudEvents source of every event. */
  readonly source: string;
  /** An API key with the scope ingest, where the server asks for one. */
  readonly apiKey?: string;
  /** Sent with every request: for instance an Authorization header. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Events in one request. */
  readonly batchSize?: number;
  /** How often one request is tried before the flush fails. */
  readonly tries?: number;
  /** The first pause in milliseconds before a request is sent again; each further pause is twice as long, up to 5 s. */
  readonly pause?: number;
  /** A folder where events wait while the server is away. What it holds is sent first, by this recorder or the next. */
  readonly spill?: string;
  /** Bytes that folder may hold. */
  readonly spillBytes?: number;
};

export class SendQueue {
  readonly #options: RecorderOptions;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #url: URL;
  readonly #batchSize: number;
  readonly #spill: ReturnType<typeof openSpill> | null;
  readonly #queue: EventLine[] = [];
  readonly #rejected: Rejection[] = [];
  #counts = { sent: 0, accepted: 0, duplicates: 0, spilled: 0 };
  #flushing = 0;
  #away = false;
  #running: Promise<unknown> | null = null;

  constructor(options: RecorderOptions) {
    const { baseUrl, apiKey, headers, batchSize = 250, spill, spillBytes = 2 ** 28 } = options;
    this.#options = options;
    this.#headers = { ...(apiKey && { authorization: `Bearer ${apiKey}` }), ...headers };
    this.#url = new URL('v1/events', baseUrl.endsWith('/') ? baseUrl : `${baseUrl}/`);
    this.#batchSize = batchSize;
    this.#spill = spill === undefined ? null : openSpill(spill, spillBytes);
    if (this.#spill) void this.#run();
  }

  push(entry: EventLine): void {
    this.#queue.push(entry);
    note(this, true);
    if (this.#queue.length >= this.#batchSize && this.#running === null) void this.#run();
  }

  async flush(): Promise<FlushReport> {
    this.#flushing++;
    try {
      do {
        const problem = await this.#run();
        if (problem !== null) throw problem;
      } while (this.#queue.length > 0 || this.#running !== null);
    } finally {
      this.#flushing--;
    }
    const { spilled, ...done } = this.#counts;
    this.#counts = { sent: 0, accepted: 0, duplicates: 0, spilled: 0 };
    const refused = this.#rejected.splice(0);
    const [first] = refused;
    if (first) {
      throw new RecorderError(
        `${refused.length} of ${done.sent} events were refused. The first is ${first.type} ${first.id}: ` +
          `${first.field || 'the event'} must be ${first.expected}, it is ${first.got} (${first.code}).`,
        refused,
      );
    }
    return this.#spill ? { ...done, spilled, damaged: this.#spill.damaged() } : done;
  }

  /** Where the program ends now: cannot wait for anything. */
  leave(): void {
    if (!this.#keep())
      process.stderr.write(`${this.#queue.length} events were not sent to ${this.#url}: the program ended first.\n`);
  }

  /** One request at a time, so that events arrive in order. Resolves with the error, or null. */
  async #run(): Promise<unknown> {
    this.#running ??= this.#drain()
      .then(
        () => null,
        (problem: unknown) => {
          this.#away = problem instanceof RecorderError && problem.away;
          return this.#away && this.#keep() ? null : problem;
        },
      )
      .finally(() => {
        this.#running = null;
        note(this, this.#queue.length > 0);
      });
    return this.#running;
  }

  /** Sends what waits on disk, then from the head of the queue; an entry leaves only when the server has answered for it. */
  async #drain(): Promise<void> {
    const spill = this.#spill;
    for (let file = spill?.oldest(); file; file = spill?.oldest()) {
      for (let rest = file.entries; rest.length > 0; ) rest = rest.slice(await this.#send(rest));
      spill?.remove(file.name);
    }
    while (this.#queue.length >= (this.#flushing > 0 ? 1 : this.#batchSize))
      this.#queue.splice(0, await this.#send(this.#queue));
  }

  /** Sends as many as one request takes; answers how many. */
  async #send(entries: readonly EventLine[]): Promise<number> {
    const batch = head(entries, this.#batchSize);
    const { pause = 100, tries = 8 } = this.#options;
    // What waits on disk can wait longer: one try shows whether the server is back.
    const most = this.#away && this.#spill ? 1 : tries;
    const answer = await post({ url: this.#url, headers: this.#headers, pause }, batch, most);
    this.#away = false;
    for (const error of answer.errors) this.#rejected.push(rejection(batch, error));
    this.#counts.sent += batch.length;
    this.#counts.accepted += answer.accepted;
    this.#counts.duplicates += answer.duplicates;
    return batch.length;
  }

  /** Moves the queue to the spill folder. */
  #keep(): boolean {
    if (this.#queue.length === 0) return this.#spill !== null;
    if (!this.#spill?.keep(this.#queue)) return false;
    this.#counts.spilled += this.#queue.length;
    this.#queue.length = 0;
    return true;
  }
}

const unsent = new Set<SendQueue>();
const tried = new WeakSet<SendQueue>();
let listening = false;

/** Notes whether this queue has something unsent. */
function note(queue: SendQueue, has: boolean): void {
  if (!has) {
    unsent.delete(queue);
    return;
  }
  unsent.add(queue);
  if (listening) return;
  listening = true;
  process.on('beforeExit', () => {
    for (const each of unsent) {
      // Node asks again after every piece of work: a server that stays away must not keep the program for ever.
      if (tried.has(each)) continue;
      tried.add(each);
      each.flush().catch((error: Error) => process.stderr.write(`${error.message}\n`));
    }
  });
  process.on('exit', () => {
    for (const each of unsent) each.leave();
  });
}
