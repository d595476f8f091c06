/**
 * One form for all ways to write the same OTLP item, so that a span is the same span from protobuf, from any exporter's JSON and
 * after a redelivery: members that hold their default are left out, 64-bit integers are decimal text, ids are lower case.
 * Two items are equal under OTLP if their normal forms are equal as JSON.
 */
import { isRecord } from '../../events/json.ts';

const LONG = new Set(['intValue', 'startTimeUnixNano', 'endTimeUnixNano', 'timeUnixNano', 'observedTimeUnixNano']);
const IDS = new Set(['traceId', 'spanId', 'parentSpanId']);
/** Members of a value are the value itself: `{"stringValue": ""}` is not the same as no value. */
const VALUES = new Set([
  'stringValue',
  'boolValue',
  'intValue',
  'doubleValue',
  'bytesValue',
  'arrayValue',
  'kvlistValue',
]);

/** The value itself where it is in that form already. */
export function normal(value: unknown, name = ''): unknown {
  if (Array.isArray(value)) {
    let copy: unknown[] | null = null;
    for (let i = 0; i < value.length; i++) {
      const item = normal(value[i]);
      if (item !== value[i]) copy ??= [...value];
      if (copy) copy[i] = item;
    }
    return copy ?? value;
  }
  if (!isRecord(value)) {
    if (typeof value === 'string') return IDS.has(name) ? value.toLowerCase() : value;
    return typeof value === 'number' && LONG.has(name) ? BigInt(Math.trunc(value)).toString() : value;
  }
  const keys = Object.keys(value);
  let kept: [string, unknown][] | null = null;
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i]!;
    const member = normal(value[key], key);
    const stays = !isDefault(key, member) || VALUES.has(key);
    if (member !== value[key] || !stays) kept ??= keys.slice(0, i).map((before) => [before, value[before]]);
    if (stays) kept?.push([key, member]);
  }
  return kept ? Object.fromEntries(kept) : value;
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
