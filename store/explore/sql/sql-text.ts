/** The answer to a question in SQL as text, JSON or CSV, written while its rows come. The guard is that of `sql.ts`. */
import type { Db } from '../../db/pool.ts';
import { askInParts, type SqlCaps, type SqlColumn } from './sql.ts';

/** How columns, rows and the end of an answer are written. */
export type TextForm = {
  readonly head: (columns: readonly SqlColumn[]) => string;
  readonly rows: (rows: readonly (readonly unknown[])[], first: boolean) => string;
  readonly tail: (truncated: boolean) => string;
};

/** One document, as `ask` returns it. */
export const JSON_FORM: TextForm = {
  head: (columns) => `{"columns":${JSON.stringify(columns)},"rows":[`,
  rows: (rows, first) => (first ? '' : ',') + rows.map((row) => JSON.stringify(row.map(inJson))).join(','),
  tail: (truncated) => `],"truncated":${truncated}}`,
};

/** JSON has no NaN and no infinity: they are texts, as PostgreSQL writes them in JSON, and not null. */
export const inJson = (value: unknown): unknown => {
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  return Array.isArray(value) ? value.map(inJson) : value;
};

/**
 * RFC 4180 with a line of column names. Null is nothing, an empty text is `""`; JSON and arrays are JSON text, times are ISO 8601.
 */
export const CSV_FORM: TextForm = {
  head: (columns) => `${columns.map(({ name }) => field(name)).join(',')}\r\n`,
  rows: (rows) => rows.map((row) => `${row.map(field).join(',')}\r\n`).join(''),
  tail: () => '',
};

function field(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * Hands the answer to `write` in that form, part by part.
 * @throws TroupeError as `ask`; what `write` throws
 */
export async function askAsText(
  db: Db,
  sql: string,
  form: TextForm,
  caps: SqlCaps,
  write: (text: string) => void | Promise<void>,
): Promise<{ readonly rows: number; readonly truncated: boolean }> {
  let first = true;
  const end = await askInParts(db, sql, caps, {
    columns: (columns) => write(form.head(columns)),
    rows: (rows) => {
      const text = form.rows(rows, first);
      first = false;
      return write(text);
    },
  });
  await write(form.tail(end.truncated));
  return end;
}
