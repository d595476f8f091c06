/**
 * Records of a topic ↔ events, pure. Written in CloudEvents binary mode: attributes are headers `ce_*`, the value is the data as JSON.
 * Read in binary mode, in structured mode (`application/cloudevents+json`), and as an envelope without headers, whoever wrote it; the value
 * also behind the frame of a schema registry, if it is JSON.
 */
import { createHash } from 'node:crypto';
import { got, type Refusal } from '../../errors.ts';
import { type DecodeResult, decodeEnvelope, decodeText, digestOf, parseEvent, typeNamed } from '../events/decode.ts';
import { type Event, keyOf, typeOf } from '../events/events.ts';
import { canonicalJson, isRecord, parseRecord } from '../events/json.ts';
import { upcast } from '../events/upcast/catalogue.ts';
import { UNREAD, UNREAD_EXPECTED } from './batch-limit.ts';
import { schemaInHeader, unframed } from './registry-frame.ts';

type Header = Uint8Array | string;

/** A record as a client gives it. A header that occurs several times is a list. */
export type LogRecord = {
  readonly offset: number;
  /** Milliseconds, as the topic keeps them. */
  readonly timestamp: string;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: Readonly<Record<string, Header | readonly Header[] | undefined>>;
};

export type WrittenRecord = {
  readonly key: string;
  readonly value: string;
  readonly headers: Readonly<Record<string, string>>;
};

/** Marks name, time and data as validated by Troupe: they need not be checked and escaped again. */
const DIGEST = 'troupe_digest';
const STRUCTURED = 'application/cloudevents+json';

/** The data is canonical JSON already and goes as it is. */
export const writeRecord = (event: Event): WrittenRecord => ({
  key: event.key,
  value: event.json,
  headers: {
    ce_specversion: '1.0',
    ce_id: event.id,
    ce_source: event.source,
    ce_type: typeOf(event.name, event.type_version),
    ...(event.time === null ? {} : { ce_time: event.time }),
    'content-type': 'application/json',
    [DIGEST]: event.digest,
  },
});

/** What the fixed parts of a record take besides its texts: headers' names and lengths, offsets, and room for larger ones. */
const RECORD_OVERHEAD = 200;

/** Bytes that a record takes in a batch, at most. */
export function recordBytes({ key, value, headers }: WrittenRecord): number {
  let bytes = RECORD_OVERHEAD + Buffer.byteLength(key) + Buffer.byteLength(value);
  for (const text of Object.values(headers)) bytes += Buffer.byteLength(text);
  return bytes;
}

/** Reads a record as an event. Never throws, whatever the bytes. */
export function readRecord(record: LogRecord): DecodeResult {
  const unread = record.headers[UNREAD];
  if (unread !== undefined) return refuse('too_large', '', UNREAD_EXPECTED, String(unread));
  if (record.value === null) return refuse('bad_shape', '', 'an event', 'a record without a value');
  const value = textOf(record.value, schemaInHeader(record.headers.__value_schema_id));
  if ('refusal' in value) return value;
  const { text } = value;
  const headers = textHeaders(record.headers);
  if ('refusal' in headers) return headers;
  const { attributes, contentType, digest } = headers;
  if (digest !== undefined) {
    const own = ownEvent(attributes, text, digest);
    if (own) return { event: own };
  }
  if (contentType?.startsWith(STRUCTURED) || (attributes.type === undefined && attributes.specversion === undefined)) {
    return decodeText(text);
  }
  if (contentType !== undefined && !/\bjson\b/.test(contentType))
    return refuse('bad_type', 'content-type', 'application/json', contentType);
  const parsed = parseEvent(text);
  if ('refusal' in parsed) return parsed;
  return decodeEnvelope({ ...attributes, data: parsed.value });
}

/**
 * What a dead letter keeps: the value as it is; of a record in binary mode whose value is JSON, the envelope in structured form, since
 * the value alone would not identify it.
 */
export function rawOf(record: LogRecord): Uint8Array {
  const value = record.value ?? new Uint8Array();
  const read = textOf(value);
  const headers = textHeaders(record.headers);
  if ('refusal' in read || 'refusal' in headers || Object.keys(headers.attributes).length === 0) return value;
  if ('refusal' in parseRecord(read.text)) return value;
  const { attributes, digest } = headers;
  const head = JSON.stringify(digest === undefined ? attributes : { ...attributes, [DIGEST]: digest });
  return Buffer.from(`${head.slice(0, -1)},"data":${read.text}}`);
}

/** Reads again what {@link rawOf} kept. Never throws. */
export function readKept(raw: Uint8Array): DecodeResult {
  const read = textOf(raw);
  if ('refusal' in read) return read;
  const parsed = parseRecord(read.text);
  if ('refusal' in parsed || !isRecord(parsed.value) || typeof parsed.value[DIGEST] !== 'string')
    return decodeText(read.text);
  const { [DIGEST]: digest, data, ...attributes } = parsed.value;
  const own = ownEvent(attributes as Record<string, string>, canonicalJson(data), digest as string);
  return own ? { event: own } : decodeEnvelope({ ...attributes, data });
}

/** SHA-256 (hex) over all that makes this record this one: its time, key, headers and value. */
export function recordDigest({ timestamp, key, value, headers }: LogRecord): string {
  const hash = createHash('sha256');
  const add = (part: Header | null): void => {
    hash.update(part === null ? '-' : `${Buffer.byteLength(part)}:`);
    if (part !== null) hash.update(part);
  };
  add(timestamp);
  add(key);
  add(value);
  for (const name of Object.keys(headers).sort()) {
    add(name);
    for (const one of [headers[name] ?? []].flat() as Header[]) add(one);
  }
  return hash.digest('hex');
}

function textHeaders(headers: LogRecord['headers']) {
  const attributes: Record<string, string> = Object.create(null);
  let contentType: string | undefined;
  let digest: string | undefined;
  for (const [name, value] of Object.entries(headers)) {
    const known = name.startsWith('ce_') || name === 'content-type' || name === DIGEST;
    if (!known || value === undefined) continue;
    const text = Array.isArray(value) ? null : utf8(value as Header);
    if (text === null) return refuse('bad_shape', name, 'one header of UTF-8 text', `${got(value)}`);
    if (name === 'content-type') contentType = text.trim().toLowerCase();
    else if (name === DIGEST) digest = text;
    else attributes[name.slice(3)] = text;
  }
  return { attributes, contentType, digest };
}

/** The event that Troupe validated, if the digest is the one of these bytes. Forged bytes that are no object are not. */
function ownEvent(attributes: Readonly<Record<string, string>>, json: string, digest: string): Event | null {
  const { id, source, type, time = null } = attributes;
  const known = typeNamed(type);
  if (known === null || !id || !source || digestOf({ ...known, time }, json) !== digest) return null;
  try {
    const data: unknown = JSON.parse(json);
    if (!isRecord(data)) return null;
    const key = keyOf(known.name, upcast(known.name, known.type_version, data) as Record<string, unknown>);
    return { ...known, source, id, time, key, data, json, digest } as Event;
  } catch {
    return null;
  }
}

/** The text of a value, without the frame of a schema registry and a byte order mark. Avro and Protobuf cannot be read without the schema. */
function textOf(
  value: Uint8Array,
  named: string | null = null,
): { readonly text: string } | { readonly refusal: Refusal } {
  const { schema = named, payload } = named === null ? unframed(value) : { payload: value };
  const text = utf8(payload)?.replace(/^\uFEFF/, '') ?? null;
  if (schema !== null && !text?.trimStart().startsWith('{'))
    return refuse(
      'bad_type',
      'value',
      'JSON; with a schema registry a serializer of JSON Schema',
      `schema ${schema} of a registry, in Avro or Protobuf`,
    );
  return text === null ? refuse('bad_json', '', 'UTF-8', 'other bytes') : { text };
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function utf8(bytes: Header): string | null {
  if (typeof bytes === 'string') return bytes;
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}

const refuse = (
  code: Refusal['code'],
  field: string,
  expected: string,
  came: string,
): { readonly refusal: Refusal } => ({ refusal: { code, field, expected, got: came } });
