/** POST /v1/events: one CloudEvent, a batch, or a line for each; every item gets its own result, and a 2xx means that it is durable. */
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { got, TroupeError } from '../../../errors.ts';
import { decodeEnvelope, parseEvent } from '../../../ingest/events/decode.ts';
import { type Event, RELEASES } from '../../../ingest/events/events.ts';
import { isRecord } from '../../../ingest/events/json.ts';
import { parseBody } from '../../../ingest/events/parse-body.ts';
import { utf8 } from '../../../ingest/events/text.ts';
import type { Scope } from '../../../store/keys/api-key.ts';
import type { IngestItem, Ingestion, ItemAnswer } from '../../ingestion/ingestion.ts';
import { type RawRecord, splitArray, splitLines } from '../../ingestion/split.ts';
import { inflate, mediaType } from '../body.ts';
import type { Identity } from '../key-ring.ts';
import { documented } from '../openapi.ts';
import { BodyRefused } from '../problem.ts';
import { readQuery } from '../query.ts';

const SINGLE = 'application/cloudevents+json';
const BATCH = 'application/cloudevents-batch+json';
const LINES = ['application/x-ndjson', 'application/ndjson', 'application/jsonl'] as const;
const TYPES = ['application/json', SINGLE, BATCH, ...LINES] as const;

const Query = Type.Object({
  verbose: Type.Optional(Type.Boolean({ description: 'true: list every item, not only the rejected ones' })),
});
const Envelope = Type.Object(
  {
    specversion: Type.Literal('1.0'),
    id: Type.String({ description: 'unique in its source; the same again is a duplicate' }),
    source: Type.String(),
    type: Type.String({ description: 'troupe.<name>.v1' }),
    time: Type.Optional(Type.String({ format: 'date-time' })),
    data: Type.Object({}, { additionalProperties: true }),
  },
  { additionalProperties: true },
);
const Item = Type.Object({
  index: Type.Integer({ description: 'number of the item in the request, from 0' }),
  id: Type.Union([Type.String(), Type.Null()]),
  status: Type.Enum(['accepted', 'duplicate', 'rejected']),
  code: Type.Optional(Type.String()),
  field: Type.Optional(Type.String()),
  expected: Type.Optional(Type.String()),
  got: Type.Optional(Type.String()),
});
const Answer = Type.Object({
  received: Type.Integer({ description: 'accepted + duplicates + rejected' }),
  accepted: Type.Integer({ description: 'new, and durable now' }),
  duplicates: Type.Integer({ description: 'duplicates of stored events, with the same body' }),
  rejected: Type.Integer(),
  items: Type.Array(Item, { description: 'rejected items; all of them with ?verbose=1' }),
  errors: Type.Array(Item, { description: 'rejected items' }),
});

export function eventRoutes(
  app: FastifyInstance,
  ingestion: Ingestion,
  { bodyLimit }: { readonly bodyLimit: number },
): void {
  app.post<{ Body: Buffer | undefined }>(
    '/v1/events',
    documented({
      summary: 'Record events.',
      tag: 'events',
      scope: 'ingest',
      query: Query,
      body: { types: [...TYPES], schema: Type.Union([Envelope, Type.Array(Envelope)]) },
      answers: {
        200: { about: 'every item is durable', schema: Answer },
        207: { about: 'some items were rejected; the others are durable', schema: Answer },
      },
    }),
    async (request, reply) => {
      const { verbose = false } = readQuery(request.query, Query);
      const type = mediaType(request.headers, TYPES);
      const bytes = await inflate(request.body ?? Buffer.alloc(0), request.headers, bodyLimit);
      const items = recordsOf(type, bytes).map(readRecord);
      refuseBeyond(
        request.identity,
        items.flatMap(({ decoded }) => decoded.event ?? []),
      );
      const answers = await ingestion.take('http', items);
      const summary = summaryOf(answers, verbose);
      return reply.code(summary.rejected === 0 ? 200 : 207).send(summary);
    },
  );
}

const ABOUT_TRAINING = /^(?:job|schedule|judge|checkpoint)[.]/;
const KEYS_ABOUT_TRAINING = /^(?:[jc]\/|x\/schedule\/|x\/judge$)/;

/** The scope that an event needs beside `ingest`: what is served, and what is run, is not decided by who records episodes. */
function scopeOfEvent({ name, key }: Pick<Event, 'name' | 'key'>): Scope | null {
  // An amendment has the key of the event that it changes.
  const amends = name === 'record.amended';
  if (name === 'policy.released' || (amends && key === RELEASES)) return 'release';
  return ABOUT_TRAINING.test(name) || (amends && KEYS_ABOUT_TRAINING.test(key)) ? 'train' : null;
}

/** @throws TroupeError `scope_missing` where there is an event for which the key has no scope; none of them is taken then */
export function refuseBeyond(identity: Identity | null, events: readonly Event[]): void {
  if (identity === null || identity.scopes.includes('admin')) return;
  const { scopes } = identity;
  for (const event of events) {
    const scope = scopeOfEvent(event);
    if (scope === null || scopes.includes(scope)) continue;
    throw new TroupeError('scope_missing', `The event ${got(event.id)} needs a key with the scope ${scope} too.`, {
      expected: `ingest, ${scope}`,
      got: scopes.join(', '),
      hint: 'It and the events beside it were not taken; send the others without it.',
    });
  }
}

/** The records of a body. Throws `BodyRefused` where the records cannot be separated. */
function recordsOf(type: (typeof TYPES)[number], bytes: Uint8Array): RawRecord[] {
  if (bytes.length === 0) throw unusable('bad_shape', 'an event or several', 'empty');
  if ((LINES as readonly string[]).includes(type)) return splitLines(bytes);
  const text = utf8(bytes);
  if (text === null) throw unusable('bad_json', 'UTF-8', 'other bytes');
  const first = text.trimStart()[0];
  if (first === '[' && type !== SINGLE) return splitArray(text);
  if (type === BATCH)
    throw unusable('bad_shape', 'a JSON array of events', `something that begins with ${JSON.stringify(first ?? '')}`);
  const parsed = parseBody(text);
  // A single text that is not a JSON object has no items: the whole request is refused.
  if ('refusal' in parsed && parsed.refusal.code === 'bad_json') throw new BodyRefused(parsed.refusal);
  if ('value' in parsed && !isRecord(parsed.value))
    throw unusable('bad_shape', 'a JSON object or an array of them', 'another JSON value');
  return [{ text, raw: text, place: '[0]' }];
}

const unusable = (code: 'bad_json' | 'bad_shape', expected: string, got: string): BodyRefused =>
  new BodyRefused({ code, field: '', expected, got });

function readRecord({ text, raw, place }: RawRecord): IngestItem {
  if (text === null) {
    const refusal = { code: 'bad_json', field: '', expected: 'UTF-8', got: 'other bytes' } as const;
    return { id: null, decoded: { refusal }, raw: () => raw, place };
  }
  const parsed = parseEvent(text);
  if ('refusal' in parsed) return { id: null, decoded: parsed, raw: () => raw, place };
  const { value } = parsed;
  const id = isRecord(value) && typeof value.id === 'string' ? value.id : null;
  return { id, decoded: decodeEnvelope(value), raw: () => raw, place };
}

function summaryOf(answers: readonly ItemAnswer[], verbose: boolean) {
  const count = (status: ItemAnswer['status']) => answers.filter((answer) => answer.status === status).length;
  const errors = answers.filter(({ status }) => status === 'rejected');
  return {
    received: answers.length,
    accepted: count('accepted'),
    duplicates: count('duplicate'),
    rejected: errors.length,
    items: verbose ? answers : errors,
    errors,
  };
}
