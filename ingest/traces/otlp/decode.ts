/**
 * OTLP requests in JSON (opentelemetry-proto 1.x, OTLP/HTTP) as plain spans and log records. Ids are hex in any case, never base64;
 * enumerations are integers; 64-bit integers are decimal text or numbers; members that OTLP does not have are passed over. A span
 * that cannot be read is refused alone.
 */
import { got, type Refusal } from '../../../errors.ts';
import { isRecord, type JsonObject, MAX_RECORD_BYTES, notJson } from '../../events/json.ts';
import { settled, writeOnce } from '../../events/known-json.ts';
import { parseBody } from '../../events/parse-body.ts';
import { quoteLongIntegers } from '../../events/spelling.ts';
import { isIdentifier } from '../../events/text.ts';
import { attributesOf, BadValue, valueIn } from './any-value.ts';
import { normal } from './normal.ts';
import type { Attributes, Native, OtlpLog, OtlpSpan, SpanEvent } from './span.ts';

/** A refusal of one span or log record; `raw` is what was refused, as JSON. */
type OtlpRefusal = Refusal & { readonly raw: string };

export type Otlp = {
  readonly spans: readonly OtlpSpan[];
  readonly logs: readonly OtlpLog[];
  readonly refusals: readonly OtlpRefusal[];
};

export const isOtlp = (value: unknown): value is JsonObject =>
  isRecord(value) && (Array.isArray(value.resourceSpans) || Array.isArray(value.resourceLogs));

/** Deepest nesting of a span, below what an event may have. */
const MAX_SPAN_DEPTH = 96;
/** And of what it is kept as, with its resource and scope. */
const MAX_NATIVE_DEPTH = MAX_SPAN_DEPTH + 1;

/**
 * A request as text. Integers beyond 2^53, which OTLP allows as numbers, are read as the decimal text that they may be as well.
 * A request that is larger, deeper or no JSON is refused whole. Never throws.
 */
export function parseOtlpJson(text: string): { readonly value: unknown } | { readonly refusal: Refusal } {
  const parsed = parseBody(text);
  return 'refusal' in parsed && parsed.refusal.code === 'bad_number' && text.length <= MAX_RECORD_BYTES
    ? parseBody(quoteLongIntegers(text))
    : parsed;
}

/** Everything in a request. Never throws; what is no request at all is one refusal. */
export function decodeOtlp(request: unknown): Otlp {
  if (!isOtlp(request)) {
    return { spans: [], logs: [], refusals: [problem('', 'an OTLP request of traces or logs', request, request)] };
  }
  const spans: OtlpSpan[] = [];
  const logs: OtlpLog[] = [];
  const refusals: OtlpRefusal[] = [];
  const each = (
    resources: unknown,
    names: { readonly resources: string; readonly scopes: string; readonly items: string },
    take: (item: unknown, around: Around, field: string) => void,
  ): void => {
    for (const [i, group] of entriesOf(resources)) {
      const place = `${names.resources}[${i}]`;
      for (const [j, inner] of entriesOf(isRecord(group) ? group[names.scopes] : null)) {
        const inside = `${place}.${names.scopes}[${j}]`;
        let around: Around | null = null;
        for (const [k, item] of entriesOf(isRecord(inner) ? inner[names.items] : null)) {
          const field = `${inside}.${names.items}[${k}]`;
          try {
            around ??= aroundOf(group as JsonObject, inner as JsonObject, place, inside);
            take(item, around, field);
          } catch (error) {
            if (!(error instanceof BadValue)) throw error;
            refusals.push(problem(error.field, error.expected, error.value, item));
          }
        }
      }
    }
  };
  each(
    request.resourceSpans,
    { resources: 'resourceSpans', scopes: 'scopeSpans', items: 'spans' },
    (item, around, field) => spans.push(spanOf(item, around, field)),
  );
  each(
    request.resourceLogs,
    { resources: 'resourceLogs', scopes: 'scopeLogs', items: 'logRecords' },
    (item, around, field) => logs.push(logOf(item, around, field)),
  );
  return { spans, logs, refusals };
}

const entriesOf = (value: unknown): Iterable<readonly [number, unknown]> =>
  Array.isArray(value) ? value.entries() : [];

function problem(field: string, expected: string, value: unknown, item: unknown): OtlpRefusal {
  return { code: 'bad_shape', field, expected, got: got(value), raw: JSON.stringify(item ?? null) };
}

/** A span or log record as {@link Native} has it, which was decoded before; null where it is none after all. */
export function decodeNative(native: unknown): { readonly span: OtlpSpan } | { readonly log: OtlpLog } | null {
  if (!isRecord(native)) return null;
  const resource = isRecord(native.resource) ? native.resource : {};
  const scope = isRecord(native.scope) ? native.scope : {};
  try {
    const attributes = attributesOf(resource.attributes, 'resource.attributes');
    const around: Around = {
      resource: attributes,
      episode: identifierIn(attributes, EPISODE),
      episodeBy: identifierIn(attributes, EPISODE_BY),
      scope: typeof scope.name === 'string' ? scope.name : '',
      native: { ...shared('resource', native.resource), ...shared('scope', native.scope) },
      depth: 0,
    };
    return native.log === undefined
      ? { span: spanOf(native.span, around, 'span', isWhole(native) ? native : null) }
      : { log: logOf(native.log, around, 'log') };
  } catch (error) {
    if (error instanceof BadValue) return null;
    throw error;
  }
}

/** True for what the log gave back as it was kept, and nothing was put beside it: there is nothing to check, and nothing would change. */
function isWhole(native: JsonObject): boolean {
  if (!settled(native, MAX_NATIVE_DEPTH)) return false;
  for (const key in native) {
    if (!PARTS.has(key)) return false;
    const part = native[key];
    if (!isRecord(part) || Object.keys(part).length === 0) return false;
  }
  return normal(native.span) === native.span;
}

const PARTS = new Set(['resource', 'scope', 'span']);

type Around = {
  readonly resource: Attributes;
  readonly scope: string;
  readonly native: Native;
  /** The episode that the resource names for all its traces; null where it names none. */
  readonly episode: string | null;
  /** The attribute of spans and log records that names their episode, where the resource says which. */
  readonly episodeBy: string | null;
  /** Levels of a native span around which this stands; 0 where that is not known. */
  readonly depth: number;
};

/** What all spans of a scope share. */
function aroundOf(group: JsonObject, inner: JsonObject, place: string, inside: string): Around {
  const resource = isRecord(group.resource) ? group.resource : {};
  const scope = isRecord(inner.scope) ? inner.scope : {};
  attributesOf(scope.attributes, `${inside}.scope.attributes`);
  const native = { ...shared('resource', normal(resource)), ...shared('scope', normal(scope)) };
  const attributes = attributesOf(resource.attributes, `${place}.resource.attributes`);
  return {
    resource: attributes,
    episode: identifierIn(attributes, EPISODE),
    episodeBy: identifierIn(attributes, EPISODE_BY),
    scope: typeof scope.name === 'string' ? scope.name : '',
    native,
    depth: notJson(native, '', MAX_NATIVE_DEPTH) === null ? MAX_NATIVE_DEPTH : 0,
  };
}

/**
 * What a program runs may be many traces. They are one episode where spans name it: each by itself, by the attribute that their resource
 * says, such as `session.id`, or all by their resource. It is known of each span when it comes, whichever others have come.
 */
export const EPISODE = 'troupe.episode_id';
export const EPISODE_BY = 'troupe.episode_by';

const episodeOf = (attributes: Attributes, { episode, episodeBy }: Around): string | null =>
  identifierIn(attributes, EPISODE) ?? (episodeBy === null ? null : identifierIn(attributes, episodeBy)) ?? episode;

function identifierIn(attributes: Attributes, name: string): string | null {
  const value = attributes[name];
  return isIdentifier(value) ? value : null;
}

const shared = (name: string, value: unknown): Record<string, unknown> =>
  isRecord(value) && Object.keys(value).length > 0 ? { [name]: value } : {};

/** `whole` is what the span is kept as, where that is known already. */
function spanOf(item: unknown, around: Around, field: string, whole: Native | null = null): OtlpSpan {
  if (!isRecord(item)) throw new BadValue(field, 'a span object', item);
  if (whole === null) bounded(item, field);
  const { name, kind, status } = item;
  if (name !== undefined && typeof name !== 'string') throw new BadValue(`${field}.name`, 'a text', name);
  enumeration(kind, `${field}.kind`);
  if (status !== undefined && status !== null && !isRecord(status)) {
    throw new BadValue(`${field}.status`, 'code and message', status);
  }
  enumeration(status?.code, `${field}.status.code`);
  const traceId = idOf(item.traceId, 32, `${field}.traceId`);
  const spanId = idOf(item.spanId, 16, `${field}.spanId`);
  if (traceId === null) throw new BadValue(`${field}.traceId`, '32 hex digits, not all 0', item.traceId);
  if (spanId === null) throw new BadValue(`${field}.spanId`, '16 hex digits, not all 0', item.spanId);
  const attributes = attributesOf(item.attributes, `${field}.attributes`);
  return {
    traceId: episodeOf(attributes, around) ?? traceId,
    spanId,
    parentId: idOf(item.parentSpanId, 16, `${field}.parentSpanId`),
    name: name ?? '',
    start: timeOf(item.startTimeUnixNano, `${field}.startTimeUnixNano`),
    end: timeOf(item.endTimeUnixNano, `${field}.endTimeUnixNano`),
    attributes,
    events: eventsOf(item.events, `${field}.events`),
    error: Number(status?.code) === 2 ? (typeof status?.message === 'string' ? status.message : '') : null,
    scope: around.scope,
    resource: around.resource,
    native: whole ?? writeOnce({ ...around.native, span: normal(item) as JsonObject }, around.depth),
  };
}

function logOf(item: unknown, around: Around, field: string): OtlpLog {
  if (!isRecord(item)) throw new BadValue(field, 'a log record', item);
  bounded(item, field);
  const attributes = attributesOf(item.attributes, `${field}.attributes`);
  const named = item.eventName ?? attributes['event.name'];
  return {
    traceId: episodeOf(attributes, around) ?? idOf(item.traceId, 32, `${field}.traceId`),
    spanId: idOf(item.spanId, 16, `${field}.spanId`),
    name: typeof named === 'string' ? named : '',
    time:
      timeOf(item.timeUnixNano, `${field}.timeUnixNano`) ??
      timeOf(item.observedTimeUnixNano, `${field}.observedTimeUnixNano`),
    body: valueIn(item.body, `${field}.body`),
    attributes,
    native: writeOnce({ ...around.native, log: normal(item) as JsonObject }, around.depth),
  };
}

const bounded = (item: JsonObject, field: string): void => {
  const deep = notJson(item, field, MAX_SPAN_DEPTH);
  if (deep) throw new BadValue(deep.field, deep.expected, deep.got);
};

function eventsOf(list: unknown, field: string): SpanEvent[] {
  if (!Array.isArray(list)) return [];
  return list.map((event: unknown, i) => {
    if (!isRecord(event)) throw new BadValue(`${field}[${i}]`, 'an event of a span', event);
    return {
      name: typeof event.name === 'string' ? event.name : '',
      time: timeOf(event.timeUnixNano, `${field}[${i}].timeUnixNano`),
      attributes: attributesOf(event.attributes, `${field}[${i}].attributes`),
    };
  });
}

/** An id in lower case; null where it is absent, empty or all 0, which OTLP uses for none. */
function idOf(value: unknown, digits: number, field: string): string | null {
  if (value === undefined || value === null || value === '') return null;
  if (typeof value !== 'string' || value.length !== digits || !/^[0-9a-f]+$/i.test(value)) {
    throw new BadValue(field, `${digits} hex digits`, value);
  }
  return /^0+$/.test(value) ? null : value.toLowerCase();
}

function enumeration(value: unknown, field: string): void {
  if (value === undefined || value === null || (typeof value === 'number' && Number.isSafeInteger(value))) return;
  throw new BadValue(field, 'the number of the enumeration', value);
}

/** Nanoseconds since 1970 as RFC 3339 with nine digits of a second; null where they are absent or 0. */
function timeOf(value: unknown, field: string): string | null {
  if (value === undefined || value === null || value === 0 || value === '' || value === '0') return null;
  const digits = typeof value === 'number' && Number.isSafeInteger(value) ? String(value) : value;
  const text =
    typeof value === 'number' && !Number.isSafeInteger(value) ? BigInt(Math.trunc(value)).toString() : digits;
  if (typeof text !== 'string' || !/^\d{1,20}$/.test(text)) {
    throw new BadValue(field, 'nanoseconds since 1970, as decimal text or a number', value);
  }
  const padded = text.padStart(10, '0');
  const seconds = Number(padded.slice(0, -9));
  if (seconds > 253402300799) throw new BadValue(field, 'nanoseconds since 1970 before the year 10000', value);
  // Spans of one request lie together: the last second is asked for again and again.
  if (seconds !== last.seconds) last = { seconds, text: new Date(seconds * 1000).toISOString().slice(0, 19) };
  return `${last.text}.${padded.slice(-9)}Z`;
}

let last = { seconds: -1, text: '' };
