import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { encodeEnvelope } from '../../ingest/events/decode.ts';
import { traceBytes } from '../ingest/support/otlp-bytes.ts';
import { aTrace } from '../ingest/support/spans.ts';
import { anyCharacter } from '../support/character.ts';
import { type TestApp, testApp } from './support/app.ts';

let at: TestApp;
beforeAll(async () => {
  at = await testApp();
});
afterAll(() => at.close());

const ENDPOINTS = [
  '/v1/events',
  '/v1/traces',
  '/v1/logs',
  '/v1/metrics',
  '/v1/traces/ingest',
  '/api/public/ingestion',
  '/api/public/scores',
  '/api/public/otel/v1/traces',
  '/runs/batch',
  '/runs',
  '/feedback',
  '/v1/chat/completions',
  '/e/a/a/b/v1/chat/completions',
  '/',
  '/v1/episodes',
];
const types = [
  'application/x-protobuf',
  'application/json',
  'application/cloudevents+json',
  'application/cloudevents-batch+json',
  'application/x-ndjson',
  'text/html',
  'x',
  '',
];
const envelope = fc.record(
  {
    specversion: fc.constantFrom('1.0', '0.3'),
    id: fc.oneof(fc.string({ unit: anyCharacter }), fc.jsonValue()),
    source: fc.oneof(fc.constant('/s'), fc.jsonValue()),
    type: fc.constantFrom(
      'troupe.message.sent.v1',
      'troupe.feedback.recorded.v1',
      'troupe.generation.completed.v1',
      'nothing',
    ),
    time: fc.oneof(fc.constant('2026-01-01T00:00:00Z'), fc.string()),
    data: fc.oneof(
      fc.record({
        episode_id: fc.string({ unit: anyCharacter }),
        message_id: fc.string(),
        content: fc.string({ unit: anyCharacter }),
      }),
      fc.jsonValue(),
    ),
  },
  { requiredKeys: [] },
);
const body = fc.oneof(
  fc.uint8Array({ maxLength: 400 }).map((bytes) => Buffer.from(bytes)),
  fc.string().map((text) => Buffer.from(text)),
  fc.json().map((text) => Buffer.from(text)),
  fc.array(envelope, { maxLength: 5 }).map((list) => Buffer.from(JSON.stringify(list))),
  fc.array(envelope, { maxLength: 5 }).map((list) => Buffer.from(list.map((one) => JSON.stringify(one)).join('\n'))),
  envelope.map((one) => Buffer.from(JSON.stringify(one))),
  fc
    .tuple(fc.constantFrom('resourceSpans', 'resourceLogs', 'batch', 'data', 'post', 'patch'), fc.jsonValue())
    .map(([name, value]) => Buffer.from(JSON.stringify({ [name]: Array.isArray(value) ? value : [value] }))),
  // Spans with bytes changed, cut and put in: most are refused one by one.
  fc
    .tuple(fc.constant(traceBytes(aTrace())), fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 6 }), fc.nat())
    .map(([good, changes, end]) => {
      const bytes = Buffer.from(good);
      for (const [at, byte] of changes) bytes[at % bytes.length] = byte;
      return bytes.subarray(0, end % 3 === 0 ? end % bytes.length : bytes.length);
    }),
);

describe('any bytes', () => {
  it('P42: whatever is posted, wherever, is answered with 2xx or 4xx', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...ENDPOINTS),
        fc.constantFrom(...types),
        fc.constantFrom(undefined, 'gzip', 'br', 'identity', 'zstd'),
        body,
        async (url, type, encoding, payload) => {
          const headers = { 'content-type': type, ...(encoding ? { 'content-encoding': encoding } : {}) };
          const { statusCode } = await at.app.inject({ method: 'POST', url, headers, payload });
          expect(statusCode).toBeGreaterThanOrEqual(200);
          expect(statusCode).toBeLessThan(500);
        },
      ),
      { numRuns: 500 },
    );
    // What was kept among it can be shown.
    await at.project();
  });

  it('P42: whatever is asked for is answered with 2xx or 4xx', async () => {
    const path = fc.oneof(
      fc.string({ unit: anyCharacter }).map((id) => `/v1/episodes/${encodeURIComponent(id.toWellFormed())}`),
      fc
        .uint8Array({ maxLength: 20 })
        .map((bytes) => `/v1/datasets/${[...bytes].map((b) => `%${b.toString(16).padStart(2, '0')}`).join('')}`),
      fc
        .tuple(fc.constantFrom('limit', 'after', 'task_id', 'tag.a', 'kind', 'x'), fc.string({ unit: anyCharacter }))
        .map(([name, value]) => `/v1/episodes?${name}=${encodeURIComponent(value.toWellFormed())}`),
      fc
        .tuple(fc.string(), fc.string())
        .map(([t, id]) => `/v1/jobs?after=${Buffer.from(JSON.stringify([t, id])).toString('base64url')}`),
      fc
        .tuple(fc.stringMatching(/^[0-9:. TZ+-]{10,30}$/), fc.string())
        .map(([t, id]) => `/v1/jobs?after=${Buffer.from(JSON.stringify([t, id])).toString('base64url')}`),
      fc.webPath(),
    );
    await fc.assert(
      fc.asyncProperty(path, async (url) => {
        const { statusCode } = await at.app.inject({ method: 'GET', url: url === '' ? '/' : url });
        expect(statusCode).toBeLessThan(500);
      }),
      { numRuns: 300 },
    );
  });

  it('P43: what is accepted comes back as it was sent, and what cannot is refused by name', async () => {
    const oddities = [
      'a\u0000b',
      '\ud800',
      'x\udc00\ufffe',
      -0,
      9007199254740991,
      0.1,
      1e-320,
      'k'.repeat(5000),
      '\u2028',
      { ['k'.repeat(300)]: [[], {}, null] },
    ];
    for (const [i, content] of oddities.entries()) {
      const id = `odd-${i}`;
      const data = {
        episode_id: 'odd',
        message_id: id,
        content: typeof content === 'string' ? content : 'x',
        unmapped: { content },
      };
      const sent = JSON.stringify({ specversion: '1.0', id, source: '/t', type: 'troupe.message.sent.v1', data });
      const answer = await at.app.inject({
        method: 'POST',
        url: '/v1/events',
        headers: { 'content-type': 'application/json' },
        payload: sent,
      });
      expect([id, answer.json().accepted]).toEqual([id, 1]);
      const { rows } = await at.db.query<{ data: object }>('select data from troupe.events where id = $1', [id]);
      const back = encodeEnvelope({ name: 'message.sent', source: '/t', id, time: null, data: rows[0]!.data });
      expect(JSON.parse(JSON.stringify(back)).data).toEqual(JSON.parse(JSON.stringify(data)));
    }
    await at.project();
    const { conversation: talk } = (await at.app.inject('/v1/episodes/odd')).json();
    const texts = new Map(talk.map(({ id, text }: { id: string; text: string }) => [id, text]));
    for (const [i, content] of oddities.entries())
      if (typeof content === 'string') expect(texts.get(`odd-${i}`)).toBe(content);

    const refused: [string, string][] = [
      ['"seq":9007199254740993', 'bad_number'],
      ['"seq":1e400', 'bad_number'],
      ['"message_id":"a\\u0000"', 'bad_identifier'],
      ['"message_id":"\\ud800"', 'bad_identifier'],
      [`"content":${'['.repeat(200)}${']'.repeat(200)}`, 'too_deep'],
    ];
    for (const [field, code] of refused) {
      const payload = `{"specversion":"1.0","id":"${randomBytes(4).toString('hex')}","source":"/t","type":"troupe.message.sent.v1","data":{"episode_id":"odd",${field.startsWith('"message_id"') ? '' : '"message_id":"m",'}${field}}}`;
      const answer = await at.app.inject({
        method: 'POST',
        url: '/v1/events',
        headers: { 'content-type': 'application/json' },
        payload,
      });
      expect([field.slice(0, 30), answer.json().items[0]?.code]).toEqual([field.slice(0, 30), code]);
    }
  });
});
