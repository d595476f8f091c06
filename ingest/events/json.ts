/**
 * JSON at ingestion. The raw text is looked at before `JSON.parse`, because afterwards it is too late: a document 100,000 levels
 * deep parses but cannot be written again, and 9007199254740993 has silently become …992.
 * Canonical JSON (keys sorted, no white space) is what ids and digests are made of.
 */
import { hash } from 'node:crypto';
import type { Refusal } from '../../errors.ts';
import { isSettled, knownOf } from './known-json.ts';

/** A map of names to values. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Deepest nesting that is taken, in arrays and objects together. */
export const MAX_DEPTH = 128;
/** Largest single record that is taken, in bytes of UTF-8. */
export const MAX_RECORD_BYTES = 32 * 1024 * 1024;

/** Members of objects and elements of lists in one record: three bytes of text can be one, and each costs memory. */
export const MAX_VALUES = 4_000_000;

/** Members of one object in JSON text: a million names take seconds to read, and no record has so many. */
export const MAX_MEMBERS = 100_000;

/** Deepest nesting of an event's data: its envelope is one level more. */
export const MAX_DATA_DEPTH = MAX_DEPTH - 1;

const QUOTE = 34;
const BACKSLASH = 92;

/**
 * Looks at JSON text without parsing it: nesting no deeper than {@link MAX_DEPTH}, every number exactly representable as a
 * double (integers within ±2^53, nothing that overflows to infinity or vanishes to 0), no more than {@link MAX_VALUES} commas, and no object of
 * more than {@link MAX_MEMBERS}. Returns the refusal, or null when all is well.
 */
export function guardJson(text: string): Refusal | null {
  let depth = 0;
  let values = 0;
  /** Of the objects that are open, one at each depth. */
  const members = new Int32Array(MAX_DEPTH + 1);
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 44) {
      if (++values >= MAX_VALUES) {
        return { code: 'too_large', field: '', expected: `at most ${MAX_VALUES} members and elements`, got: 'more' };
      }
    } else if (c === 58) {
      if (++members[Math.max(depth, 0)]! > MAX_MEMBERS) {
        return { code: 'too_large', field: '', expected: `at most ${MAX_MEMBERS} members in an object`, got: 'more' };
      }
    } else if (c === QUOTE) {
      const end = endOfString(text, i);
      if (end < 0) return null; // not JSON; the parser reports it
      i = end;
    } else if (c === 123 || c === 91) {
      if (++depth > MAX_DEPTH) {
        return {
          code: 'too_deep',
          field: '',
          expected: `at most ${MAX_DEPTH} levels of nesting`,
          got: `more at character ${i}`,
        };
      }
      if (depth >= 0) members[depth] = 0;
    } else if (c === 125 || c === 93) {
      depth--;
    } else if (c === 45 || (c >= 48 && c <= 57)) {
      let end = i + 1;
      while (end < text.length && isNumberCharacter(text.charCodeAt(end))) end++;
      if (end - i > 15) {
        const token = text.slice(i, end);
        if (!isExact(token)) {
          return {
            code: 'bad_number',
            field: '',
            expected: 'a number that a 64-bit float holds (integers up to 2^53; send longer ones as text)',
            got: token.slice(0, 60),
          };
        }
      } else if (end - i > 3 && !survives(text.slice(i, end))) {
        return {
          code: 'bad_number',
          field: '',
          expected: 'a number that a 64-bit float holds',
          got: text.slice(i, end),
        };
      }
      i = end - 1;
    }
  }
  return null;
}

/** The quotation mark that ends the text begun at `open`; negative where none does. */
export function endOfString(text: string, open: number): number {
  let end = text.indexOf('"', open + 1);
  while (end > 0 && isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end;
}

function isEscaped(text: string, quote: number): boolean {
  let backslashes = 0;
  for (let k = quote - 1; text.charCodeAt(k) === BACKSLASH; k--) backslashes++;
  return backslashes % 2 === 1;
}

/** Puts what `token` finds outside of texts in quotes. The pattern is global and finds a quotation mark too. */
export function quoteTokens(text: string, token: RegExp): string {
  const pieces: string[] = [];
  let done = 0;
  for (let found = token.exec(text); found; found = token.exec(text)) {
    if (found[0] === '"') {
      const end = endOfString(text, found.index);
      if (end < 0) break;
      token.lastIndex = end + 1;
    } else {
      pieces.push(text.slice(done, found.index), `"${found[0]}"`);
      done = token.lastIndex;
    }
  }
  return pieces.join('') + text.slice(done);
}

const isNumberCharacter = (c: number): boolean =>
  (c >= 48 && c <= 57) || c === 46 || c === 43 || c === 45 || c === 69 || c === 101;

/** Decimal fractions may round (0.1 does); integers come back digit for digit, and nothing may overflow or vanish. */
function isExact(token: string): boolean {
  const value = Number(token);
  return survives(token) && (/[.eE]/.test(token) || Number.isSafeInteger(value) || String(value) === token);
}

function survives(token: string): boolean {
  const value = Number(token);
  return value === 0 ? !/[1-9]/.test(token.split(/[eE]/, 1)[0]!) : Number.isFinite(value);
}

/** Parses one record: size, guard, syntax. Never throws. */
export function parseRecord(text: string): { readonly value: unknown } | { readonly refusal: Refusal } {
  // A code unit is one to three bytes of UTF-8: short text need not be counted.
  const size = text.length * 3 <= MAX_RECORD_BYTES ? 0 : Buffer.byteLength(text);
  if (size > MAX_RECORD_BYTES) {
    return { refusal: { code: 'too_large', field: '', expected: `at most ${MAX_RECORD_BYTES} bytes`, got: `${size}` } };
  }
  const refusal = guardJson(text);
  if (refusal) return { refusal };
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    const got = error instanceof Error ? error.message : String(error);
    return { refusal: { code: 'bad_json', field: '', expected: 'one JSON value', got: got.slice(0, 160) } };
  }
}

/** Canonical JSON: object keys in code-unit order, no white space, `undefined` members left out, -0 kept. */
export function canonicalJson(value: unknown): string {
  if (typeof value === 'string') return textJson(value);
  if (value === null || typeof value !== 'object') {
    return Object.is(value, -0) ? '-0' : (JSON.stringify(value) ?? 'null');
  }
  if (Array.isArray(value)) {
    // Token ids and log-probabilities: most of what an event of ours holds.
    if (typeof value[0] === 'number' && value.every(isPlainNumber)) return JSON.stringify(value);
    let text = '[';
    for (let i = 0; i < value.length; i++) text += (i === 0 ? '' : ',') + canonicalJson(value[i]);
    return `${text}]`;
  }
  const record = value as Record<string, unknown>;
  const known = knownOf(record);
  if (known !== undefined && known.json !== '') return known.json;
  let text = '';
  for (const key of keysInOrder(record)) {
    const member = record[key];
    if (member === undefined) continue;
    text += (text === '' ? textOf(key).first : textOf(key).next) + canonicalJson(member);
  }
  text = text === '' ? '{}' : `${text}}`;
  if (known !== undefined) known.json = text;
  return text;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what JSON writes otherwise
const ESCAPED_IN_JSON = /["\\\u0000-\u001F\uD800-\uDFFF]/;

/** A text as JSON. Where nothing needs an escape, looking for it takes half the time of writing it anew. */
const textJson = (text: string): string => (ESCAPED_IN_JSON.test(text) ? JSON.stringify(text) : `"${text}"`);

/** In code-unit order. What was canonical once comes back in it, so sorting is rare. */
function keysInOrder(record: object): readonly string[] {
  const keys = Object.keys(record);
  for (let i = 1; i < keys.length; i++) {
    if (keys[i - 1]! <= keys[i]!) continue;
    return keys.length > FEW ? keys.sort() : insertionSort(keys, i);
  }
  return keys;
}

/** Up to so many keys are sorted in less time by hand. */
const FEW = 24;

/** Sorts, in place, keys of which those before `from` are in order. */
function insertionSort(keys: string[], from: number): readonly string[] {
  for (let i = from; i < keys.length; i++) {
    const key = keys[i]!;
    let at = i;
    for (; at > 0 && keys[at - 1]! > key; at--) keys[at] = keys[at - 1]!;
    keys[at] = key;
  }
  return keys;
}

/** What `JSON.parse` makes of the canonical JSON of a JSON value, without writing it: parts that are in order are not copied. */
export function inCanonicalOrder(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (isSettled(value)) return value;
  if (Array.isArray(value)) {
    let copy: unknown[] | null = null;
    for (let i = 0; i < value.length; i++) {
      const item = inCanonicalOrder(value[i]);
      if (item !== value[i]) copy ??= [...value];
      if (copy) copy[i] = item;
    }
    return copy ?? value;
  }
  const record = value as Record<string, unknown>;
  const ordered = keysInOrder(record);
  let copy: Record<string, unknown> | null = isInOrder(record, ordered) ? null : {};
  for (let i = 0; i < ordered.length; i++) {
    const key = ordered[i]!;
    const member = inCanonicalOrder(record[key]);
    if (copy === null && (member === undefined || member !== record[key])) {
      copy = {};
      for (let k = 0; k < i; k++) put(copy, ordered[k]!, record[ordered[k]!]);
    }
    if (copy && member !== undefined) put(copy, key, member);
  }
  return copy ?? value;
}

/** True where the keys of the record come in this order. */
function isInOrder(record: object, ordered: readonly string[]): boolean {
  let i = 0;
  for (const key in record) if (key !== ordered[i++]) return false;
  return i === ordered.length;
}

/** Adds a member; the key `__proto__` is one like any other. */
export function put(record: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__') {
    Object.defineProperty(record, key, { value, writable: true, enumerable: true, configurable: true });
  } else record[key] = value;
}

/** As `String`, and an object or a list as JSON: `String` ends on one whose `toString` is no function, as in a record from elsewhere. */
export const asText = (value: unknown): string =>
  typeof value === 'object' && value !== null ? canonicalJson(value) : String(value);

/** What `JSON.stringify` makes of a value; a member that is {@link settled} is not written again. */
export function stringify(value: unknown): string {
  if (!isRecord(value)) return JSON.stringify(value);
  const keys = Object.keys(value);
  if (!keys.some((key) => isRecord(value[key]) && isSettled(value[key]))) return JSON.stringify(value);
  let text = '';
  for (const key of keys) {
    const member = value[key];
    const written = isRecord(member) && isSettled(member) ? knownOf(member)!.json : JSON.stringify(member);
    if (written !== undefined) text += (text === '' ? textOf(key).first : textOf(key).next) + written;
  }
  return `${text}}`;
}

/** Names of members as JSON; the same few come again and again. */
const keys = new Map<string, KeyText>();
const MAX_KEYS = 10_000;

/** What stands before the value of a member: of the first with the brace, of the next with the comma. */
type KeyText = { readonly first: string; readonly next: string };

function textOf(key: string): KeyText {
  let text = keys.get(key);
  if (text === undefined) {
    const written = JSON.stringify(key);
    text = { first: `{${written}:`, next: `,${written}:` };
    if (keys.size < MAX_KEYS && key.length < 100) keys.set(key, text);
  }
  return text;
}

/**
 * Where a value that a program made is not JSON, or nested deeper than `depth` levels: NaN, infinity, a function, a Date … would be
 * silently written as something else. Null when it is JSON. A member that is `undefined` counts as absent.
 */
export function notJson(value: unknown, path: string, depth: number): Refusal | null {
  return isJson(value, depth) ? null : firstNotJson(value, path, depth);
}

/** Nearly all values are: of these no path is written. */
function isJson(value: unknown, depth: number): boolean {
  if (typeof value === 'string' || typeof value === 'boolean' || value === undefined || value === null) return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || depth === 0) return false;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) if (!isJson(value[i], depth - 1)) return false;
    return true;
  }
  const known = knownOf(value);
  if (known !== undefined && known.depth > 0 && known.depth <= depth) return true;
  if (typeof (value as { toJSON?: unknown }).toJSON === 'function') return false;
  // Without a list of the keys; what a prototype adds, which no JSON has, is looked at as well.
  for (const key in value) if (!isJson((value as Record<string, unknown>)[key], depth - 1)) return false;
  if (known !== undefined && !known.ordered) known.depth = depth;
  return true;
}

function firstNotJson(value: unknown, path: string, depth: number): Refusal | null {
  switch (typeof value) {
    case 'string':
    case 'boolean':
    case 'undefined':
      return null;
    case 'number':
      if (Number.isFinite(value)) return null;
      return { code: 'bad_number', field: path, expected: 'a finite number', got: String(value) };
    case 'object':
      break;
    default:
      return { code: 'bad_type', field: path, expected: 'a JSON value', got: `a ${typeof value}` };
  }
  if (value === null) return null;
  if (depth === 0) {
    return {
      code: 'too_deep',
      field: path.slice(0, 80),
      expected: `at most ${MAX_DEPTH} levels of nesting`,
      got: 'more',
    };
  }
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const item = value[i];
      if (typeof item === 'string' || (typeof item === 'number' && Number.isFinite(item))) continue;
      const found = firstNotJson(item, `${path}[${i}]`, depth - 1);
      if (found) return found;
    }
    return null;
  }
  if (typeof (value as { toJSON?: unknown }).toJSON === 'function') {
    return { code: 'bad_type', field: path, expected: 'a JSON value', got: `a ${value.constructor.name}` };
  }
  for (const key of Object.keys(value)) {
    const member = (value as Record<string, unknown>)[key];
    if (typeof member === 'string') continue;
    const found = firstNotJson(member, `${path}.${key}`, depth - 1);
    if (found) return found;
  }
  return null;
}

/** A number that `JSON.stringify` writes as it is: it would lose the sign of -0. */
const isPlainNumber = (item: unknown): boolean =>
  typeof item === 'number' && Number.isFinite(item) && !Object.is(item, -0);

/** SHA-256 as lower-case hex. */
export const sha256 = (text: string | Uint8Array): string => hash('sha256', text, 'hex');

/** A deterministic id: the first 32 hex digits of the SHA-256 over the parts as a canonical JSON array. */
export const hashId = (...parts: readonly unknown[]): string => sha256(canonicalJson(parts)).slice(0, 32);

/** The same of the parts as the canonical JSON array that they are. */
export const hashOfWritten = (parts: string): string => sha256(parts).slice(0, 32);

/** The entry of a table by a name that came from outside: names such as `constructor`, which every object answers to, have none. */
export const ownOf = <T>(table: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined;

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The members of a record that have no place of their own; undefined when there are none. */
export function without(
  record: Readonly<Record<string, unknown>>,
  ...known: readonly string[]
): Record<string, unknown> | undefined {
  let rest: Record<string, unknown> | undefined;
  for (const key of Object.keys(record)) {
    if (record[key] === undefined || known.includes(key)) continue;
    rest ??= {};
    put(rest, key, record[key]);
  }
  return rest;
}

/** `{ name: value }`, or nothing where the value is undefined. */
export const given = <K extends string, V>(name: K, value: V | undefined): { [key in K]?: V } =>
  value === undefined ? {} : ({ [name]: value } as { [key in K]?: V });
