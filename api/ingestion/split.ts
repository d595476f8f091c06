/**
 * Splits a batch into its records before any is parsed, so that one bad record does not reject the others, and the raw bytes of each
 * are available if it becomes a dead letter.
 */

import { endOfString } from '../../ingest/events/json.ts';
import { utf8 } from '../../ingest/events/text.ts';
import { BodyRefused } from '../http/problem.ts';

/** One record as it was sent. `text` is null where its bytes are not UTF-8. */
export type RawRecord = { readonly text: string | null; readonly raw: string | Uint8Array; readonly place: string };

/** Records in one request; more of them are refused as `too_large`. */
const MAX_RECORDS = 10_000;

/** Lines of one request, with the empty ones; more are refused as `too_large`. */
const MAX_LINES = 100_000;

const QUOTE = 34;

/** The elements of a JSON array, each as its own text. Throws `BodyRefused` where brackets, quotes or commas do not make an array. */
export function splitArray(text: string): RawRecord[] {
  const records: RawRecord[] = [];
  let i = skipSpace(text, 0);
  if (text.charCodeAt(i) !== 91) throw notAnArray('something else');
  i = skipSpace(text, i + 1);
  if (text.charCodeAt(i) === 93) return atEnd(text, i + 1, records);
  for (;;) {
    const from = i;
    const end = endOfElement(text, from);
    const element = text.slice(from, end).trimEnd();
    if (element === '') throw notAnArray(`nothing at element ${records.length}`);
    add(records, { text: element, raw: element, place: `[${records.length}]` });
    if (text.charCodeAt(end) === 93) return atEnd(text, end + 1, records);
    i = skipSpace(text, end + 1);
  }
}

/** Index of the comma or bracket that ends the element that begins at `from`. */
function endOfElement(text: string, from: number): number {
  let depth = 0;
  for (let i = from; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === QUOTE) {
      i = endOfString(text, i);
      if (i < 0) break;
    } else if (c === 123 || c === 91) {
      depth++;
    } else if (c === 125 || c === 93) {
      if (depth === 0) {
        if (c === 93) return i;
        break;
      }
      depth--;
    } else if (c === 44 && depth === 0) {
      return i;
    }
  }
  throw notAnArray('one that does not end');
}

function skipSpace(text: string, from: number): number {
  let i = from;
  while (i < text.length && isSpace(text.charCodeAt(i))) i++;
  return i;
}

const isSpace = (c: number): boolean => c === 32 || c === 10 || c === 13 || c === 9;

function atEnd(text: string, from: number, records: RawRecord[]): RawRecord[] {
  if (skipSpace(text, from) === text.length) return records;
  throw notAnArray('one with more behind it');
}

const notAnArray = (got: string): BodyRefused =>
  new BodyRefused({ code: 'bad_json', field: '', expected: 'a JSON array', got });

/** The lines of an NDJSON body; empty lines count but are no records. */
export function splitLines(bytes: Uint8Array): RawRecord[] {
  const records: RawRecord[] = [];
  const whole = utf8(bytes);
  let line = 0;
  const lineBegins = (): void => {
    if (++line > MAX_LINES) throw tooMany(`at most ${MAX_LINES} lines in one request`);
  };
  if (whole !== null) {
    for (let from = 0; from < whole.length; ) {
      lineBegins();
      const newline = whole.indexOf('\n', from);
      const end = newline < 0 ? whole.length : newline;
      const text = whole.slice(from, end).trim();
      if (text !== '') add(records, { text, raw: text, place: `line ${line}` });
      from = end + 1;
    }
    return records;
  }
  for (let from = 0; from < bytes.length; ) {
    lineBegins();
    const newline = bytes.indexOf(10, from);
    const end = newline < 0 ? bytes.length : newline;
    const raw = bytes.subarray(from, end);
    const text = utf8(raw)?.trim() ?? null;
    if (text !== '') add(records, { text, raw, place: `line ${line}` });
    from = end + 1;
  }
  return records;
}

function add(records: RawRecord[], record: RawRecord): void {
  if (records.length === MAX_RECORDS) throw tooMany(`at most ${MAX_RECORDS} events in one request`);
  records.push(record);
}

const tooMany = (expected: string): BodyRefused =>
  new BodyRefused({ code: 'too_large', field: '', expected, got: 'more' });
