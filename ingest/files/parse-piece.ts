/** The bytes of one record as JSON, or why they are none. */
import { isUtf8 } from 'node:buffer';
import { got, type Refusal } from '../../errors.ts';
import { guardJson, quoteTokens } from '../events/json.ts';
import { keepSpelling, quoteLongIntegers } from '../events/spelling.ts';
import { isSpace, type Piece } from './split-records.ts';

/** Largest file that is taken as one document, in bytes. */
export const MAX_DOCUMENT_BYTES = 256 * 1024 * 1024;

/** One record of a file: its value, or why it could not be read. */
export type FileRecord = {
  /** 1-based line on which it begins. */
  readonly line: number;
  /** Bytes of the file up to its end, for progress. */
  readonly end: number;
  /** As it stands in the file; of a record that is too large only its beginning. */
  readonly raw: Buffer;
} & ({ readonly value: unknown; readonly refusal?: never } | { readonly refusal: Refusal; readonly value?: never });

/** Times of OTLP and MLflow in nanoseconds, which may be numbers or text, what Tinker's sampling counts, the `chat_id` of AG2, 128 bits that it draws, and the arguments of calls, which are the model's. */
const LONG_INTEGERS =
  /"(?:resource(?:Spans|Logs)|chat_history|arguments|args|input|start_time(?:_unix_nano)?|seq_id)"\s*:/;

/** Reads one piece as JSON; null where it is blank. NaN and infinities, which Python writes as they are, become text, as in OTLP. */
export function parsePiece(piece: Piece, limit: number): FileRecord | null {
  const { line, end, size } = piece;
  const raw = trim(piece.raw, line === 1);
  if (raw.length === 0) return null;
  const place = { line, end, raw };
  if (size > limit) {
    return { ...place, refusal: problem('too_large', `a record of at most ${limit} bytes`, `${size} bytes`) };
  }
  if (!isUtf8(raw)) {
    return { ...place, refusal: problem('bad_json', 'text in UTF-8', 'bytes that are not UTF-8') };
  }
  const written = raw.toString('utf8');
  const first = guardJson(written);
  const text = first !== null && LONG_INTEGERS.test(written) ? quoteLongIntegers(written) : written;
  const refusal = first && guardJson(text);
  if (refusal) return { ...place, refusal };
  try {
    const value = jsonOf(text);
    keepSpelling(value, written);
    return { ...place, value };
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error);
    return { ...place, refusal: problem('bad_json', 'one JSON value', got(words, 200)) };
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!/NaN|Infinity/.test(text)) throw error;
    return JSON.parse(quoteTokens(text, /"|\bNaN\b|-?\bInfinity\b/g));
  }
}

export const problem = (code: 'too_large' | 'bad_json' | 'bad_shape', expected: string, what: string): Refusal => ({
  code,
  field: '',
  expected,
  got: what,
});

function trim(raw: Buffer, first: boolean): Buffer {
  let from = first && raw[0] === 0xef && raw[1] === 0xbb && raw[2] === 0xbf ? 3 : 0;
  let to = raw.length;
  while (from < to && isSpace(raw[from]!)) from++;
  while (to > from && isSpace(raw[to - 1]!)) to--;
  return raw.subarray(from, to);
}
