/**
 * Validates events: a JSON value becomes a valid `Event`, or a refusal with its reason. Nothing is altered silently; the one
 * change that is made (the reversible escape of text that PostgreSQL cannot hold) is flagged in the event.
 */
import { Compile } from 'typebox/compile';
import { got, type Refusal } from '../../errors.ts';
import { CANONICAL, type Draft, type Event, type EventName, keyOf, typeOf } from './events.ts';
import { asText, canonicalJson, isRecord, MAX_DATA_DEPTH, notJson } from './json.ts';
import { sha256Around, textOf, type WrittenJson, withJson, writtenAs, writtenOf } from './long-context.ts';
import { parseBody } from './parse-body.ts';
import { holdsSecret } from './redact-rules.ts';
import { keepSpelling } from './spelling.ts';
import { asTaught } from './taught.ts';
import { ESCAPED_FLAG, escapeText, mapStrings, needsEscape, unescapeText } from './text.ts';
import { EVENT_NAMES, newestVersion, schemaOf, upcast } from './upcast/catalogue.ts';

export type DecodeResult =
  | { readonly event: Event; readonly refusal?: never }
  | { readonly refusal: Refusal; readonly event?: never };

/** An event type: which, and in which version. */
export type EventType = { readonly name: EventName; readonly type_version: number };

const types = new Map<string, EventType>(
  EVENT_NAMES.flatMap((name) =>
    Array.from(
      { length: newestVersion(name) },
      (_, i) => [typeOf(name, i + 1), { name, type_version: i + 1 }] as const,
    ),
  ),
);
type Check = ReturnType<typeof Compile>;
type Checker = { readonly check: Check; readonly names: Walk | null };
const checkers = new Map<string, Checker>();

function checkerOf(name: EventName, version: number): Checker {
  const type = typeOf(name, version);
  let checker = checkers.get(type);
  if (!checker) {
    const schema = schemaOf(name, version);
    checker = { check: Compile(schema) as unknown as Check, names: namesIn(schema as unknown as Schema) };
    checkers.set(type, checker);
  }
  return checker;
}

/** The event type that a CloudEvents type means, null for one that this code does not know. */
export const typeNamed = (type: unknown): EventType | null => types.get(type as string) ?? null;

/** A version after those that this code knows is what newer code writes: `unknown_version`, which waits for that code. */
function unknownType(type: string): DecodeResult {
  const name = /^troupe\.(.+)\.v[1-9]\d*$/.exec(type)?.[1] as EventName | undefined;
  if (name === undefined || !EVENT_NAMES.includes(name))
    return refuse(
      'unknown_event',
      'type',
      `one of the ${EVENT_NAMES.length} event types of docs/events.md, such as troupe.episode.started.v1`,
      type,
    );
  const newest = typeOf(name, newestVersion(name));
  return refuse('unknown_version', 'type', `${newest} at most; a newer Troupe may know it`, type);
}

/** The JSON of an event or its data, of which only arguments of tool calls keep their spelling. Never throws. */
export function parseEvent(text: string): ReturnType<typeof parseBody> {
  const parsed = parseBody(text);
  if ('value' in parsed && text.includes('"arguments"')) keepSpelling(parsed.value, text);
  return parsed;
}

/** Reads one JSON text as an event. Never throws. */
export function decodeText(text: string): DecodeResult {
  const parsed = parseEvent(text);
  return 'refusal' in parsed ? parsed : decodeEnvelope(parsed.value);
}

/** Reads one CloudEvents envelope in structured JSON form. Never throws. */
export function decodeEnvelope(value: unknown): DecodeResult {
  if (!isRecord(value)) return refuse('bad_shape', '', 'an event object', value);
  const version = value.specversion;
  if (version !== undefined && version !== '1.0') return refuse('bad_type', 'specversion', '"1.0"', version);
  const type = value.type;
  if (typeof type !== 'string') return refuse('bad_type', 'type', 'an event type such as troupe.task.defined.v1', type);
  const known = types.get(type);
  if (!known) return unknownType(type);
  if (isRecord(value.data) && Object.hasOwn(value.data, EXTENSIONS))
    return refuse('bad_shape', `data.${EXTENSIONS}`, 'attributes in the envelope itself', value.data[EXTENSIONS]);
  return decodeDraft({
    ...known,
    source: value.source as string,
    id: value.id as string,
    time: (value.time ?? null) as string | null,
    data: withExtensions(value) as never,
  } as Draft);
}

/** Checks a draft field by field and gives it its key and digest. Never throws. */
export function decodeDraft(draft: Draft): DecodeResult {
  const { event, refusal } = checkDraft(draft);
  if (refusal) return { refusal };
  const json = writtenAs(event);
  // It was made for this call, and a copy would take as long as a tenth of what is checked.
  return { event: Object.assign(event, { digest: digestOf(event, json) }) as Event };
}

type CheckResult =
  | { readonly event: Omit<Event, 'digest'>; readonly refusal?: never }
  | { readonly refusal: Refusal; readonly event?: never };

/** The same for what never enters the log: nothing there has to separate duplicates from conflicts, and the digest is most of the work. */
export function checkDraft(draft: Draft): CheckResult {
  for (const field of ['id', 'source'] as const) {
    const problem = badIdentifier(draft[field]);
    if (problem) return refuse('bad_identifier', field, problem, draft[field]);
  }
  const time = draft.time === null ? null : normaliseTime(draft.time);
  if (time === undefined)
    return refuse('bad_time', 'time', 'an RFC 3339 time such as 2026-09-10T10:00:00Z, or null', draft.time);

  const strange = notJson(draft.data, 'data', MAX_DATA_DEPTH);
  if (strange) return { refusal: strange };
  const given = asTaught(draft.name, draft.data);
  const type_version = draft.type_version ?? newestVersion(draft.name);
  const { check, names } = checkerOf(draft.name, type_version);
  if (!check.Check(given)) return { refusal: firstProblem(check, given) };

  let data = given as Record<string, unknown>;
  const badName = names?.(data, 'data') ?? null;
  if (badName) return { refusal: badName };
  const canonical = draft[CANONICAL];
  let json: WrittenJson = canonical?.of === data ? canonical.json : writtenOf(data);
  if (mightHoldEscapes(data, json)) {
    const badKey = findBadKey(data, 'data');
    if (badKey) return refuse('bad_identifier', badKey, STORABLE, 'a key with one of them');
    const escaped = mapStrings(data, escapeText) as Record<string, unknown>;
    if (canonicalJson(escaped) !== textOf(json)) {
      const flags = Array.isArray(data.flags) ? (escaped.flags as string[]) : [];
      data = { ...escaped, flags: [...flags, ESCAPED_FLAG] };
      json = canonicalJson(data);
    }
  }
  const newest = upcast(draft.name, type_version, data) as Record<string, unknown>;
  const problem = inconsistency(draft.name, newest);
  if (problem) return { refusal: problem };
  const key = keyOf(draft.name, newest);
  const badKey = badIdentifier(key);
  if (badKey) return refuse('bad_identifier', 'data', badKey, key);
  if (holdsSecret(`${draft.source}\n${draft.id}\n${key}`))
    return refuse('bad_identifier', 'id', 'ids that hold no secret', 'an id with the shape of one');
  const { name, source, id } = draft;
  return { event: withJson({ name, type_version, source, id, time, key, data }, json) as Event };
}

/** Distinguishes a repeated event from a conflicting one; `json` is its canonical data. */
export const digestOf = (
  { name, type_version, time }: EventType & { readonly time: string | null },
  json: WrittenJson,
): string => sha256Around(`${name}${type_version === 1 ? '' : `.v${type_version}`}\n${time ?? ''}\n`, json);

/** An event as the CloudEvents envelope that `decodeEnvelope` reads, text given back as it was sent. */
export function encodeEnvelope(
  event: Pick<Event, 'name' | 'source' | 'id' | 'time'> & { readonly type_version?: number; readonly data: unknown },
): object {
  const { [EXTENSIONS]: extensions, ...data } = asSent(event.data);
  return {
    ...(isRecord(extensions) ? extensions : {}),
    specversion: '1.0',
    id: event.id,
    source: event.source,
    type: typeOf(event.name, event.type_version ?? newestVersion(event.name)),
    ...(event.time === null ? {} : { time: event.time }),
    datacontenttype: 'application/json',
    data,
  };
}

/** Data of a stored event with its text as it was sent, without the flag of the escape. */
export function asSent(stored: unknown): Record<string, unknown> {
  const data = stored as Record<string, unknown>;
  const { flags } = data;
  // The flag alone proves nothing: a producer may have sent it. Where something was escaped, `decode` put it last.
  if (!Array.isArray(flags) || flags.at(-1) !== ESCAPED_FLAG || !canonicalJson(data).includes('\uFFFE')) return data;
  const { flags: _, ...rest } = mapStrings(data, unescapeText) as Record<string, unknown>;
  return flags.length > 1 ? { ...rest, flags: flags.slice(0, -1).map((flag) => unescapeText(asText(flag))) } : rest;
}

/** Member of the data that keeps the attributes of an envelope that Troupe has no place for (`subject`, `traceparent` …). */
export const EXTENSIONS = 'cloudevents_attributes';
const ENVELOPE: ReadonlySet<string> = new Set([
  'specversion',
  'id',
  'source',
  'type',
  'time',
  'datacontenttype',
  'data',
]);

function withExtensions(value: Record<string, unknown>): unknown {
  const data = value.data ?? {};
  const extra = Object.entries(value).filter(([name]) => !ENVELOPE.has(name));
  return extra.length === 0 || !isRecord(data) ? data : { ...data, [EXTENSIONS]: Object.fromEntries(extra) };
}

/** JSON.stringify writes U+0000 and lone surrogates as \u escapes; a backslash before them is a rare false alarm. */
const MIGHT_NEED_ESCAPE = /\\u(?:0000|d[89a-f])|\uFFFE/;
const mightNeedEscape = (json: string): boolean =>
  (json.includes('\\u') || json.includes('\uFFFE')) && MIGHT_NEED_ESCAPE.test(json);

/** The same for an event: of messages that never change it is asked once, since each call of a conversation repeats them. */
function mightHoldEscapes(data: Record<string, unknown>, json: WrittenJson): boolean {
  if (typeof json === 'string') return mightNeedEscape(json);
  return mightNeedEscape(json.before + json.after) || (data.input as object[]).some(messageMightNeedEscape);
}

function messageMightNeedEscape(message: object): boolean {
  const known = LOOKED_AT.get(message);
  if (known !== undefined) return known;
  const might = mightNeedEscape(canonicalJson(message));
  LOOKED_AT.set(message, might);
  return might;
}
const LOOKED_AT = new WeakMap<object, boolean>();

const STORABLE = 'text without U+0000, U+FFFE and lone surrogates';
/** Ids are parts of index keys, which PostgreSQL limits. */
const MAX_ID_BYTES = 512;

type Walk = (value: unknown, path: string) => Refusal | null;
type Schema = {
  readonly type?: string;
  readonly maxLength?: number;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
};

/** Checks what the schema bounds in length (ids, names, roles) for what the schema cannot say; null where it bounds nothing. */
function namesIn(schema: Schema): Walk | null {
  if (schema.type === 'string') return schema.maxLength === undefined ? null : badName;
  if (schema.anyOf) {
    const walks = schema.anyOf.map(namesIn).filter((walk) => walk !== null);
    return walks.length === 0 ? null : (value, path) => firstOf(walks, (walk) => walk(value, path));
  }
  if (schema.items) {
    const walk = namesIn(schema.items);
    return (
      walk && ((value, path) => (Array.isArray(value) ? firstOf(value, (v, i) => walk(v, `${path}[${i}]`)) : null))
    );
  }
  const every = Object.values(schema.patternProperties ?? {}).map(namesIn)[0];
  if (every) {
    return (value, path) =>
      isRecord(value) ? firstOf(Object.keys(value), (key) => every(value[key], `${path}.${key}`)) : null;
  }
  const members = Object.entries(schema.properties ?? {}).flatMap(([name, member]) => {
    const walk = namesIn(member);
    return walk ? [{ name, walk }] : [];
  });
  if (members.length === 0) return null;
  return (value, path) => {
    if (!isRecord(value)) return null;
    for (const { name, walk } of members) {
      const member = value[name];
      if (member === undefined || member === null) continue;
      const found = walk(member, `${path}.${name}`);
      if (found) return found;
    }
    return null;
  };
}

function firstOf<T>(items: readonly T[], find: (item: T, i: number) => Refusal | null): Refusal | null {
  for (let i = 0; i < items.length; i++) {
    const found = find(items[i]!, i);
    if (found) return found;
  }
  return null;
}

function badName(value: unknown, path: string): Refusal | null {
  if (typeof value !== 'string') return null;
  if (value.length * 3 > MAX_ID_BYTES && Buffer.byteLength(value) > MAX_ID_BYTES) {
    return problem('bad_identifier', path, `at most ${MAX_ID_BYTES} bytes`, `${Buffer.byteLength(value)} bytes`);
  }
  return needsEscape(value) ? problem('bad_identifier', path, STORABLE, value) : null;
}

function findBadKey(value: unknown, path: string): string | null {
  if (Array.isArray(value)) {
    for (const [i, item] of value.entries()) {
      const bad = findBadKey(item, `${path}[${i}]`);
      if (bad) return bad;
    }
    return null;
  }
  if (!isRecord(value)) return null;
  for (const [key, member] of Object.entries(value)) {
    if (needsEscape(key)) return `${path}.${escapeText(key)}`;
    const bad = findBadKey(member, `${path}.${key}`);
    if (bad) return bad;
  }
  return null;
}

function badIdentifier(value: unknown): string | null {
  if (typeof value !== 'string' || value.length === 0) return 'a non-empty text';
  if (needsEscape(value)) return STORABLE;
  if (value.length * 3 > 600 && Buffer.byteLength(value) > 600) return 'at most 600 bytes';
  return null;
}

const TIME = /^(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?([Zz]|[+-]\d{2}:\d{2})$/;

const FRACTION = /^(?:\.\d{1,9})?[Zz]$/;
/** The last second in UTC that was found to be one: times of a trace lie together. */
let lastSecond = 'none';

/** RFC 3339 in any zone to UTC with six digits of a second (further digits are dropped); undefined when it is not a time. */
export function normaliseTime(text: unknown): string | undefined {
  if (typeof text !== 'string') return undefined;
  if (text.startsWith(lastSecond) && FRACTION.test(text.slice(19)))
    return inMicroseconds(lastSecond, text.slice(20, -1));
  const match = TIME.exec(text);
  if (!match) return undefined;
  const [, year, month, day, hour, minute, second, fraction = '', zone = 'Z'] = match;
  if (second === '60') return afterLeap(`${year}-${month}-${day}T${hour}:${minute}:59${zone}`, fraction);
  if (Number(hour) > 23) return undefined;
  if (zone === 'Z' || zone === 'z') {
    const isTime = Number(minute) < 60 && Number(second) < 60 && year !== '0000';
    if (!isTime || !isCalendarDay(Number(year), Number(month), Number(day))) return undefined;
    lastSecond = `${year}-${month}-${day}T${hour}:${minute}:${second}`;
    return inMicroseconds(lastSecond, fraction);
  }
  const whole = new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}${zone.toUpperCase()}`);
  if (Number.isNaN(whole.getTime())) return undefined;
  const utc = whole.toISOString();
  // Outside 0001–9999 toISOString changes its form, and a day that does not exist (31 April) rolls over.
  if (utc.length !== 24 || utc.startsWith('0000') || !isCalendarDay(Number(year), Number(month), Number(day)))
    return undefined;
  return inMicroseconds(utc.slice(0, 19), fraction);
}

/** A leap second ends a day in UTC; as in PostgreSQL it is the first second of the next day. */
function afterLeap(before: string, fraction: string): string | undefined {
  const last = normaliseTime(before);
  if (last?.slice(11, 19) !== '23:59:59') return undefined;
  const next = new Date(Date.parse(last) + 1000).toISOString();
  return next.length === 24 ? inMicroseconds(next.slice(0, 19), fraction) : undefined;
}

const inMicroseconds = (second: string, fraction: string): string =>
  `${second}.${fraction.slice(0, 6).padEnd(6, '0')}Z`;

const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

function isCalendarDay(year: number, month: number, day: number): boolean {
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return day >= 1 && day <= (month === 2 && isLeap ? 29 : (DAYS[month - 1] ?? 0));
}

/** What a schema cannot express: lists that must be as long as each other, numbers that must differ. */
function inconsistency(name: EventName, data: Record<string, unknown>): Refusal | null {
  if (name === 'generation.completed') {
    const seen = new Set<number>();
    let chosen = 0;
    for (const [i, choice] of (
      data.choices as {
        index: number;
        token_ids?: number[];
        logprobs?: number[];
        loss_mask?: number[];
        chosen?: boolean;
      }[]
    ).entries()) {
      const field = `data.choices[${i}]`;
      if (seen.has(choice.index))
        return problem('bad_shape', `${field}.index`, 'a number no other choice has', choice.index);
      seen.add(choice.index);
      if (choice.chosen) chosen++;
      if (chosen > 1) return problem('bad_shape', `${field}.chosen`, 'at most one chosen candidate in a call', true);
      for (const list of ['logprobs', 'loss_mask'] as const) {
        const values = choice[list];
        if (!values) continue;
        const tokens = choice.token_ids?.length;
        if (tokens !== undefined && values.length !== tokens) {
          return problem('bad_shape', `${field}.${list}`, `${tokens} numbers, one a token`, `${values.length}`);
        }
      }
    }
  }
  if (name === 'feedback.recorded') {
    const target = data.target as { kind: string; id?: string | null; episode_id?: string | null };
    if (!target.id && !target.episode_id)
      return problem('bad_reference', 'data.target', 'an id or an episode_id', target);
    if (target.kind === 'foreign' && !target.id)
      return problem('bad_reference', 'data.target.id', 'the id the other system gave', target.id);
    const matrix = data.matrix as { programs: unknown[]; tests: unknown[]; pass: unknown[][] } | null | undefined;
    if (matrix) {
      if (matrix.pass.length !== matrix.programs.length) {
        return problem(
          'bad_shape',
          'data.matrix.pass',
          `${matrix.programs.length} rows, one a program`,
          `${matrix.pass.length}`,
        );
      }
      const ragged = matrix.pass.findIndex((row) => row.length !== matrix.tests.length);
      if (ragged >= 0) {
        return problem(
          'bad_shape',
          `data.matrix.pass[${ragged}]`,
          `${matrix.tests.length} cells, one a test`,
          `${matrix.pass[ragged]?.length}`,
        );
      }
    }
  }
  if (name === 'job.progressed') {
    const long = Object.keys(data.metrics as object).find((metric) => Buffer.byteLength(metric) > MAX_ID_BYTES);
    if (long !== undefined) return problem('bad_identifier', 'data.metrics', `names of ${MAX_ID_BYTES} bytes`, long);
  }
  return null;
}

function firstProblem(check: Check, data: unknown): Refusal {
  const errors = check.Errors(data);
  // The last error of a union names the union; the most specific one is the deepest path.
  const error = [...errors].sort((a, b) => b.instancePath.split('/').length - a.instancePath.split('/').length)[0];
  const path = error?.instancePath ?? '';
  const params = (error?.params ?? {}) as Record<string, unknown>;
  const missing = Array.isArray(params.requiredProperties) ? params.requiredProperties[0] : undefined;
  const field = `data${path.replaceAll('/', '.').replace(/\.(\d+)(?=\.|$)/g, '[$1]')}${missing ? `.${asText(missing)}` : ''}`;
  const value = missing ? undefined : valueAt(data, path);
  const code = error?.keyword === 'type' || error?.keyword === 'anyOf' ? 'bad_type' : 'bad_shape';
  const allowed = Array.isArray(params.allowedValues) ? `one of ${params.allowedValues.join(', ')}` : undefined;
  const expected = missing ? 'a value' : (allowed ?? (error?.message ?? 'another value').replace(/^must /, 'it to '));
  return problem(code, field, expected, value);
}

function valueAt(data: unknown, pointer: string): unknown {
  let value = data;
  for (const part of pointer.split('/').slice(1)) value = (value as Record<string, unknown> | undefined)?.[part];
  return value;
}

const problem = (code: Refusal['code'], field: string, expected: string, value: unknown): Refusal => ({
  code,
  field,
  expected,
  got: got(value),
});
const refuse = (code: Refusal['code'], field: string, expected: string, value: unknown): DecodeResult => ({
  refusal: problem(code, field, expected, value),
});
