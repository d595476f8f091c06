/**
 * A call that a configured model server answers: sent on as it came, its answer passed on as it comes, and both recorded. The caller
 * gets the server's own status, body and limits, whatever they say; what goes wrong with recording never reaches the call.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { TroupeError } from '../../errors.ts';
import { canonicalJson } from '../../ingest/json.ts';
import type { ArtifactStore } from '../../ingest/log/log.ts';
import { secretOf } from '../auth.ts';
import type { Door } from '../door.ts';
import { record } from '../gateway.ts';
import type { CallContext } from '../gateway-request.ts';
import type { KeyRing } from '../key-ring.ts';
import { processLog } from '../log.ts';
import { sayFailure } from './connection.ts';
import { type Heard, isStream, listen } from './heard.ts';
import { type Kind, upstreamDrafts } from './record.ts';
import { ANTHROPIC_VERSION, keyHeaders } from './settings.ts';
import type { Found } from './upstreams.ts';

export type ForwardOptions = {
  readonly door: Door;
  readonly artifacts: ArtifactStore;
  readonly keys: KeyRing;
  readonly recordTimeoutMs: number;
  /** How many bytes of an answer are kept for its record. */
  readonly recordLimit: number;
};

export type Forwarded = Found & {
  readonly kind: Kind;
  readonly request: Record<string, unknown>;
  /** The request as it came. */
  readonly bytes: Uint8Array;
  readonly headers: IncomingHttpHeaders;
  readonly context: CallContext;
  /** What is noted of the call in its record. */
  readonly flags?: readonly string[];
  readonly signal: AbortSignal;
};

const PATHS: Readonly<Record<Kind, string>> = {
  chat: '/chat/completions',
  text: '/completions',
  responses: '/responses',
  messages: '/messages',
  embeddings: '/embeddings',
};
/** Headers that mean something to a model server, and to whoever asked it. */
const SENT_ON = /^(?:accept|user-agent|idempotency-key|openai-.+|anthropic-.+|x-stainless-.+|http-referer|x-title)$/;
const SENT_BACK =
  /^(?:content-type|content-encoding|retry-after|retry-after-ms|x-should-retry|x-request-id|request-id|x-ratelimit-.+|openai-.+|anthropic-.+)$/;
/** What clients that insist on a key send where they have none. */
const NO_KEY = 'troupe';
/** A text that short is no secret, and may stand in any sentence. */
const SHORTEST_SECRET = 8;

/** What names a recorded call in the headers of its answer, whatever the answer is. */
export const idHeaders = ({ callId, episodeId }: { readonly callId: string; readonly episodeId: string }) => ({
  'troupe-episode-id': encodeURIComponent(episodeId),
  'troupe-call-id': callId,
});

/** Sends the answer through `reply`. Throws `upstream_failed`, `upstream_timeout` or `interrupted` where there is none. */
export async function forward(call: Forwarded, reply: FastifyReply, options: ForwardOptions): Promise<FastifyReply> {
  const { kind, upstream, connection, model, request, context, signal } = call;
  const callId = randomUUID();
  const episodeId = context.episode ?? `call-${callId}`;
  const requestedAt = new Date().toISOString();
  const began = performance.now();
  const elapsed = () => Math.round((performance.now() - began) * 1000) / 1000;
  const { secrets } = credentials(call, options.keys);
  // Set before anything can fail: an error of the upstream names its call too.
  reply.headers(idHeaders({ callId, episodeId }));

  const keep = async (heard: Heard, status: number | null, error: TroupeError | null): Promise<boolean> => {
    const completedAt = new Date().toISOString();
    const latencyMs = elapsed();
    const kept = await record(
      options.door,
      async () => {
        const said = withoutSecrets({ request, response: heard.response ?? heard.text }, secrets);
        const raw = await options.artifacts.put([said.raw]).then(
          () => said.raw,
          () => null,
        );
        const flags = [
          ...(call.flags ?? []),
          ...(heard.cut ? ['cut_answer'] : []),
          ...(heard.text ? ['unread_answer'] : []),
        ];
        const response = heard.response === null ? null : (said.response as Record<string, unknown>);
        return upstreamDrafts({
          callId,
          episodeId,
          context,
          requestedAt,
          completedAt,
          kind,
          upstream,
          model,
          status,
          latencyMs,
          raw,
          flags,
          request: said.request as Record<string, unknown>,
          response,
          error: error ?? (heard.cut ? tooLong(options.recordLimit) : null),
          firstTokenMs: heard.firstTokenMs,
        });
      },
      options.recordTimeoutMs,
    );
    if (!kept) processLog().error(`The call ${callId} through the gateway was not recorded.`);
    return kept;
  };

  let answer: IncomingMessage;
  try {
    answer = await connection.send({
      method: 'POST',
      path: PATHS[kind],
      headers: sentHeaders(call, options.keys),
      body: request.model === model ? call.bytes : Buffer.from(JSON.stringify({ ...request, model })),
      signal,
    });
  } catch (error) {
    await keep(NOTHING, null, error as TroupeError);
    throw error;
  }
  const status = answer.statusCode!;
  const ear = listen(kind, answer.headers, options.recordLimit, elapsed);
  const headers = {
    ...picked(answer.headers, SENT_BACK),
  };
  const broken = (error: unknown) => sayFailure(error, upstream.name, signal);
  const pass = (before: readonly Uint8Array[]) =>
    reply
      .code(status)
      .headers({ ...headers, 'troupe-recorded': 'later' })
      .send(Readable.from(passOn(before), { objectMode: false }));

  /** The answer piece by piece, at the pace of whoever reads it. Its end waits for the record. */
  async function* passOn(before: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
    let error: TroupeError | null = null;
    let ended = false;
    try {
      yield* before;
      for await (const chunk of answer) {
        ear.hear(chunk);
        yield chunk;
      }
      ended = true;
    } catch (cause) {
      error = broken(cause);
      throw error;
    } finally {
      answer.destroy();
      await keep(await ear.heard(), status, error ?? (ended ? null : broken(new Error('closed'))));
    }
  }

  if (isStream(answer.headers)) return pass([]);
  const pieces: Uint8Array[] = [];
  try {
    let size = 0;
    for await (const chunk of answer.iterator({ destroyOnReturn: false })) {
      ear.hear(chunk);
      pieces.push(chunk);
      size += chunk.byteLength;
      // Too long to hold: passed on as it comes.
      if (size > options.recordLimit) return pass(pieces);
    }
  } catch (cause) {
    const error = broken(cause);
    await keep(await ear.heard(), status, error);
    throw error;
  }
  const kept = await keep(await ear.heard(), status, null);
  const body = Buffer.concat(pieces);
  return reply
    .code(status)
    .headers({ ...headers, 'troupe-recorded': String(kept) })
    .send(status < 400 ? body : withoutKey(body, upstream.key));
}

const FIXED = { 'content-type': 'application/json', 'accept-encoding': 'identity' };
const NOTHING: Heard = { response: null, text: null, cut: false, firstTokenMs: null };

const tooLong = (limit: number) =>
  new TroupeError('too_large', `The answer has more than ${limit} bytes; it was passed on whole and recorded in part.`);

const picked = (headers: IncomingHttpHeaders, wanted: RegExp) =>
  Object.fromEntries(Object.entries(headers).filter(([name, value]) => value !== undefined && wanted.test(name)));

/**
 * Whose word opens the server: a bearer that is not ours goes on as sent, and so does an `x-api-key` to /v1/messages; otherwise the
 * configured key does.
 */
function credentials({ kind, headers, upstream }: Pick<Forwarded, 'kind' | 'headers' | 'upstream'>, keys: KeyRing) {
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
  call: Omit<Forwarded, 'kind' | 'context' | 'flags'>,
  reply: FastifyReply,
  { keys, recordLimit }: Pick<ForwardOptions, 'keys' | 'recordLimit'>,
): Promise<FastifyReply> {
  const { upstream, connection, model, request, signal } = call;
  const answer = await connection.send({
    method: 'POST',
    path: '/messages/count_tokens',
    headers: sentHeaders({ ...call, kind: 'messages' }, keys),
    body: request.model === model ? call.bytes : Buffer.from(JSON.stringify({ ...request, model })),
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
    throw sayFailure(cause, upstream.name, signal);
  }
  const body = Buffer.concat(pieces);
  const status = answer.statusCode!;
  return reply
    .code(status)
    .headers(picked(answer.headers, SENT_BACK))
    .send(status < 400 ? body : withoutKey(body, upstream.key));
}

/** What a server is told besides the request. */
const sentHeaders = (call: Pick<Forwarded, 'kind' | 'headers' | 'upstream'>, keys: KeyRing) => ({
  ...(call.kind === 'messages' ? { 'anthropic-version': ANTHROPIC_VERSION } : {}),
  ...picked(call.headers, SENT_ON),
  ...FIXED,
  ...credentials(call, keys).authorization,
});

/** Request and answer with no credential in them: servers repeat a key that they refuse. */
function withoutSecrets(said: { readonly request: unknown; readonly response: unknown }, secrets: readonly string[]) {
  const raw = canonicalJson(said);
  if (!secrets.some((secret) => raw.includes(secret))) return { ...said, raw };
  const clean = secrets.reduce((text, secret) => text.replaceAll(secret, '***'), raw);
  return { ...(JSON.parse(clean) as typeof said), raw: clean };
}

/** An error that repeats the configured key tells it to nobody. */
function withoutKey(body: Buffer, key: string | null): Buffer {
  return key === null || !body.includes(key) ? body : Buffer.from(body.toString('utf8').replaceAll(key, '***'));
}
