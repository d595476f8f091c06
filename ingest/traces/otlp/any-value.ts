/** Attribute values of OTLP as plain JSON and back. */
import { asText, isRecord, put } from '../../events/json.ts';
import type { Attributes } from './span.ts';

/** Lists in lists, in one attribute. */
const MAX_DEPTH = 32;
/** Attributes of one span or log record. */
export const MAX_ATTRIBUTES = 4096;

/** What an attribute cannot be; `field` is the path inside it. */
export class BadValue extends Error {
  readonly field: string;
  readonly expected: string;
  readonly value: unknown;

  constructor(field: string, expected: string, value: unknown) {
    super(`${field}: expected ${expected}`);
    this.field = field;
    this.expected = expected;
    this.value = value;
  }
}

/** The attributes by name; of a name that comes twice the last. Throws {@link BadValue}. */
export function attributesOf(list: unknown, field: string, depth = 0): Attributes {
  if (list === undefined || list === null) return {};
  if (!Array.isArray(list)) throw new BadValue(field, 'a list of attributes', list);
  if (list.length > MAX_ATTRIBUTES) throw new BadValue(field, `at most ${MAX_ATTRIBUTES} attributes`, list.length);
  const found: Record<string, unknown> = {};
  for (let i = 0; i < list.length; i++) {
    const one: unknown = list[i];
    if (!isRecord(one) || typeof one.key !== 'string') throw new BadValue(`${field}[${i}]`, 'key and value', one);
    // Nearly all are texts: of these no path is written.
    const text = isRecord(one.value) ? one.value.stringValue : undefined;
    put(found, one.key, typeof text === 'string' ? text : valueIn(one.value, `${field}[${i}].value`, depth));
  }
  return found;
}

/**
 * An attribute value as JSON: 64-bit integers are numbers where a double holds them and text where not, bytes are
 * `{bytes: base64}`, NaN and infinities are text. Throws {@link BadValue}.
 */
export function valueIn(value: unknown, field: string, depth = 0): unknown {
  if (value === undefined || value === null) return null;
  if (depth > MAX_DEPTH) throw new BadValue(field, `at most ${MAX_DEPTH} levels of lists`, 'more');
  if (!isRecord(value)) throw new BadValue(field, 'a value such as {"stringValue": …}', value);
  const { stringValue, boolValue, intValue, doubleValue, arrayValue, kvlistValue, bytesValue } = value;
  if (stringValue !== undefined) {
    if (typeof stringValue !== 'string') throw new BadValue(`${field}.stringValue`, 'a text', stringValue);
    return stringValue;
  }
  if (boolValue !== undefined) {
    if (typeof boolValue !== 'boolean') throw new BadValue(`${field}.boolValue`, 'true or false', boolValue);
    return boolValue;
  }
  if (intValue !== undefined) {
    const text = asText(intValue);
    if (!/^-?\d{1,20}$/.test(text)) throw new BadValue(`${field}.intValue`, 'a whole number', intValue);
    return Number.isSafeInteger(Number(text)) ? Number(text) : text;
  }
  if (doubleValue !== undefined) {
    const number = typeof doubleValue === 'number' ? doubleValue : Number(doubleValue);
    if (Number.isFinite(number) && doubleValue !== '' && typeof doubleValue !== 'boolean') return number;
    if (typeof doubleValue === 'string' && /^(?:NaN|-?Infinity)$/.test(doubleValue)) return doubleValue;
    throw new BadValue(`${field}.doubleValue`, 'a number', doubleValue);
  }
  if (arrayValue !== undefined) {
    const values = isRecord(arrayValue) ? (arrayValue.values ?? []) : arrayValue;
    if (!Array.isArray(values)) throw new BadValue(`${field}.arrayValue`, 'a list of values', values);
    return values.map((one, i) => valueIn(one, `${field}.arrayValue.values[${i}]`, depth + 1));
  }
  if (kvlistValue !== undefined) {
    const values = isRecord(kvlistValue) ? kvlistValue.values : kvlistValue;
    return attributesOf(values, `${field}.kvlistValue.values`, depth + 1);
  }
  if (bytesValue !== undefined) {
    if (typeof bytesValue !== 'string') throw new BadValue(`${field}.bytesValue`, 'base64 text', bytesValue);
    return { bytes: bytesValue };
  }
  return null;
}

/** JSON as an attribute value. */
export function toValue(value: unknown): Record<string, unknown> {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  if (typeof value === 'number') {
    return Number.isSafeInteger(value) && !Object.is(value, -0) ? { intValue: String(value) } : { doubleValue: value };
  }
  if (Array.isArray(value)) return { arrayValue: { values: value.map(toValue) } };
  if (isRecord(value)) return { kvlistValue: { values: toAttributes(value) } };
  return {};
}

export const toAttributes = (attributes: Attributes): { key: string; value: unknown }[] =>
  Object.entries(attributes)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => ({ key, value: toValue(value) }));
