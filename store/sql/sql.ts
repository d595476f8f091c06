/**
 * Questions in SQL. PostgreSQL's own grammar is the guard: the text becomes the query of a cursor, so only one SELECT, VALUES or
 * WITH passes; the transaction is read only, has its time limits, and is always rolled back. That stops changes to tables. What a
 * function does (sleep, lock, notify, read a file) is stopped by who asks: hand in the pool of `openReader`, whose login may do nothing.
 */
import { TroupeError } from '../../errors.ts';
import type { Column, Db, Session } from '../db/pool.ts';

export type SqlAnswer = {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly rows: readonly (readonly unknown[])[];
  /** More rows would have come than `limit`. */
  readonly truncated: boolean;
};

const MAX_SQL_BYTES = 64 * 1024;

/**
 * Runs one read-only query, at most `limit` rows and `timeoutMs` milliseconds.
 * @throws TroupeError `sql_refused` for what is not one query, `sql_failed` with PostgreSQL's words, `sql_timeout`.
 */
export async function ask(db: Db, sql: string, { limit = 10_000, timeoutMs = 30_000 } = {}): Promise<SqlAnswer> {
  return readOnly(db, sql, timeoutMs, async (tx) => {
    const { rows, columns } = await tx.query<unknown[]>(`fetch ${limit + 1} from answer`, undefined, { array: true });
    const names = await typeNames(tx, columns);
    return {
      columns: columns.map((column) => ({ name: column.name, type: names.get(column.type) ?? 'unknown' })),
      rows: rows.slice(0, limit),
      truncated: rows.length > limit,
    };
  });
}

/**
 * Runs `read` in a transaction that is read only, has its time limits and is always rolled back; in it stands the cursor `answer` over
 * the query. `read` is given the query's text, which by then is known to be one query and nothing else, so that it can stand in
 * parentheses (a line break goes before the closing one: the text may end with a comment).
 * @throws TroupeError as `ask`
 */
export async function readOnly<T>(
  db: Db,
  sql: string,
  timeoutMs: number,
  read: (tx: Session, text: string) => Promise<T>,
): Promise<T> {
  const text = sql.trim().replace(/;\s*$/, '');
  if (Buffer.byteLength(text) > MAX_SQL_BYTES) {
    throw new TroupeError(
      'sql_refused',
      `A query may have ${MAX_SQL_BYTES} bytes, this one has ${Buffer.byteLength(text)}.`,
    );
  }
  if (text.includes('\u0000') || !text.isWellFormed()) {
    throw new TroupeError('sql_refused', 'A query is text without U+0000 and lone surrogates.');
  }
  const undo = new Rollback<T>();
  try {
    await db.transaction(
      async (tx) => {
        await tx.query(`set local statement_timeout = ${Math.floor(timeoutMs)}`);
        await tx.query(`set local lock_timeout = 2000`);
        await tx.query(`set local search_path = traj, pg_catalog`);
        // The extended protocol takes exactly one statement, so nothing can follow the query's end.
        await tx.query(`declare answer no scroll cursor without hold for ${text}`, undefined, { extended: true });
        undo.answer = await read(tx, text);
        // A committed transaction could deliver notifications or keep settings: it never is.
        throw undo;
      },
      { readOnly: true },
    );
  } catch (error) {
    if (error !== undo) throw translated(error);
  }
  return undo.answer!;
}

/** Names of the columns' types as SQL writes them, by their number. */
export async function typeNames(tx: Session, columns: readonly Column[]): Promise<ReadonlyMap<number, string>> {
  const { rows } = await tx.query<{ oid: number; name: string }>(
    'select oid::integer as oid, format_type(oid, null) as name from pg_type where oid = any($1::oid[])',
    [[...new Set(columns.map((column) => column.type))]],
  );
  return new Map(rows.map((row) => [row.oid, row.name]));
}

class Rollback<T> extends Error {
  answer: T | undefined;
}

function translated(error: unknown): TroupeError {
  if (error instanceof TroupeError) return error;
  const { code, message } = error as { code?: string; message: string };
  if (code === '57014')
    return new TroupeError('sql_timeout', 'The query ran into its time limit and was stopped.', { cause: error });
  if (code === '42601' || code === '25006' || code === '0A000' || code === '42501') {
    return new TroupeError('sql_refused', `This is not one read-only query: ${message}.`, {
      hint: 'Write a single SELECT, VALUES or WITH query over the views of schema traj.',
      cause: error,
    });
  }
  return new TroupeError('sql_failed', `${message}.`, {
    hint: 'The views are in schema traj; `\\d` in psql or docs/sql.md lists them.',
    cause: error,
  });
}
