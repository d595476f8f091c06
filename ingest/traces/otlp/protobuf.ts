/**
 * OTLP requests in protobuf (opentelemetry-proto 1.x: trace, logs, metrics, common, resource) as the same requests in JSON, so that one way
 * leads from either into events. Ids become hex.
 */

import { got, type Refusal } from '../../../errors.ts';
import { asText } from '../../events/json.ts';
import { type Fields, MAX_MESSAGES_IN_ALL, Malformed, readMessage, TooMany } from './wire.ts';

const anyValue = (): Fields => ANY_VALUE;
const keyValue = (): Fields => KEY_VALUE;
const ANY_VALUE: Fields = {
  1: { name: 'stringValue', as: 'string' },
  2: { name: 'boolValue', as: 'bool' },
  3: { name: 'intValue', as: 'int64' },
  4: { name: 'doubleValue', as: 'double' },
  5: { name: 'arrayValue', as: () => ARRAY },
  6: { name: 'kvlistValue', as: () => LIST },
  7: { name: 'bytesValue', as: 'base64' },
};
const ARRAY: Fields = { 1: { name: 'values', as: anyValue, list: true } };
const KEY_VALUE: Fields = { 1: { name: 'key', as: 'string' }, 2: { name: 'value', as: anyValue } };
const LIST: Fields = { 1: { name: 'values', as: keyValue, list: true } };

const attributes = { name: 'attributes', as: keyValue, list: true } as const;
const dropped = { name: 'droppedAttributesCount', as: 'uint32' } as const;
const schemaUrl = { name: 'schemaUrl', as: 'string' } as const;
const flags = { name: 'flags', as: 'fixed32' } as const;

const RESOURCE: Fields = { 1: attributes, 2: dropped };
const SCOPE: Fields = {
  1: { name: 'name', as: 'string' },
  2: { name: 'version', as: 'string' },
  3: attributes,
  4: dropped,
};
const SPAN_EVENT: Fields = {
  1: { name: 'timeUnixNano', as: 'fixed64' },
  2: { name: 'name', as: 'string' },
  3: attributes,
  4: dropped,
};
const SPAN_LINK: Fields = {
  1: { name: 'traceId', as: 'hex' },
  2: { name: 'spanId', as: 'hex' },
  3: { name: 'traceState', as: 'string' },
  4: attributes,
  5: dropped,
  6: flags,
};
const STATUS: Fields = { 2: { name: 'message', as: 'string' }, 3: { name: 'code', as: 'uint32' } };
const SPAN: Fields = {
  1: { name: 'traceId', as: 'hex' },
  2: { name: 'spanId', as: 'hex' },
  3: { name: 'traceState', as: 'string' },
  4: { name: 'parentSpanId', as: 'hex' },
  5: { name: 'name', as: 'string' },
  6: { name: 'kind', as: 'uint32' },
  7: { name: 'startTimeUnixNano', as: 'fixed64' },
  8: { name: 'endTimeUnixNano', as: 'fixed64' },
  9: attributes,
  10: dropped,
  11: { name: 'events', as: () => SPAN_EVENT, list: true },
  12: { name: 'droppedEventsCount', as: 'uint32' },
  13: { name: 'links', as: () => SPAN_LINK, list: true },
  14: { name: 'droppedLinksCount', as: 'uint32' },
  15: { name: 'status', as: () => STATUS },
  16: flags,
};
const LOG_RECORD: Fields = {
  1: { name: 'timeUnixNano', as: 'fixed64' },
  2: { name: 'severityNumber', as: 'uint32' },
  3: { name: 'severityText', as: 'string' },
  5: { name: 'body', as: anyValue },
  6: attributes,
  7: dropped,
  8: flags,
  9: { name: 'traceId', as: 'hex' },
  10: { name: 'spanId', as: 'hex' },
  11: { name: 'observedTimeUnixNano', as: 'fixed64' },
  12: { name: 'eventName', as: 'string' },
};

/** Of a metric only its data points are read, and of these that they are there. */
const DATA_POINT: Fields = {};
const points: Fields = { 1: { name: 'dataPoints', as: () => DATA_POINT, list: true } };
const METRIC: Fields = {
  5: { name: 'gauge', as: () => points },
  7: { name: 'sum', as: () => points },
  9: { name: 'histogram', as: () => points },
  10: { name: 'exponentialHistogram', as: () => points },
  11: { name: 'summary', as: () => points },
};

/** A request is resources, in each scopes, in each items. */
function request(resources: string, scopes: string, items: string, item: Fields): Fields {
  const scope: Fields = {
    1: { name: 'scope', as: () => SCOPE },
    2: { name: items, as: () => item, list: true, alone: true },
    3: schemaUrl,
  };
  const resource: Fields = {
    1: { name: 'resource', as: () => RESOURCE },
    2: { name: scopes, as: () => scope, list: true },
    3: schemaUrl,
  };
  return { 1: { name: resources, as: () => resource, list: true } };
}

const REQUESTS = {
  traces: request('resourceSpans', 'scopeSpans', 'spans', SPAN),
  logs: request('resourceLogs', 'scopeLogs', 'logRecords', LOG_RECORD),
  metrics: request('resourceMetrics', 'scopeMetrics', 'metrics', METRIC),
} as const;

/** A request in protobuf as the request in JSON. An item that is not one is null in its list; the others are kept. Never throws. */
export function protobufToJson(
  bytes: Uint8Array,
  signal: keyof typeof REQUESTS,
): { readonly value: Record<string, unknown> } | { readonly refusal: Refusal } {
  try {
    return { value: readMessage(bytes, REQUESTS[signal]) };
  } catch (error) {
    if (error instanceof TooMany) {
      const expected = `at most ${MAX_MESSAGES_IN_ALL} messages in one request`;
      return { refusal: { code: 'too_large', field: '', expected, got: 'more' } };
    }
    if (!(error instanceof Malformed)) throw error;
    const refusal = {
      code: 'bad_shape',
      field: '',
      expected: `an OTLP request of ${signal} in protobuf`,
      got: got(error.message),
    } as const;
    return { refusal };
  }
}

/**
 * The request in a file of unknown kind, as JSON; null where the bytes are no OTLP request. Both signals have the same frame;
 * their content distinguishes them: of a span the first field is 16 bytes of id, of a log record it is a number.
 */
export function sniffProtobuf(bytes: Uint8Array): Record<string, unknown> | null {
  if (bytes[0] !== 0x0a) return null;
  for (const [signal, scopes, items, known] of [
    ['traces', 'scopeSpans', 'spans', (item: Record<string, unknown>) => /^[0-9a-f]{32}$/.test(asText(item.traceId))],
    ['logs', 'scopeLogs', 'logRecords', (item: Record<string, unknown>) => 'timeUnixNano' in item || 'body' in item],
  ] as const) {
    const read = protobufToJson(bytes, signal);
    if ('refusal' in read) continue;
    const found = itemsOf(read.value, signal === 'traces' ? 'resourceSpans' : 'resourceLogs', scopes, items);
    const good = found.items.filter((item) => item !== null && known(item as Record<string, unknown>));
    if (good.length > 0 && good.length * 2 > found.size) return read.value;
  }
  return null;
}

function itemsOf(value: Record<string, unknown>, resources: string, scopes: string, items: string) {
  const lists = ((value[resources] ?? []) as Record<string, unknown>[])
    .flatMap((resource) => (resource[scopes] ?? []) as Record<string, unknown>[])
    .flatMap((scope) => (scope[items] ?? []) as unknown[]);
  return { items: lists, size: lists.length };
}
