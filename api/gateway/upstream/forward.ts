/**
 * A call to a configured model server: the request is forwarded unchanged, the response is passed on as it arrives, and both are
 * recorded. The caller gets the server's own status, body and rate-limit headers; a failure to record never fails the call.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import type { FastifyReply } from 'fastify';
import { TroupeError } from '../../../errors.ts';
import { respelled, writtenJson } from '../../../ingest/events/spelling.ts';
import { nextTime } from '../../../ingest/recorder/next-time.ts';
import { beginSpan, passedOn } from '../../health/tracing/spans.ts';
import { secretOf } from '../../http/auth.ts';
import type { KeyRing } from '../../http/key-ring.ts';
import { processLog } from '../../http/log.ts';
import { UNRECORDED } from '../events.ts';
import { callIds } from '../gateway.ts';
import type { CallContext } from '../request.ts';
import { captureAnswer, isStream, NO_ANSWER, type RawAnswer } from './capture.ts';
import { upstreamFailure } from './connection.ts';
import { wholeEvents } from './event-stream.ts';
import type { KeptCall } from './keep.ts';
import type { Kind } from './kind.ts';
import { ANTHROPIC_VERSION, keyHeaders } from './settings.ts';
import type { VisibleChange } from './shown.ts';
import { tokenFields } from './token-ids.ts';
import type { UpstreamMatch } from './upstreams.ts';

export type ForwardOptions = {
  readonly keys: KeyRing;
  /** Records a call whose response had so many bytes; answers whether the log has it. */
  readonly keep: (call: KeptCall, size: number) => Promise<boolean>;
  /** A response, or whole events of its stream, without what the gateway asked for itself. */
  readonly show: (answer: VisibleChange) => Promise<Uint8Array>;
  /** How many bytes of a response are stored for its record. */
  readonly recordLimit: number;
};

export type ForwardedCall = UpstreamMatch & {
  readonly kind: Kind;
  readonly request: Record<string, unknown>;
  /** The request body, unchanged. */
  readonly bytes: Uint8Array;
  readonly headers: IncomingHttpHeaders;
  readonly callId: string;
  readonly episodeId: string;
  readonly context: CallContext;
  /** Flags of the call in its record. */
  readonly flags?: readonly string[];
  /** The policy of the route that fell back to the server. */
  readonly policy?: string | undefined;
  readonly signal: AbortSignal;
  readonly requestId: string;
};

const PATHS: Readonly<Record<Kind, string>> = {
  chat: '/chat/completions',
  text: '/completions',
  responses: '/responses',
  messages: '/messages',
  embeddings: '/embeddings',
};
/** Headers that are forwarded to the model server, and those that are returned to the client. */
const SENT_ON = /^(?:accept|user-agent|idempotency-key|openai-.+|anthropic-.+|x-stainless-.+|http-referer|x-title)$/;
const SENT_BACK =
  /^(?:content-type|content-encoding|retry-after|retry-after-ms|x-should-retry|x-request-id|request-id|x-ratelimit-.+|openai-.+|anthropic-.+)$/;
/** The placeholder key of clients that require one. */
const NO_KEY = 'troupe';
/** Bytes of a stream that are read in one turn of the event loop. */
const TURN_BYTES = 256 * 1024;
/** Shorter texts are not treated as secrets: they may occur in any sentence. */
const SHORTEST_SECRET = 8;

/** Sends the response through `reply`. Throws `upstream_failed`, `upstream_timeout` or `interrupted` if there is none. */
export async function forward(
  call: ForwardedCall,
  reply: FastifyReply,
  options: ForwardOptions,
): Promise<FastifyReply> {
  const exchange = new Exchange(call, options);
  let answer: IncomingMessage;
  try {
    answer = await exchange.send();
  } catch (error) {
    reply.header('troupe-recorded', String(await exchange.keep(NO_ANSWER, 0, null, error as TroupeError)));
    throw error;
  }
  const arriving = exchange.arriving(answer);
  const status = answer.statusCode!;
  const answered = (recorded: string) =>
    reply.code(status).headers({ ...picked(answer.headers, SENT_BACK), 'troupe-recorded': recorded });
  const pass = (before: readonly Uint8Array[]) =>
    answered('later').send(Readable.from(arriving.chunks(before), { objectMode: false }));
  if (isStream(answer.headers)) return pass([]);
  const pieces: Uint8Array[] = [];
  try {
    let size = 0;
    for await (const chunk of answer.iterator({ destroyOnReturn: false })) {
      arriving.capture.add(chunk);
      pieces.push(chunk);
      size += chunk.byteLength;
      // Too large to buffer: passed on as it arrives.
      if (size > options.recordLimit) return pass(pieces);
    }
  } catch (cause) {
    const error = exchange.failure(cause);
    reply.header('troupe-recorded', String(await arriving.keep(error)));
    throw error;
  }
  const kept = await arriving.keep(null);
  const body = Buffer.concat(pieces);
  const sent = status >= 400 ? withoutKey(body, call.upstream.key) : await exchange.shown(body, false);
  return answered(String(kept)).send(sent);
}

/** A call to a model server and its record. */
class Exchange {
  readonly #call: ForwardedCall;
  readonly #options: ForwardOptions;
  readonly #requestedAt = nextTime();
  readonly #began = performance.now();
  readonly #span: ReturnType<typeof beginSpan>;
  readonly #secrets: readonly string[];
  /** What the gateway asks for itself, and its client is not shown. */
  readonly #added: ReturnType<typeof tokenFields>;

  constructor(call: ForwardedCall, options: ForwardOptions) {
    const { callId, episodeId, model, upstream } = call;
    this.#call = call;
    this.#options = options;
    this.#span = beginSpan('gateway', {
      ...callIds(callId, episodeId),
      'gen_ai.request.model': model,
      'troupe.upstream': upstream.name,
    });
    this.#secrets = credentials(call, options.keys).secrets;
    this.#added = tokenFields(upstream, call.kind, call.request);
  }

  send(): Promise<IncomingMessage> {
    const { kind, connection, model, request, bytes, signal } = this.#call;
    return this.#span.run(() =>
      connection.send({
        method: 'POST',
        path: PATHS[kind],
        headers: sentHeaders(this.#call, this.#options.keys),
        body:
          request.model === model && this.#added === null
            ? bytes
            : Buffer.from(writtenJson(respelled({ ...request, ...this.#added, model }, request))),
        signal,
      }),
    );
  }

  async keep(answer: RawAnswer, size: number, status: number | null, error: TroupeError | null): Promise<boolean> {
    const { callId, episodeId, context, kind, model, request, requestId, policy, flags = [] } = this.#call;
    const { name, prices, tokenIds, logprobs, checkpoints } = this.#call.upstream;
    const kept = await this.#span.run(() =>
      this.#options.keep(
        {
          callId,
          episodeId,
          context,
          requestedAt: this.#requestedAt,
          completedAt: nextTime(),
          kind,
          model,
          status,
          upstream: { name, prices, tokenIds, logprobs, checkpoints },
          latencyMs: this.#elapsed(),
          firstTokenMs: null,
          request,
          answer,
          secrets: this.#secrets,
          flags,
          policy,
          trace: passedOn(),
          requestId,
          error: error && { code: error.code, message: error.message },
        },
        size,
      ),
    );
    this.#span.end({ 'http.response.status_code': status }, error);
    if (!kept) processLog().error(`The call ${callId} through the gateway was not recorded.`);
    return kept;
  }

  failure(cause: unknown): TroupeError {
    return upstreamFailure(cause, this.#call.upstream.name, this.#call.signal);
  }

  /** A response, or whole events of its stream, without what the gateway asked for itself. */
  async shown(bytes: Uint8Array, stream: boolean): Promise<Uint8Array> {
    if (this.#added === null || bytes.byteLength === 0) return bytes;
    return this.#options.show({ added: this.#added, stream, bytes });
  }

  /** The response as it arrives: what is captured of it, its record, and its chunks, with backpressure. */
  arriving(answer: IncomingMessage) {
    const { recordLimit } = this.#options;
    const capture = captureAnswer(this.#call.kind, answer.headers, recordLimit, () => this.#elapsed());
    const keep = (error: TroupeError | null) => this.keep(capture.taken(), capture.size(), answer.statusCode!, error);
    const streams = isStream(answer.headers);
    const whole = this.#added === null || !streams ? null : wholeEvents(recordLimit);
    const failure = (cause: unknown) => this.failure(cause);
    const shown = (events: Uint8Array) => this.shown(events, true);
    /** Its end waits for the record. */
    async function* chunks(before: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
      let error: TroupeError | null = null;
      let [ended, kept] = [false, true];
      try {
        yield* before;
        let [size, resting] = [0, 0];
        for await (const chunk of answer) {
          size += chunk.byteLength;
          // What a fast server sends at once is read in several turns of the event loop.
          if (size - resting > TURN_BYTES) {
            resting = size;
            await setImmediate();
          }
          capture.add(chunk);
          // An event too large to take apart is passed on as it arrives, as other responses are.
          const { parts, events } = whole?.take(chunk) ?? { parts: [chunk], events: NO_BYTES };
          for (const passed of [...parts, await shown(events)]) if (passed.byteLength > 0) yield passed;
        }
        const last = await shown(whole?.end() ?? NO_BYTES);
        if (last.byteLength > 0) yield last;
        ended = true;
      } catch (cause) {
        error = failure(cause);
        throw error;
      } finally {
        answer.destroy();
        kept = await keep(error ?? (ended ? null : failure(new Error('closed'))));
      }
      if (!kept && streams) yield Buffer.from(UNRECORDED);
    }
    return { capture, keep, chunks };
  }

  #elapsed(): number {
    return Math.round((performance.now() - this.#began) * 1000) / 1000;
  }
}

const NO_BYTES = new Uint8Array();
const FIXED = { 'content-type': 'application/json', 'accept-encoding': 'identity' };
const picked = (headers: IncomingHttpHeaders, wanted: RegExp) =>
  Object.fromEntries(Object.entries(headers).filter(([name, value]) => value !== undefined && wanted.test(name)));

/**
 * Which credential the model server gets: a bearer token that is not a key of this project is forwarded, and so is an `x-api-key` to
 * /v1/messages; otherwise the configured key is sent.
 */
function credentials({ kind, headers, upstream }: Pick<ForwardedCall, 'kind' | 'headers' | 'upstream'>, keys: KeyRing) {
  const sent = headers.authorization;
  const secret = secretOf(sent);
  const apiKey = typeof headers['x-api-key'] === 'string' ? headers['x-api-key'] : null;
  const isForeign = (text: string | null) => text !== null && text !== '' && text !== NO_KEY && !keys.isOurs(text);
  const foreign = {
    ...(isForeign(secret) && /^bearer /i.test(sent!) ? { authorization: sent! } : {}),
    ...(kind === 'messages' && isForeign(apiKey) ? { 'x-api-key': apiKey! } : {}),
  };
  const secrets = [secret, apiKey, upstream.key, headers['troupe-key']].filter(
    (text): text is string => typeof text === 'string' && text.length >= SHORTEST_SECRET,
  );
  return { authorization: Object.keys(foreign).length > 0 ? foreign : keyHeaders(upstream), secrets };
}

/** How many tokens a request to /v1/messages has, as the server counts them. Nothing is generated, and nothing recorded. */
export async function forwardCount(
  call: Omit<ForwardedCall, 'kind' | 'callId' | 'episodeId' | 'context' | 'flags' | 'requestId'>,
  reply: FastifyReply,
  { keys, recordLimit }: Pick<ForwardOptions, 'keys' | 'recordLimit'>,
): Promise<FastifyReply> {
  const { upstream, connection, model, request, signal } = call;
  const answer = await connection.send({
    method: 'POST',
    path: '/messages/count_tokens',
    headers: sentHeaders({ ...call, kind: 'messages' }, keys),
    body: request.model === model ? call.bytes : Buffer.from(writtenJson(respelled({ ...request, model }, request))),
    signal,
  });
  const pieces: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of answer) {
      pieces.push(chunk);
      size += chunk.byteLength;
      if (size > recordLimit)
        throw new TroupeError('upstream_failed', `A count of tokens has more than ${recordLimit} bytes.`);
    }
  } catch (cause) {
    throw upstreamFailure(cause, upstream.name, signal);
  }
  const body = Buffer.concat(pieces);
  const status = answer.statusCode!;
  return reply
    .code(status)
    .headers(picked(answer.headers, SENT_BACK))
    .send(status < 400 ? body : withoutKey(body, upstream.key));
}

/** Headers of a forwarded request. */
const sentHeaders = (call: Pick<ForwardedCall, 'kind' | 'headers' | 'upstream'>, keys: KeyRing) => ({
  ...(call.kind === 'messages' ? { 'anthropic-version': ANTHROPIC_VERSION } : {}),
  ...picked(call.headers, SENT_ON),
  ...passedOn(),
  ...FIXED,
  ...credentials(call, keys).authorization,
});

/** Masks the configured key in an error body. */
function withoutKey(body: Buffer, key: string | null): Buffer {
  return key === null || !body.includes(key) ? body : Buffer.from(body.toString('utf8').replaceAll(key, '***'));
}
