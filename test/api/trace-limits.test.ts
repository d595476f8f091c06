/** What the endpoints for traces take at most, and that what they take comes back as it was sent. */
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MAX_ITEMS } from '../../api/ingestion/trace-items.ts';
import { asSent } from '../../ingest/events/decode.ts';
import { guardJson, MAX_VALUES } from '../../ingest/events/json.ts';
import { MAX_ATTRIBUTES } from '../../ingest/traces/otlp/any-value.ts';
import { protobufToJson } from '../../ingest/traces/otlp/protobuf.ts';
import { MAX_MESSAGES_IN_ALL } from '../../ingest/traces/otlp/wire.ts';
import { delimited, traceBytes, varint } from '../ingest/support/otlp-bytes.ts';
import { aTrace, request, span, spanId, TRACE } from '../ingest/support/spans.ts';
import '../support/replay.ts';
import { anyCharacter } from '../support/character.ts';
import { expectBelow } from '../support/measured.ts';
import { type TestApp, testApp } from './support/app.ts';

const BODY_LIMIT = 4 * 1024 * 1024;
let at: TestApp;
beforeAll(async () => {
  at = await testApp({ bodyLimit: BODY_LIMIT });
});
afterAll(() => at.close());

const CODECS = {
  identity: (bytes: Buffer) => bytes,
  gzip: (bytes: Buffer) => gzipSync(bytes, { level: 1 }),
  br: (bytes: Buffer) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
} as const;
type Codec = keyof typeof CODECS;

const post = (payload: Buffer | object, encoding: Codec | 'x' = 'identity', type = 'application/json') =>
  at.app.inject({
    method: 'POST',
    url: '/v1/traces',
    headers: { 'content-type': type, 'content-encoding': encoding },
    payload: Buffer.isBuffer(payload) ? payload : Buffer.from(JSON.stringify(payload)),
  });
const PROTOBUF = 'application/x-protobuf';
const nested = (levels: number): object =>
  levels === 0 ? { stringValue: 'x' } : { arrayValue: { values: [nested(levels - 1)] } };
const withValue = (value: unknown) => request([{ ...span({ id: 1 }), attributes: [{ key: 'a', value }] }]);

/** Limits of one span: at most so many of something, sent as a request with that many of it. */
const OF_A_SPAN: readonly (readonly [string, number, (n: number) => object])[] = [
  [
    'attributes',
    MAX_ATTRIBUTES,
    (n) =>
      request([{ ...span({ id: 1 }), attributes: Array.from({ length: n }, (_, i) => ({ key: `k${i}`, value: {} })) }]),
  ],
  ['lists in lists of an attribute', 30, (n) => withValue(nested(n))],
];

describe('the limits of a request of traces', () => {
  it('P44: of one span hold at one less, the limit and one more, equal for every encoding', async () => {
    for (const [what, limit, body] of OF_A_SPAN) {
      for (const [codec, encode] of Object.entries(CODECS)) {
        const rejected: string[] = [];
        for (const n of [limit - 1, limit, limit + 1]) {
          const answer = await post(encode(Buffer.from(JSON.stringify(body(n)))), codec as Codec);
          rejected.push(answer.json().partialSuccess?.rejectedSpans ?? '0');
        }
        expect([what, codec, ...rejected]).toEqual([what, codec, '0', '0', '1']);
      }
    }
  });

  it('P44: of the body hold at one less, the limit and one more, equal for every encoding', async () => {
    const bare = Buffer.from(JSON.stringify(withValue({ stringValue: '' }))).length;
    for (const [codec, encode] of Object.entries(CODECS)) {
      const statuses: number[] = [];
      for (const size of [BODY_LIMIT - 1, BODY_LIMIT, BODY_LIMIT + 1]) {
        const body = Buffer.from(JSON.stringify(withValue({ stringValue: 'x'.repeat(size - bare) })));
        statuses.push((await post(encode(body), codec as Codec)).statusCode);
      }
      expect([codec, ...statuses]).toEqual([codec, 200, 200, 413]);
    }
  });

  it('P44: of the number of spans hold at the limit and one more', async () => {
    // Spans that say nothing but who they are.
    const spans = (n: number) =>
      request(Array.from({ length: n }, (_, i) => ({ traceId: TRACE, spanId: spanId(i + 1) })));
    expect((await post(CODECS.gzip(Buffer.from(JSON.stringify(spans(MAX_ITEMS)))), 'gzip')).statusCode).toBe(200);
    const more = await post(CODECS.gzip(Buffer.from(JSON.stringify(spans(MAX_ITEMS + 1)))), 'gzip');
    expect([more.statusCode, more.json().message]).toEqual([
      413,
      expect.stringContaining(`at most ${MAX_ITEMS} items`),
    ]);
  }, 30_000);

  it('P44: of members and messages hold before they cost memory', () => {
    const list = (n: number) => `[${'0,'.repeat(n - 1)}0]`;
    expect(guardJson(list(MAX_VALUES))).toBeNull();
    expect(guardJson(list(MAX_VALUES + 1))).toMatchObject({ code: 'too_large' });
    // A span with so many empty attributes: two bytes each. Around it are a request, a resource, a scope and the span itself.
    const attributes = (n: number) => {
      const body = Buffer.alloc(2 * n, Uint8Array.of(0x4a, 0));
      let message = body;
      for (const field of [2, 2, 1])
        message = Buffer.concat([Buffer.from([...varint(field * 8 + 2), ...varint(message.length)]), message]);
      return protobufToJson(message, 'traces');
    };
    expect(attributes(MAX_MESSAGES_IN_ALL - 4)).toHaveProperty('value');
    expect(attributes(MAX_MESSAGES_IN_ALL - 3)).toMatchObject({ refusal: { code: 'too_large' } });
  });

  it('P42: bombs, broken and double compression, lengths past the end and endless nesting end in 4xx or in a refused span', async () => {
    const zeros = Buffer.alloc(300 * 1024 * 1024);
    const bombs: [Codec, Buffer][] = [
      ['gzip', gzipSync(zeros, { level: 1 })],
      ['br', CODECS.br(zeros)],
    ];
    const before = process.memoryUsage().rss;
    for (const [codec, bomb] of bombs) expect((await post(bomb, codec)).statusCode).toBe(413);
    expectBelow(process.memoryUsage().rss - before, 200 * 1024 * 1024);
    const good = traceBytes(aTrace());
    for (const [payload, encoding] of [
      [gzipSync(good).subarray(0, -9), 'gzip'],
      [gzipSync(gzipSync(good)), 'gzip'],
      [good, 'gzip'],
      [gzipSync(good), 'br'],
      [gzipSync(good), 'identity'],
      [good, 'x'],
      [Buffer.from([0x0a, ...varint(2n ** 31n), 1]), 'identity'],
      [Buffer.from([0x0a, 0x7f, 1]), 'identity'],
    ] as const) {
      const { statusCode } = await post(payload, encoding, PROTOBUF);
      expect([statusCode >= 400, statusCode < 500]).toEqual([true, true]);
    }
    // An AnyValue that holds a list that holds an AnyValue …: the span around it is refused, the request is not.
    let value: number[] = [...delimited(1, [...Buffer.from('x')])];
    for (let i = 0; i < 300; i++) value = delimited(5, delimited(1, value));
    const spans = delimited(2, delimited(9, [...delimited(1, [97]), ...delimited(2, value)]));
    const deep = await post(Buffer.from(delimited(1, delimited(2, spans))), 'identity', PROTOBUF);
    expect([deep.statusCode, deep.rawPayload[0]]).toEqual([200, 0x0a]);
  }, 60_000);
});

describe('what an endpoint for traces takes', () => {
  it('P43: stands in the log as it was sent, or the span is refused by name', async () => {
    const value = fc.oneof(
      fc.string({ unit: anyCharacter }).map((text) => ({ stringValue: text })),
      fc.constantFrom('\u0000', '\ud800', '\ufffe', 'x'.repeat(5000)).map((text) => ({ stringValue: text })),
      fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n).map((n) => ({ intValue: n.toString() })),
      fc.constantFrom(1e308, 5e-324, 0.1).map((n) => ({ doubleValue: n })),
      fc.constantFrom('NaN', 'Infinity', '-Infinity').map((n) => ({ doubleValue: n })),
      fc.boolean().map((b) => ({ boolValue: b })),
    );
    const key = fc.oneof(
      fc.string({ minLength: 1 }),
      fc.constantFrom('__proto__', 'constructor', '0', 'k'.repeat(3000)),
    );
    let n = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(fc.record({ key, value }), { minLength: 1, maxLength: 8 }), async (attributes) => {
        const trace = (++n).toString(16).padStart(32, 'd');
        const answer = await post(request([{ ...span({ id: 1 }), traceId: trace, attributes }]));
        expect(answer.json()).toEqual({});
        const { rows } = await at.db.query<{ data: unknown }>('select data from troupe.events where key = $1', [
          `e/${trace}`,
        ]);
        const { item } = asSent(rows[0]!.data) as { item: { span: { attributes: unknown } } };
        expect(item.span.attributes).toEqual(attributes);
      }),
      { numRuns: 60 },
    );
    const raw = (value: string) => Buffer.from(JSON.stringify(withValue('V')).replace('"V"', value));
    expect((await post(raw('{"doubleValue":1e400}'))).json()).toMatchObject({
      code: 3,
      message: expect.stringMatching(/^bad_number/),
    });
    expect((await post(raw('{"doubleValue":-0.0}'))).json()).toEqual({});
    const { rows } = await at.db.query('select 1 from troupe.events where data::text like \'%"doubleValue":-0}%\'');
    expect(rows).toHaveLength(1);
    // Beyond 2^53 a number is the decimal text that OTLP also allows.
    expect((await post(raw('{"intValue":9007199254740993}'))).json()).toEqual({});
  });
});
