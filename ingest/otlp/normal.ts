/**
 * One form for all ways to write the same OTLP item, so that a span is the same span from protobuf, from any exporter's JSON and
 * after a redelivery: members that hold their default are left out, 64-bit integers are decimal text, ids are lower case.
 * Two items are equal under OTLP if their normal forms are equal as JSON.
 */
import { isRecord } from '../json.ts';

const LONG = new Set(['intValue', 'startTimeUnixNano', 'endTimeUnixNano', 'timeUnixNano', 'observedTimeUnixNano']);
const IDS = new Set(['traceId', 'spanId', 'parentSpanId']);
/** Members of a value are the value itself: `{"stringValue": ""}` says more than nothing. */
const VALUES = new Set([
  'stringValue',
  'boolValue',
  'intValue',
  'doubleValue',
  'bytesValue',
  'arrayValue',
  'kvlistValue',
]);

export function normal(value: unknown, name = ''): unknown {
  if (Array.isArray(value)) return value.map((one) => normal(one));
  if (!isRecord(value)) {
    if (IDS.has(name) && typeof value === 'string') return value.toLowerCase();
    return LONG.has(name) && typeof value === 'number' ? BigInt(Math.trunc(value)).toString() : value;
  }
  return Object.fromEntries(
    Object.entries(value)
      .map(([key, member]) => [key, normal(member, key)] as const)
      .filter(([key, member]) => VALUES.has(key) || !isDefault(key, member)),
  );
}

const isDefault = (key: string, member: unknown): boolean =>
  member === null ||
  member === undefined ||
  member === 0 ||
  member === '' ||
  (member === '0' && LONG.has(key)) ||
  member === false ||
  (Array.isArray(member) && member.length === 0) ||
  (isRecord(member) && key !== 'value' && Object.keys(member).length === 0);
