/**
 * Requests with expensive bodies or responses are handled on other threads, which have the same app with their own connections, so
 * that this thread stays responsive. This is the side of the thread that has the sockets.
 */
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import type { Worker } from 'node:worker_threads';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { TroupeError } from '../../errors.ts';
import type { KeptCall } from '../gateway/upstream/keep.ts';
import type { VisibleChange } from '../gateway/upstream/shown.ts';
import { BODY_LIMIT, inflate } from './body.ts';
import { processLog } from './log.ts';

export type OffloadedRequest = {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly remoteAddress: string;
  readonly body: Uint8Array;
};
type OffloadedAnswer = {
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  readonly body: Readable;
};

export type Offload = {
  /** Throws `busy` where too much waits already, `unreachable` if the thread ended before its response. */
  readonly handle: (request: OffloadedRequest, signal: AbortSignal) => Promise<OffloadedAnswer>;
  /** Records a call to a model server; answers whether the log has it. Throws as `handle`. */
  readonly keep: (call: KeptCall) => Promise<boolean>;
  /** The response as its client is shown it. Throws as `handle`. */
  readonly show: (answer: VisibleChange) => Promise<Uint8Array>;
  /** How many texts each rule of redaction changed on the thread. */
  readonly found: () => Readonly<Record<string, number>>;
  /** Ends the thread once it has finished its requests. */
  readonly close: () => Promise<void>;
};

/** Messages to the thread. */
export type ToThread =
  | { readonly kind: 'request'; readonly id: number; readonly request: OffloadedRequest }
  | { readonly kind: 'keep'; readonly id: number; readonly call: KeptCall }
  | { readonly kind: 'show'; readonly id: number; readonly answer: VisibleChange }
  | { readonly kind: 'abort'; readonly id: number }
  | { readonly kind: 'close' };
/** Messages from it: a head, chunks, and an end; whether a call was recorded; what is shown; an error in place of any of them. */
export type FromThread =
  | { readonly kind: 'head'; readonly id: number; readonly status: number; readonly headers: OutgoingHttpHeaders }
  | { readonly kind: 'chunk'; readonly id: number; readonly bytes: Uint8Array }
  | {
      readonly kind: 'kept';
      readonly id: number;
      readonly kept: boolean;
      readonly found: Readonly<Record<string, number>>;
    }
  | { readonly kind: 'shown'; readonly id: number; readonly bytes: Uint8Array }
  | { readonly kind: 'end'; readonly id: number; readonly found: Readonly<Record<string, number>> }
  | { readonly kind: 'error'; readonly id: number; readonly message: string };

/** A body up to this size, inflated, is handled here if it has few separators. */
const LIGHT_BYTES = 256 * 1024;
/** Commas and newlines: 10,000 records of a byte each cost 150 ms, whatever their size. */
const LIGHT_SEPARATORS = 3_000;

/** Bytes of bodies, inflated, that the thread works on at once, and that wait for it as they were sent. */
const AT_ONCE_BYTES = 96 * 1024 * 1024;
const WAITING_BYTES = 256 * 1024 * 1024;
/** Bytes that a request without a body, and its response, count for while it waits. */
const LEAST_BYTES = 64 * 1024;
const READ_BYTES = 8 * 1024 * 1024;
/** How long the thread may take to end. */
const CLOSE_MS = 5_000;

/** Passes large bodies to the thread before their handler runs. */
export const offloading =
  (offload: Offload) =>
  async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> => {
    const { body, headers } = request;
    if (!Buffer.isBuffer(body) || !(await isHeavy(body, headers))) return undefined;
    return relay(offload, request, reply, body);
  };

/** Passes reads with large responses to the thread before their handler runs: an episode of 10 MB takes a third of a second. */
export const offloadingReads =
  (offload: Offload) =>
  async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> =>
    request.routeOptions.config.doc?.large === true
      ? relay(offload, request, reply, Buffer.isBuffer(request.body) ? request.body : new Uint8Array())
      : undefined;

/** Has the thread handle a request, and sends its response. */
export async function relay(
  { handle }: Pick<Offload, 'handle'>,
  request: FastifyRequest,
  reply: FastifyReply,
  body: Uint8Array,
): Promise<FastifyReply> {
  const { headers, method, url } = request;
  const gone = new AbortController();
  reply.raw.once('close', () => gone.abort());
  const remoteAddress = request.socket.remoteAddress ?? '';
  const answer = await handle({ method, url, headers, remoteAddress, body }, gone.signal);
  return reply.code(answer.status).headers(answer.headers).send(answer.body);
}

async function isHeavy(body: Buffer, headers: IncomingHttpHeaders): Promise<boolean> {
  if (body.length > LIGHT_BYTES) return true;
  try {
    return hasManySeparators(await inflate(body, headers, LIGHT_BYTES));
  } catch (error) {
    // Damaged or unknown compression is refused by the handler.
    return error instanceof TroupeError && error.code === 'too_large';
  }
}

function hasManySeparators(bytes: Uint8Array): boolean {
  let separators = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if ((byte === 44 || byte === 10) && ++separators > LIGHT_SEPARATORS) return true;
  }
  return false;
}

/** What came of a message: the response to a request, whether a call was recorded, or what is shown. */
type Outcome = {
  readonly answered: (answer: OffloadedAnswer) => void;
  readonly kept: (kept: boolean) => void;
  readonly shown: (bytes: Uint8Array) => void;
  readonly failed: (error: Error) => void;
};

/** Of a request that waits for other messages. */
const NOTHING = { answered: () => {}, kept: () => {}, shown: () => {} };

/** Bytes that can change hands: a copy where they are a part of others. */
const owned = (bytes: Uint8Array): Uint8Array =>
  bytes.byteLength === bytes.buffer.byteLength ? bytes : Uint8Array.from(bytes);

/** The thread is started by its first request, and anew by the next one after it died. */
export function openOffload(start: () => Worker): Offload {
  const thread = new RequestThread(start);
  return {
    handle: (request, signal) =>
      new Promise((answered, failed) => {
        const { body, headers } = request;
        const bytes = Math.max(body.length, LEAST_BYTES);
        const compressed = (headers['content-encoding'] ?? 'identity') !== 'identity';
        const weight = body.length === 0 ? READ_BYTES : compressed ? BODY_LIMIT : bytes;
        const gone = (): void => failed(new TroupeError('unreachable', 'The client went away.'));
        thread.submit({ bytes, weight }, { ...NOTHING, answered, failed }, (id, worker) => {
          if (signal.aborted) {
            thread.leave(id);
            gone();
            return;
          }
          const own = owned(body);
          const message: ToThread = { kind: 'request', id, request: { ...request, body: own } };
          worker.postMessage(message, [own.buffer as ArrayBuffer]);
          signal.addEventListener('abort', () => {
            thread.abandon(id);
            gone();
          });
        });
      }),
    keep: (call) =>
      new Promise((kept, failed) => {
        const bytes = Math.max(call.answer.bytes?.byteLength ?? 0, LIGHT_BYTES);
        thread.submit({ bytes, weight: bytes }, { ...NOTHING, kept, failed }, (id, worker) => {
          // A copy: should the thread end, the call is recorded without it.
          const body = call.answer.bytes && Uint8Array.from(call.answer.bytes);
          const message: ToThread = { kind: 'keep', id, call: { ...call, answer: { ...call.answer, bytes: body } } };
          worker.postMessage(message, body === null ? [] : [body.buffer as ArrayBuffer]);
        });
      }),
    show: (answer) =>
      new Promise((shown, failed) => {
        const bytes = answer.bytes.byteLength;
        thread.submit({ bytes, weight: bytes }, { ...NOTHING, shown, failed }, (id, worker) => {
          // A copy: should the thread end, it is shown without it.
          const body = Uint8Array.from(answer.bytes);
          const message: ToThread = { kind: 'show', id, answer: { ...answer, bytes: body } };
          worker.postMessage(message, [body.buffer as ArrayBuffer]);
        });
      }),
    found: () => thread.found(),
    close: () => thread.close(),
  };
}

/** The thread, what it works on, and what waits for room in it. */
class RequestThread {
  readonly #start: () => Worker;
  readonly #pending = new Map<number, Outcome & { readonly weight: number; body: Readable | null }>();
  readonly #waiting: { readonly bytes: number; readonly weight: number; readonly begin: () => void }[] = [];
  /** What was redacted on threads that ended, and on this one. */
  readonly #before = new Map<string, number>();
  #found: Readonly<Record<string, number>> = {};
  #thread: Worker | null = null;
  #ended: Promise<void> = Promise.resolve();
  #last = 0;
  #working = 0;
  #queued = 0;

  constructor(start: () => Worker) {
    this.#start = start;
  }

  /** Sends a message to the thread once there is room for its weight; `bytes` is what it holds of this process until then. */
  submit(
    { bytes, weight }: { readonly bytes: number; readonly weight: number },
    outcome: Outcome,
    send: (id: number, worker: Worker) => void,
  ): void {
    if (this.#queued + bytes > WAITING_BYTES) {
      const text = 'Too many large requests wait already; send this one again in a moment.';
      outcome.failed(new TroupeError('busy', text));
      return;
    }
    const begin = (): void => {
      const id = ++this.#last;
      this.#pending.set(id, { weight, ...outcome, body: null });
      this.#working += weight;
      const worker = this.#living();
      worker.ref();
      send(id, worker);
    };
    this.#queued += bytes;
    this.#waiting.push({ bytes, weight, begin });
    this.#beginNext();
  }

  abandon(id: number): void {
    if (this.#pending.has(id)) this.#thread?.postMessage({ kind: 'abort', id } satisfies ToThread);
    this.leave(id);
  }

  leave(id: number): void {
    this.#working -= this.#pending.get(id)?.weight ?? 0;
    this.#pending.delete(id);
    if (this.#pending.size === 0) this.#thread?.unref();
    this.#beginNext();
  }

  found(): Readonly<Record<string, number>> {
    const sum: Record<string, number> = Object.fromEntries(this.#before);
    for (const [name, count] of Object.entries(this.#found)) sum[name] = (sum[name] ?? 0) + count;
    return sum;
  }

  async close(): Promise<void> {
    const worker = this.#thread;
    if (worker === null) return;
    worker.postMessage({ kind: 'close' } satisfies ToThread);
    const late = setTimeout(() => void worker.terminate(), CLOSE_MS);
    await this.#ended;
    clearTimeout(late);
  }

  #living(): Worker {
    if (this.#thread !== null) return this.#thread;
    const worker = this.#start();
    worker.on('message', (message: FromThread) => this.#receive(message));
    worker.on('error', (err) => processLog().error({ err }, 'The thread for large requests failed.'));
    this.#ended = new Promise((resolve) => worker.once('exit', () => resolve(this.#died())));
    worker.unref();
    this.#thread = worker;
    return worker;
  }

  #died(): void {
    this.#thread = null;
    for (const [name, count] of Object.entries(this.#found))
      this.#before.set(name, (this.#before.get(name) ?? 0) + count);
    this.#found = {};
    for (const id of [...this.#pending.keys()])
      this.#fail(id, 'The thread for large requests ended; send the request again.');
  }

  #receive(message: FromThread): void {
    const { id, kind } = message;
    const one = this.#pending.get(id);
    if (kind === 'end' || kind === 'kept') this.#found = message.found;
    if (!one) return;
    if (kind === 'head') {
      const destroy = (error: Error | null, done: (error: Error | null) => void) => {
        this.abandon(id);
        done(error);
      };
      one.body = new Readable({ read() {}, destroy });
      one.answered({ status: message.status, headers: message.headers, body: one.body });
    } else if (kind === 'chunk') one.body?.push(message.bytes);
    else if (kind === 'error') this.#fail(id, message.message);
    else {
      if (kind === 'kept') one.kept(message.kept);
      if (kind === 'shown') one.shown(message.bytes);
      one.body?.push(null);
      this.leave(id);
    }
  }

  #fail(id: number, text: string): void {
    const one = this.#pending.get(id);
    this.leave(id);
    const error = new TroupeError('unreachable', text);
    if (one?.body) one.body.destroy(error);
    else one?.failed(error);
  }

  #beginNext(): void {
    for (;;) {
      const [next] = this.#waiting;
      if (next === undefined || (this.#working > 0 && this.#working + next.weight > AT_ONCE_BYTES)) return;
      this.#waiting.shift();
      this.#queued -= next.bytes;
      next.begin();
    }
  }
}
