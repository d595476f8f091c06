/**
 * JSON as its source wrote it. `JSON.parse` forgets the spelling of numbers (`1.0`, `1e5`, integers beyond 2^53) and puts members that
 * are called like numbers first. Where that changed something, it is kept beside the object or list, which a copy loses and {@link respelled}
 * hands on. A model learns the arguments of a tool call as they were written, so they are never put in another order.
 */
import { endOfString, guardJson, isRecord, parseRecord, quoteTokens } from './json.ts';

/** What `JSON.parse` lost of an object or a list: how members or elements were spelled, and the order of all members. */
type Spelling = { readonly numbers: Map<string | number, string>; keys: readonly string[] | null };

const SPELLINGS = new WeakMap<object, Spelling>();

/** What may be spelled otherwise than `JSON.stringify` does, or is a name that looks like a number. Texts may hold it too, which costs a second look. */
const ODD = /\d\.\d*0(?![\d.])|\.0{5}|\d[eE][-+\d]|-0(?![\d.])|\d{16}|[\d.]{17}|"(?:0|[1-9]\d{0,9})"\s*:/;

/** Integers of more than 15 digits outside of texts, put in quotes. Looked for where a number begins: digits after a point are none. */
export const quoteLongIntegers = (text: string): string => quoteTokens(text, /"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g);

/**
 * Parses one record as `parseRecord` does, and keeps its spelling. An integer that no double holds is its decimal text, and is spelled as
 * the number that it was. Never throws.
 */
export function parseWritten(text: string): ReturnType<typeof parseRecord> {
  let parsed = parseRecord(text);
  if ('refusal' in parsed && parsed.refusal.code === 'bad_number') parsed = parseRecord(quoteLongIntegers(text));
  if ('value' in parsed) keepSpelling(parsed.value, text);
  return parsed;
}

/** The value of a text that {@link writtenJson} wrote, however long it is. @throws SyntaxError for what is no JSON */
export function parseOwn(text: string): unknown {
  const value: unknown = JSON.parse(guardJson(text) === null ? text : quoteLongIntegers(text));
  keepSpelling(value, text);
  return value;
}

/** Keeps with a value that was parsed from this text, in which long integers may have been put in quotes, how the text spells it. */
export function keepSpelling(value: unknown, text: string): void {
  if (typeof value === 'object' && value !== null && ODD.test(text)) scan(text, value);
}

function scan(text: string, root: object): void {
  let at = 0;
  const skipSpace = (): void => {
    while (text.charCodeAt(at) <= 32) at++;
  };
  /** Goes past one value, which is a member of `holder` where one is given. */
  const take = (value: unknown, holder: object | null, place: string | number): void => {
    skipSpace();
    const c = text.charCodeAt(at);
    if (c === 123) takeObject(isRecord(value) ? value : null);
    else if (c === 91) takeList(Array.isArray(value) ? value : null);
    else if (c === 34) at = endOfString(text, at) + 1;
    else takeWord(value, holder, place);
  };
  const takeWord = (value: unknown, holder: object | null, place: string | number): void => {
    const c = text.charCodeAt(at);
    const from = at;
    while (at < text.length && !ENDS.has(text.charCodeAt(at))) at++;
    if (holder === null || (c !== 45 && (c < 48 || c > 57))) return;
    const written = text.slice(from, at);
    // Infinity, which Python writes as it is, was read as a text, and is no number of JSON.
    if ((String(value) !== written || typeof value === 'string') && !written.endsWith('y')) {
      spellingOf(holder).numbers.set(place, written);
    }
  };
  const takeObject = (record: Record<string, unknown> | null): void => {
    if (record !== null) SPELLINGS.delete(record);
    const keys = new Set<string>();
    let numeric = false;
    at++;
    for (skipSpace(); text.charCodeAt(at) === 34; skipSpace()) {
      const end = endOfString(text, at);
      const inside = text.slice(at + 1, end);
      const key = inside.includes('\\') ? (JSON.parse(text.slice(at, end + 1)) as string) : inside;
      numeric ||= isIndex(key);
      // Of a member that comes twice the last counts, in the place of the first.
      if (record !== null && keys.has(key)) SPELLINGS.get(record)?.numbers.delete(key);
      keys.add(key);
      at = text.indexOf(':', end) + 1;
      take(record?.[key], record, key);
      skipSpace();
      if (text.charCodeAt(at) === 44) at++;
    }
    at++;
    if (record === null || !numeric) return;
    const written = [...keys];
    if (Object.keys(record).some((key, i) => key !== written[i])) spellingOf(record).keys = written;
  };
  const takeList = (list: readonly unknown[] | null): void => {
    if (list !== null) SPELLINGS.delete(list);
    at++;
    skipSpace();
    for (let i = 0; text.charCodeAt(at) !== 93 && at < text.length; i++) {
      take(list?.[i], list, i);
      skipSpace();
      if (text.charCodeAt(at) === 44) at++;
      skipSpace();
    }
    at++;
  };
  take(root, null, '');
}

const ENDS = new Set([44, 93, 125, 32, 9, 10, 13]);

const isIndex = (key: string): boolean => /^(?:0|[1-9]\d{0,9})$/.test(key);

function spellingOf(holder: object): Spelling {
  const known = SPELLINGS.get(holder) ?? { numbers: new Map(), keys: null };
  SPELLINGS.set(holder, known);
  return known;
}

/** What `JSON.parse` lost of an object or a list; undefined where it lost nothing. */
export const spellingIn = (value: object): Spelling | undefined => SPELLINGS.get(value);

/** A copy that has the members of `original`, some of them changed, with the spelling of those that did not. */
export function respelled<T>(copy: T, original: object): T {
  const known = SPELLINGS.get(original);
  if (known === undefined || typeof copy !== 'object' || copy === null) return copy;
  const before = original as Record<string | number, unknown>;
  const now = copy as Record<string | number, unknown>;
  const numbers = new Map([...known.numbers].filter(([place]) => now[place] === before[place]));
  const keys = known.keys?.every((key) => Object.hasOwn(now, key)) ? known.keys : null;
  if (numbers.size > 0 || keys !== null) SPELLINGS.set(copy, { numbers, keys });
  return copy;
}

/** A JSON value in the order and spelling of its source, on one line without white space, as `JSON.stringify` writes. */
export const writtenJson = (value: unknown): string => write(value, ',', ':');

/** Of values that were parsed from the text of arguments, that text. */
const TEXTS = new WeakMap<object, string>();

/** Keeps with parsed arguments the text that they were parsed from. */
export const keepText = (value: object, text: string): void => void TEXTS.set(value, text);

/**
 * The arguments of a tool call as text: the one that they were parsed from, or for an object that its source gave in the order and spelling
 * of the source, with a space after `,` and `:`, as `json.dumps` and the `tojson` of chat templates write.
 */
export const writtenArguments = (value: unknown): string =>
  (typeof value === 'object' && value !== null ? TEXTS.get(value) : undefined) ?? write(value, ', ', ': ');

function write(value: unknown, comma: string, colon: string): string {
  if (typeof value !== 'object' || value === null) {
    return Object.is(value, -0) ? '-0' : (JSON.stringify(value) ?? 'null');
  }
  const spelling = SPELLINGS.get(value);
  const member = (one: unknown, place: string | number): string =>
    spelling?.numbers.get(place) ?? write(one, comma, colon);
  if (Array.isArray(value)) return `[${value.map(member).join(comma)}]`;
  const record = value as Record<string, unknown>;
  const texts: string[] = [];
  for (const key of spelling?.keys ?? Object.keys(record)) {
    if (record[key] !== undefined) texts.push(`${JSON.stringify(key)}${colon}${member(record[key], key)}`);
  }
  return `{${texts.join(comma)}}`;
}
