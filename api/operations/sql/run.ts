/** What queries in SQL do. */
import { TroupeError } from '../../../errors.ts';
import { noReader } from '../../../store/db/reader.ts';
import { explain } from '../../../store/explore/sql/explain.ts';
import { ask, type SqlCaps } from '../../../store/explore/sql/sql.ts';
import { askAsText, CSV_FORM, inJson } from '../../../store/explore/sql/sql-text.ts';
import type { ReadContext } from '../operation.ts';

export type SqlInput = {
  readonly sql: string;
  readonly limit?: number;
  readonly max_bytes?: number;
  readonly timeout_ms?: number;
  readonly format?: 'csv' | 'arrow' | 'parquet';
  readonly out?: string;
};

/** @throws TroupeError `sql_refused` where the server lets no login be made that reads the views and nothing else */
async function readerOf({ reader }: ReadContext) {
  const db = await reader();
  if (db === null) throw noReader();
  return db;
}

export async function sql(context: ReadContext, { sql: text, format, out, ...input }: SqlInput) {
  const { limit, max_bytes: maxBytes, timeout_ms: timeoutMs } = input;
  const caps: SqlCaps = {
    ...(limit === undefined ? {} : { limit }),
    ...(maxBytes === undefined ? {} : { maxBytes }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  };
  if (format !== undefined && out !== undefined)
    throw new TroupeError('usage', 'format and out do not go together; give one of them.', { field: 'format' });
  if (format !== undefined && format !== 'csv' && process.stdout.isTTY)
    throw new TroupeError('usage', `The format ${format} is bytes; redirect them: > answer.${format}`, {
      field: 'format',
    });
  const db = await readerOf(context);
  if (out !== undefined) {
    const { askIntoFile } = await import('../../../store/explore/sql/sql-file.ts');
    const { columns, ...file } = await askIntoFile(db, text, out, caps);
    return { columns, rows: [], truncated: file.rows === limit ? null : false, written: { file: out, ...file } };
  }
  if (format !== undefined) {
    const { rows, truncated } = await (format === 'csv'
      ? askAsText(db, text, CSV_FORM, caps, print)
      : printed(db, text, caps, format));
    return { columns: [], rows: [], truncated, written: { file: null, rows } };
  }
  const found = await context.patiently(() => ask(db, text, caps));
  return { ...found, rows: found.rows.map((row) => row.map(inJson)) };
}

/** Not tried again where the database goes away: some of it is printed already. */
async function printed(db: Parameters<typeof ask>[0], text: string, caps: SqlCaps, format: 'arrow' | 'parquet') {
  const { askAsArrow } = await import('../../../store/explore/sql/sql-file.ts');
  if (format === 'arrow') return askAsArrow(db, text, caps, print);
  const parts: Uint8Array[] = [];
  const end = await askAsArrow(db, text, caps, (bytes) => {
    parts.push(bytes);
  });
  const { parquetOf } = await import('../../../store/datasets/parquet.ts');
  for await (const part of parquetOf([Buffer.concat(parts)])) await print(part);
  return end;
}

const print = (bytes: string | Uint8Array): Promise<void> =>
  new Promise((resolve, reject) => {
    process.stdout.write(bytes, (error) => (error ? reject(error) : resolve()));
  });

export async function explained(context: ReadContext, { sql: text, timeout_ms: timeoutMs }: SqlInput) {
  const db = await readerOf(context);
  return { plan: await context.patiently(() => explain(db, text, timeoutMs === undefined ? {} : { timeoutMs })) };
}
