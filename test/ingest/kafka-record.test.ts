/** Records of a topic: whoever wrote them, they are read as events, or refused with a reason. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeEnvelope } from '../../ingest/events/decode.ts';
import type { Event } from '../../ingest/events/events.ts';
import {
  type LogRecord,
  rawOf,
  readKept,
  readRecord,
  recordBytes,
  recordDigest,
  writeRecord,
} from '../../ingest/log/kafka-record.ts';
import { anEpisode, event } from '../store/support/events.ts';
import '../support/replay.ts';

const record = (parts: Partial<Record<keyof LogRecord, unknown>>): LogRecord =>
  ({ offset: 0, timestamp: '1', key: null, value: null, headers: {}, ...parts }) as LogRecord;

/** What a broker gives back of what was written. */
const asRead = (written: Event): LogRecord => {
  const { key, value, headers } = writeRecord(written);
  return record({
    key: Buffer.from(key),
    value: Buffer.from(value),
    headers: Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, Buffer.from(text)])),
  });
};

const ENVELOPE = {
  specversion: '1.0',
  id: 'i',
  source: '/s',
  type: 'troupe.task.defined.v1',
  data: { task_id: 't', query: 'why?' },
};
const HEADERS = { ce_specversion: '1.0', ce_id: 'i', ce_source: '/s', ce_type: 'troupe.task.defined.v1' };
const DATA = Buffer.from('{ "task_id": "t", "query": "why?" }');

describe('A record', () => {
  it('gives back the event that was written, byte for byte, escaped text and foreign attributes included', () => {
    const strange = event('message.sent', { episode_id: 'e', message_id: 'm', content: 'a\u0000b\uFFFE \ud800' });
    const extended = decodeEnvelope({ ...ENVELOPE, traceparent: '00-1' }).event!;
    for (const one of [...anEpisode('e1'), strange, extended]) expect(readRecord(asRead(one))).toEqual({ event: one });
  });

  it('is read in binary mode, in structured mode and as a bare envelope, as the same event', () => {
    const wanted = decodeEnvelope(ENVELOPE);
    const structured = Buffer.from(JSON.stringify(ENVELOPE));
    const type = { 'content-type': Buffer.from('application/cloudevents+json; charset=UTF-8') };
    expect(wanted.event).toBeDefined();
    expect(readRecord(record({ value: DATA, headers: HEADERS }))).toEqual(wanted);
    expect(readRecord(record({ value: structured, headers: type }))).toEqual(wanted);
    expect(readRecord(record({ value: structured, key: Buffer.from([255]) }))).toEqual(wanted);
  });

  it('is read behind a byte order mark, as the same event, also after it waited as a dead letter', () => {
    const wanted = decodeEnvelope(ENVELOPE);
    const marked = (text: string) => Buffer.from(`\uFEFF${text}`);
    const framed = Buffer.concat([Buffer.from([0, 0, 0, 1, 44]), marked(JSON.stringify(ENVELOPE))]);
    const bare = record({ value: marked(JSON.stringify(ENVELOPE)) });
    const binary = record({ value: marked('{"task_id":"t","query":"why?"}'), headers: HEADERS });
    for (const one of [bare, binary, record({ value: framed })]) {
      expect(readRecord(one)).toEqual(wanted);
      expect(readKept(rawOf(one))).toEqual(wanted);
    }
  });

  it('is read behind the 5 bytes of a schema registry, as the same event, also after it waited as a dead letter', () => {
    const framed = (text: string) => Buffer.concat([Buffer.from([0, 0, 0, 1, 44]), Buffer.from(text)]);
    const wanted = decodeEnvelope(ENVELOPE);
    const bare = record({ value: framed(JSON.stringify(ENVELOPE)) });
    const binary = record({ value: framed('{"task_id":"t","query":"why?"}'), headers: HEADERS });
    for (const one of [bare, binary]) {
      expect(readRecord(one)).toEqual(wanted);
      expect(readKept(rawOf(one))).toEqual(wanted);
    }
  });

  it.each([
    // The values that confluent-kafka-python 2.16.0 writes of a record, or a StringValue, with the text "why".
    ['Avro', 2, [0, 0, 0, 0, 2, 6, 0x77, 0x68, 0x79]],
    ['Protobuf', 3, [0, 0, 0, 0, 3, 2, 14, 10, 3, 0x77, 0x68, 0x79]],
    ['nothing', 300, [0, 0, 0, 1, 44]],
  ])('with %s behind these 5 bytes is refused by the number of its schema, and kept as it came', (_, schema, bytes) => {
    const one = record({ value: Buffer.from(bytes), headers: HEADERS });
    expect(readRecord(one).refusal).toMatchObject({
      code: 'bad_type',
      got: `schema ${schema} of a registry, in Avro or Protobuf`,
    });
    expect(rawOf(one)).toEqual(Buffer.from(bytes));
    expect(readKept(rawOf(one)).refusal?.code).toBe('bad_type');
  });

  it('whose schema a header names is read if it is JSON, else refused by that name', () => {
    // As confluent-kafka-python 2.16.1 writes it with a serializer that leaves the value alone.
    const id = '89791762-2336-4186-9674-299b90a802e2';
    const named = { ...HEADERS, __value_schema_id: Buffer.from(`01${id.replaceAll('-', '')}`, 'hex') };
    expect(readRecord(record({ value: DATA, headers: named }))).toEqual(decodeEnvelope(ENVELOPE));
    const avro = record({ value: Buffer.from([6, 0x77, 0x68, 0x79]), headers: named });
    expect(readRecord(avro).refusal).toMatchObject({
      code: 'bad_type',
      got: `schema ${id} of a registry, in Avro or Protobuf`,
    });
    expect(rawOf(avro)).toEqual(avro.value);
    // A Struct in Protobuf begins with a line feed, and the header ends with the place of its type.
    const struct = Buffer.from('0a1c0a0a657069736f64655f6964120e1a0c', 'hex');
    const placed = { ...HEADERS, __value_schema_id: Buffer.concat([named.__value_schema_id, Buffer.from([0])]) };
    for (const headers of [named, placed])
      expect(readRecord(record({ value: struct, headers })).refusal).toEqual(readRecord(avro).refusal);
  });

  it('with a digest that is not its own is checked like any other', () => {
    const forged = { ...HEADERS, troupe_digest: 'f'.repeat(64) };
    expect(readRecord(record({ value: DATA, headers: forged }))).toEqual(decodeEnvelope(ENVELOPE));
    expect(readRecord(record({ value: Buffer.from('{"query":1}'), headers: forged })).refusal).toBeDefined();
  });

  it.each([
    ['no value', {}, 'bad_shape', 'a record without a value'],
    ['an empty value', { value: Buffer.alloc(0) }, 'bad_json', ''],
    ['bytes that are no text', { value: Buffer.from([0xff, 0xfe]) }, 'bad_json', 'other bytes'],
    ['a value that is no JSON', { value: Buffer.from('hi'), headers: HEADERS }, 'bad_json', ''],
    ['a number', { value: Buffer.from('1e400') }, 'bad_number', ''],
    ['an unknown type', { value: DATA, headers: { ...HEADERS, ce_type: 'x.y' } }, 'unknown_event', ''],
    ['another version', { value: DATA, headers: { ...HEADERS, ce_specversion: '0.3' } }, 'bad_type', ''],
    ['no id', { value: DATA, headers: { ...HEADERS, ce_id: undefined } }, 'bad_identifier', ''],
    ['an id twice', { value: DATA, headers: { ...HEADERS, ce_id: ['a', 'b'] } }, 'bad_shape', ''],
    ['a header that is no text', { value: DATA, headers: { ...HEADERS, ce_id: Buffer.from([0xff]) } }, 'bad_shape', ''],
    ['another content type', { value: DATA, headers: { ...HEADERS, 'content-type': 'text/xml' } }, 'bad_type', ''],
  ])('with %s is refused with its reason', (_, parts, code, got) => {
    const { refusal } = readRecord(record(parts));
    expect(refusal?.code).toBe(code);
    expect(refusal?.got).toContain(got);
  });

  it('P42: of any bytes, under any headers, is read or refused', () => {
    const bytes = fc.option(fc.uint8Array({ maxLength: 60 }));
    const text = fc.oneof(fc.string(), fc.constantFrom(...Object.values(HEADERS), 'application/cloudevents+json'));
    const value = fc.oneof(bytes, fc.json().map(Buffer.from), fc.constant(DATA));
    const names = fc.constantFrom(
      ...Object.keys(HEADERS),
      'content-type',
      'troupe_digest',
      'ce_time',
      '__proto__',
      'x',
    );
    const headers = fc.dictionary(names, fc.oneof(text, text.map(Buffer.from), fc.uint8Array(), fc.array(text)));
    fc.assert(
      fc.property(bytes, value, headers, (key, body, given) => {
        const one = record({ key, value: body, headers: given });
        const { event: read, refusal } = readRecord(one);
        expect(read === undefined).toBe(refusal !== undefined);
        expect(rawOf(one)).toBeInstanceOf(Uint8Array);
        expect(recordDigest(one)).toMatch(/^[0-9a-f]{64}$/);
      }),
      { numRuns: 500 },
    );
  });

  it('in binary mode becomes a dead letter with an envelope that can be sent again, any other as its bytes', () => {
    const envelope = Buffer.from(rawOf(record({ value: DATA, headers: { ...HEADERS, ce_subject: 'x' } }))).toString();
    expect(JSON.parse(envelope)).toEqual({ ...ENVELOPE, subject: 'x' });
    expect(rawOf(record({ value: Buffer.from('hi'), headers: HEADERS }))).toEqual(Buffer.from('hi'));
    expect(rawOf(record({}))).toHaveLength(0);
  });

  it('has another digest when any part of it is another', () => {
    const parts = [
      {},
      { timestamp: '2' },
      { key: Buffer.alloc(0) },
      { key: Buffer.from('a') },
      { value: Buffer.from('a') },
      { headers: { a: 'b' } },
      { headers: { a: ['b', 'c'] } },
      { headers: { ab: '' } },
    ];
    expect(new Set(parts.map((one) => recordDigest(record(one)))).size).toBe(parts.length);
  });

  it('is never estimated smaller than it is', () => {
    const long = event('message.sent', { episode_id: 'é'.repeat(200), message_id: 'm', content: '€'.repeat(1000) });
    const { key, value, headers } = writeRecord(long);
    const bytes = [key, value, ...Object.entries(headers).flat()].reduce((sum, one) => sum + Buffer.byteLength(one), 0);
    // Each text has its length beside it, and the record its length, attributes, times and counts.
    expect(recordBytes(writeRecord(long))).toBeGreaterThan(bytes + 3 * (2 + 2 * Object.keys(headers).length) + 20);
  });
});
