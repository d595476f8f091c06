/**
 * Literals of Python one after another, as some logs are written: dicts, lists, tuples, strings, numbers, True, False, None,
 * and what the `repr` of an object shows, `Name(member=value)`. Only read, never run; a tuple becomes a list, an object one of JSON without
 * its name, a number that JSON has no word for stays text.
 */

const MAX_DEPTH = 64;
const WORDS: Readonly<Record<string, unknown>> = { True: true, False: false, None: null };
const NUMBER = /[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y;
const WORD = /[A-Za-z_][\w.]*/y;
const STRING = /([rRuUbB]{0,2})('''|"""|'|")/y;
const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  a: '\u0007',
  b: '\b',
  f: '\f',
  v: '\v',
  '\n': '',
};

/** The values of a text that holds literals and white space alone; null for any other text. */
export function pythonLiterals(text: string): unknown[] | null {
  const reader = { text, at: 0 };
  const values: unknown[] = [];
  try {
    for (skip(reader); reader.at < text.length; skip(reader)) values.push(read(reader, 0));
  } catch (error) {
    if (error instanceof NotALiteral) return null;
    throw error;
  }
  return values;
}

class NotALiteral extends Error {}

type Reader = { readonly text: string; at: number };

function skip(reader: Reader): void {
  while (/\s/.test(reader.text.charAt(reader.at))) reader.at++;
}

function match(reader: Reader, pattern: RegExp): RegExpExecArray | null {
  pattern.lastIndex = reader.at;
  const found = pattern.exec(reader.text);
  if (found) reader.at += found[0].length;
  return found;
}

function read(reader: Reader, depth: number): unknown {
  if (depth > MAX_DEPTH) throw new NotALiteral();
  const c = reader.text.charAt(reader.at);
  if (c === '{') return Object.fromEntries(sequence(reader, '}', () => member(reader, depth + 1)));
  if (c === '[' || c === '(') return sequence(reader, c === '[' ? ']' : ')', () => read(reader, depth + 1));
  const quoted = match(reader, STRING);
  if (quoted) return strings(reader, quoted);
  const number = match(reader, NUMBER);
  if (number) {
    const value = Number(number[0].replaceAll('_', ''));
    return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value)) ? value : number[0];
  }
  const word = match(reader, WORD)?.[0] ?? '';
  if (reader.text.charAt(reader.at) === '(' && word !== '')
    return Object.fromEntries(sequence(reader, ')', () => keyword(reader, depth + 1)));
  if (!Object.hasOwn(WORDS, word)) throw new NotALiteral();
  return WORDS[word];
}

/** What stands between two brackets, with commas between. */
function sequence<T>(reader: Reader, end: string, item: () => T): T[] {
  const values: T[] = [];
  reader.at++;
  for (skip(reader); reader.text.charAt(reader.at) !== end; skip(reader)) {
    values.push(item());
    skip(reader);
    const c = reader.text.charAt(reader.at);
    if (c === ',') reader.at++;
    else if (c !== end) throw new NotALiteral();
  }
  reader.at++;
  return values;
}

function expect(reader: Reader, mark: string): void {
  if (reader.text.charAt(reader.at++) !== mark) throw new NotALiteral();
}

function member(reader: Reader, depth: number): [string, unknown] {
  const key = read(reader, depth);
  skip(reader);
  expect(reader, ':');
  skip(reader);
  return [typeof key === 'string' ? key : JSON.stringify(key), read(reader, depth)];
}

/** A member of an object in the form of a call with keywords. */
function keyword(reader: Reader, depth: number): [string, unknown] {
  const name = match(reader, WORD)?.[0];
  if (name === undefined) throw new NotALiteral();
  expect(reader, '=');
  return [name, read(reader, depth)];
}

/** Strings side by side are one. */
function strings(reader: Reader, first: RegExpExecArray): string {
  let whole = '';
  for (let quoted: RegExpExecArray | null = first; quoted; quoted = match(reader, STRING)) {
    whole += string(reader, quoted[2]!, /r/i.test(quoted[1]!));
    const after = reader.at;
    while (/[ \t]/.test(reader.text.charAt(reader.at))) reader.at++;
    if (!/[rub'"]/i.test(reader.text.charAt(reader.at))) reader.at = after;
  }
  return whole;
}

function string(reader: Reader, quote: string, raw: boolean): string {
  const { text } = reader;
  let value = '';
  while (reader.at < text.length) {
    if (text.startsWith(quote, reader.at)) {
      reader.at += quote.length;
      return value;
    }
    const c = text.charAt(reader.at++);
    if (c === '\n' && quote.length === 1) throw new NotALiteral();
    value += c !== '\\' ? c : raw ? c + text.charAt(reader.at++) : escaped(reader);
  }
  throw new NotALiteral();
}

const CODED = /x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})/y;

function escaped(reader: Reader): string {
  const coded = match(reader, CODED);
  if (coded) {
    const octal = coded[4];
    const code =
      octal === undefined ? Number.parseInt((coded[1] ?? coded[2] ?? coded[3])!, 16) : Number.parseInt(octal, 8);
    if (code > 0x10ffff) throw new NotALiteral();
    return String.fromCodePoint(code);
  }
  const c = reader.text.charAt(reader.at++);
  return ESCAPES[c] ?? (c === '\\' || c === "'" || c === '"' ? c : `\\${c}`);
}
