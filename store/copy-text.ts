/** Rows as the text that `COPY … FROM STDIN` reads, each value as `json_to_recordset` would have read it from the same row's JSON. */
import type { ColumnType, Row } from './projections/projection.ts';

const NULL = '\\N';

/** Bytes after which what is there goes on its way: the server reads while the next rows are written. */
const PIECE = 64 * 1024;

/** A column, and in which of the parts of a row it stands. */
export type CopyColumn = { readonly name: string; readonly type: ColumnType; readonly part: number };

/**
 * The lines of rows that come in parts, columns in the order of `columns`; what a row lacks is null.
 * @throws RangeError for text that is no UTF-8, and for what is no flat list where a column takes one.
 */
export function* copyText(
  rows: Iterable<readonly (Row | undefined)[]>,
  columns: readonly CopyColumn[],
): Generator<Buffer, void, undefined> {
  const fields = columns.map(({ name, type, part }) => ({ name, part, write: fieldOf(type) }));
  let lines = '';
  for (const parts of rows) {
    let gap = '';
    for (const { name, part, write } of fields) {
      const value = parts[part]?.[name];
      lines += gap + (value === null || value === undefined ? NULL : write(value));
      gap = '\t';
    }
    lines += '\n';
    if (lines.length < PIECE) continue;
    yield Buffer.from(lines);
    lines = '';
  }
  if (lines !== '') yield Buffer.from(lines);
}

type Field = (value: unknown) => string;

function fieldOf(type: ColumnType): Field {
  if (type === 'json') return (value) => escaped(JSON.stringify(value));
  if (type.endsWith('[]')) return (value) => escaped(arrayText(value));
  return scalar;
}

const scalar: Field = (value) => {
  if (typeof value === 'string') return escaped(value);
  // As in JSON, a number that is none is unknown.
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : NULL;
  return escaped(JSON.stringify(value));
};

const SPECIAL = /[\\\n\r\t]/;
const REPLACED: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function escaped(text: string): string {
  // Encoding would put U+FFFD in its place without a word.
  if (!text.isWellFormed()) throw new RangeError('text with a lone surrogate');
  return SPECIAL.test(text) ? text.replaceAll(/[\\\n\r\t]/g, (character) => REPLACED[character]!) : text;
}

/** A list as PostgreSQL writes one: `{1,2}`, `{"a","b"}`, NULL for an element that is none. */
export function arrayText(list: unknown): string {
  if (!Array.isArray(list)) throw new RangeError('no list where a column takes one');
  return `{${list.map(elementText).join(',')}}`;
}

function elementText(value: unknown): string {
  if (value === null) return 'NULL';
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : 'NULL';
  if (typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return `"${value.replaceAll(/["\\]/g, '\\$&')}"`;
  throw new RangeError('a list within a list');
}
