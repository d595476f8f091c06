import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MAX_ATTRIBUTES, toAttributes, toValue, valueIn } from '../../ingest/traces/otlp/any-value.ts';
import { decodeOtlp, parseOtlpJson } from '../../ingest/traces/otlp/decode.ts';
import { normal } from '../../ingest/traces/otlp/normal.ts';
import { protobufToJson, sniffProtobuf } from '../../ingest/traces/otlp/protobuf.ts';
import { expectBelow } from '../support/measured.ts';
import { aTrace, logRequest, request, type SpanJson, span, TRACE } from './support/spans.ts';

const decodeOne = (more: Record<string, unknown>) => decodeOtlp(request([{ ...span({ id: 1 }), ...more }]));
const refusalOf = (more: Record<string, unknown>) =>
  decodeOne(more).refusals.map(({ field }) => field.replace(/^.*spans\[0\]\.?/, ''));

describe('OTLP in JSON', () => {
  it('takes ids in hex of any case, times as text or numbers, and what a root says of its parent', () => {
    const { spans, refusals } = decodeOne({
      traceId: TRACE.toUpperCase(),
      parentSpanId: '',
      startTimeUnixNano: 1000000000,
      endTimeUnixNano: '1789000000123456789',
      flags: 257,
      unheardOf: { a: 1 },
    });
    expect(refusals).toEqual([]);
    expect(spans[0]).toMatchObject({
      traceId: TRACE,
      parentId: null,
      start: '1970-01-01T00:00:01.000000000Z',
      end: '2026-09-10T00:26:40.123456789Z',
    });
    expect(decodeOne({ parentSpanId: '0000000000000000' }).spans[0]?.parentId).toBeNull();
    expect(decodeOne({ startTimeUnixNano: '0' }).spans[0]?.start).toBeNull();
  });

  it.each([
    ['base64 for an id', { traceId: 'obLD1OX2BxgpOktcbX6PkA==' }, 'traceId'],
    ['an id of zeros', { spanId: '0000000000000000' }, 'spanId'],
    ['no id', { spanId: undefined }, 'spanId'],
    ['a parent that is no id', { parentSpanId: 'zz' }, 'parentSpanId'],
    ['a name for an enumeration', { kind: 'SPAN_KIND_CLIENT' }, 'kind'],
    ['a name for a status', { status: { code: 'STATUS_CODE_ERROR' } }, 'status.code'],
    ['a time that is no number', { endTimeUnixNano: 'soon' }, 'endTimeUnixNano'],
    ['a negative time', { endTimeUnixNano: '-1' }, 'endTimeUnixNano'],
    ['a time beyond the year 9999', { endTimeUnixNano: '999999999999999999999' }, 'endTimeUnixNano'],
    [
      'a text that is none',
      { attributes: [{ key: 'a', value: { stringValue: 1 } }] },
      'attributes[0].value.stringValue',
    ],
    [
      'an integer that is none',
      { attributes: [{ key: 'a', value: { intValue: '1.5' } }] },
      'attributes[0].value.intValue',
    ],
    ['an attribute without a key', { attributes: [{ value: {} }] }, 'attributes[0]'],
  ])('refuses a span alone for %s', (_, more, field) => {
    expect(refusalOf(more)).toEqual([field]);
    const beside = decodeOtlp(request([{ ...span({ id: 1 }), ...more }, span({ id: 2 })]));
    expect(beside.spans).toHaveLength(1);
    expect(beside.refusals[0]?.raw).toBe(JSON.stringify({ ...span({ id: 1 }), ...more }));
  });

  it('takes as many attributes and levels of lists as are allowed and no more (P44)', () => {
    const many = (n: number) => ({
      attributes: Array.from({ length: n }, (_, i) => ({ key: `k${i}`, value: { intValue: i } })),
    });
    expect(refusalOf(many(MAX_ATTRIBUTES))).toEqual([]);
    expect(refusalOf(many(MAX_ATTRIBUTES + 1))).toEqual(['attributes']);
    const deep = (n: number): unknown => (n === 0 ? { intValue: 1 } : { arrayValue: { values: [deep(n - 1)] } });
    expect(refusalOf({ attributes: [{ key: 'a', value: deep(20) }] })).toEqual([]);
    expect(decodeOne({ attributes: [{ key: 'a', value: deep(60) }] }).refusals).toHaveLength(1);
  });

  it('keeps integers that a double cannot hold as text, and what is no number as its name', () => {
    expect(valueIn({ intValue: '9007199254740993' }, '')).toBe('9007199254740993');
    expect(valueIn({ intValue: 7 }, '')).toBe(7);
    expect(valueIn({ doubleValue: 'NaN' }, '')).toBe('NaN');
    expect(valueIn({ kvlistValue: { values: [{ key: '__proto__', value: { boolValue: true } }] } }, '')).toEqual(
      JSON.parse('{"__proto__":true}'),
    );
  });

  it('reads times beyond 2^53 that are written as numbers, digit for digit', () => {
    const written = JSON.stringify(request([span({ id: 1, name: 'at "1789000000123456789"' })])).replace(
      /"endTimeUnixNano":"\d+"/,
      '"endTimeUnixNano":1789000000123456789',
    );
    const parsed = parseOtlpJson(written);
    expect('value' in parsed && decodeOtlp(parsed.value).spans[0]).toMatchObject({
      name: 'at "1789000000123456789"',
      end: '2026-09-10T00:26:40.123456789Z',
    });
  });

  it('leaves a number with a point or an exponent as it is, in time in proportion to its digits', () => {
    const long = '{"a":1789000000123456789,"b":0.1234567890123456,"c":';
    expect(parseOtlpJson(`${long}-1.1234567890123456e-3}`)).toEqual({
      value: { a: '1789000000123456789', b: 0.1234567890123456, c: -1.1234567890123456e-3 },
    });
    const began = performance.now();
    expect(parseOtlpJson(`${long}0.${'0'.repeat(1_000_000)}e1}`)).toMatchObject({ value: { c: 0 } });
    expectBelow(performance.now() - began, 5000);
  });

  it('never throws, whatever it is given (P42)', () => {
    const odd = fc.jsonValue({ maxDepth: 3 });
    const broken = fc
      .tuple(fc.constantFrom(...Object.keys(aTrace()[4] as SpanJson)), odd)
      .map(([key, value]) => request([{ ...aTrace()[4], [key]: value }]));
    fc.assert(
      fc.property(
        fc.oneof(
          odd,
          broken,
          odd.map((value) => ({ resourceSpans: value })),
        ),
        (value) => {
          expect(() => decodeOtlp(value)).not.toThrow();
        },
      ),
      { numRuns: 200 },
    );
  });

  it('gives an attribute back as it was', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 3 }), (value) => {
        // The value as JSON can say it: JSON.stringify writes -0 as 0.
        const written = JSON.parse(JSON.stringify(value));
        expect(valueIn(JSON.parse(JSON.stringify(toValue(value))), '')).toEqual(written);
      }),
      { numRuns: 100 },
    );
  });
});

/** Writes protobuf by hand, to have bytes that the reader's own tables did not make. */
const varint = (value: bigint): number[] =>
  value < 128n ? [Number(value)] : [Number(value & 127n) | 128, ...varint(value >> 7n)];
const tag = (field: number, wire: number): number[] => varint(BigInt(field * 8 + wire));
const bytes = (field: number, body: readonly number[]): number[] => [
  ...tag(field, 2),
  ...varint(BigInt(body.length)),
  ...body,
];
const utf8 = (field: number, text: string): number[] => bytes(field, [...Buffer.from(text)]);
const hex = (field: number, id: string): number[] => bytes(field, [...Buffer.from(id, 'hex')]);
const fixed64 = (field: number, value: bigint): number[] => {
  const buffer = Buffer.alloc(8);
  buffer.writeBigUInt64LE(value);
  return [...tag(field, 1), ...buffer];
};
const attribute = (key: string, value: readonly number[]): number[] => bytes(9, [...utf8(1, key), ...bytes(2, value)]);
const asProtobuf = (made: SpanJson, extra: readonly number[] = []): number[] =>
  bytes(2, [
    ...hex(1, made.traceId),
    ...hex(2, made.spanId),
    ...utf8(5, made.name),
    ...tag(6, 0),
    ...varint(BigInt(made.kind)),
    ...fixed64(7, BigInt(made.startTimeUnixNano)),
    ...fixed64(8, BigInt(made.endTimeUnixNano)),
    ...extra,
  ]);
const inRequest = (...spans: readonly number[][]): Uint8Array =>
  Uint8Array.from(bytes(1, [...bytes(1, []), ...bytes(2, [...bytes(1, utf8(1, 'made-up')), ...spans.flat()])]));

describe('OTLP in protobuf', () => {
  it('is the request in JSON, and its span the same span', () => {
    const made = span({ id: 1, name: 'naïve ☃', attributes: { s: 'x', n: -5, big: 2 ** 40, d: 0.5, yes: true } });
    const negative = [...tag(3, 0), ...varint(BigInt.asUintN(64, -5n))];
    const half = Buffer.alloc(8);
    half.writeDoubleLE(0.5);
    const written = inRequest(
      asProtobuf(made, [
        ...attribute('s', utf8(1, 'x')),
        ...attribute('n', negative),
        ...attribute('big', [...tag(3, 0), ...varint(1n << 40n)]),
        ...attribute('d', [...tag(4, 1), ...half]),
        ...attribute('yes', [...tag(2, 0), 1]),
        // A field that this version does not know.
        ...utf8(99, 'later'),
      ]),
    );
    const read = protobufToJson(written, 'traces');
    const [ours] = decodeOtlp('value' in read ? read.value : null).spans;
    const [theirs] = decodeOtlp(request([made], {})).spans;
    expect(ours).toEqual(theirs);
    expect(sniffProtobuf(written)).not.toBeNull();
  });

  it('refuses a span alone that cannot be read, and a request that is cut as a whole', () => {
    const good = asProtobuf(span({ id: 1 }));
    const broken = bytes(2, [...hex(1, TRACE), ...tag(5, 0), 1]);
    const read = protobufToJson(inRequest(broken, good), 'traces');
    const { spans, refusals } = decodeOtlp('value' in read ? read.value : null);
    expect([spans.length, refusals.length]).toEqual([1, 1]);
    const whole = inRequest(good);
    expect(protobufToJson(whole.subarray(0, whole.length - 3), 'traces')).toMatchObject({
      refusal: { code: 'bad_shape' },
    });
  });

  it('is not seen in JSON that begins with a line break, nor in other bytes', () => {
    expect(sniffProtobuf(Buffer.from(`\n${JSON.stringify(request(aTrace()))}`))).toBeNull();
    expect(sniffProtobuf(Uint8Array.of(0x0a, 0xff, 0xff, 0xff))).toBeNull();
  });

  it('never throws, whatever the bytes (P42)', () => {
    const good = inRequest(asProtobuf(span({ id: 1 })));
    const changed = fc.tuple(fc.nat(good.length - 1), fc.nat(255)).map(([at, byte]) => {
      const copy = Uint8Array.from(good);
      copy[at] = byte;
      return copy;
    });
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 80 }), changed), (written) => {
        const read = protobufToJson(written, 'traces');
        if ('value' in read) decodeOtlp(read.value);
        sniffProtobuf(written);
      }),
      { numRuns: 500 },
    );
  });
});

describe('Traces of one run', () => {
  const traceOf = (attributes: Record<string, unknown>, resource: Record<string, unknown> = {}) =>
    decodeOtlp(request([span({ id: 1, attributes })], resource)).spans[0]!.traceId;

  it('are the episode that the span names, else the attribute its resource says, else the resource, else the trace', () => {
    const all = { 'troupe.episode_by': 'session.id', 'troupe.episode_id': 'program' };
    expect(traceOf({ 'troupe.episode_id': 'run-1', 'session.id': 's' }, all)).toBe('run-1');
    expect(traceOf({ 'session.id': 's' }, all)).toBe('s');
    expect(traceOf({}, all)).toBe('program');
    expect(traceOf({ 'session.id': 's' })).toBe(TRACE);
    expect(traceOf({ 'session.id': 5 }, { 'troupe.episode_by': 'session.id' })).toBe(TRACE);
    expect(traceOf({ 'troupe.episode_id': '' })).toBe(TRACE);
  });

  it('are that episode in their logs too', () => {
    const log = { traceId: TRACE, attributes: toAttributes({ 'troupe.episode_id': 'run-1' }) };
    expect(decodeOtlp(logRequest([log])).logs[0]!.traceId).toBe('run-1');
  });
});

describe('the normal form of a span', () => {
  it('is one for all ways to write it', () => {
    const made = span({ id: 1, parent: null, attributes: { n: 3 } });
    const other = {
      ...made,
      traceId: made.traceId.toUpperCase(),
      parentSpanId: '',
      droppedAttributesCount: 0,
      events: [],
      links: [],
      status: { code: 0 },
      attributes: [{ key: 'n', value: { intValue: 3 } }],
    };
    expect(normal(other)).toEqual(normal(made));
    expect(normal(span({ id: 1, attributes: { a: '' } }))).not.toEqual(normal(span({ id: 1 })));
  });

  it('keeps logs apart from spans', () => {
    const { logs, spans } = decodeOtlp(
      logRequest([{ timeUnixNano: '5', body: { stringValue: 'x' }, attributes: toAttributes({ 'event.name': 'e' }) }]),
    );
    expect(spans).toEqual([]);
    expect(logs).toMatchObject([{ name: 'e', body: 'x', traceId: null }]);
  });
});
