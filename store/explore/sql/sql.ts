/**
 * Questions in SQL. PostgreSQL's own grammar is the guard: the text becomes the query of a cursor, so only one SELECT, VALUES or
 * WITH passes; the transaction is read only, has its time limits, and is always rolled back. That stops changes to tables. What a
 * function does (sleep, lock, notify, read a file) is stopped by who asks: hand in the pool of `openReader`, whose login may do nothing.
 */
import { TroupeError } from '../../../errors.ts';
import type { Db, ResultColumn, Session } from '../../db/pool.ts';
import { limitName } from '../../server/tool-clock.ts';
import { adviceOn, listViews } from './views.ts';

export type SqlColumn = { readonly name: string; readonly type: string };

export type SqlAnswer = {
  readonly columns: readonly SqlColumn[];
  readonly rows: readonly (readonly unknown[])[];
  /** More rows would have come than `limit`, or than fit into `maxBytes`. */
  readonly truncated: boolean;
};

export type SqlCaps = {
  /** Rows at most (10,000). */
  readonly limit?: number;
  /** Bytes of rows at most, as the server sends them (64 MiB): the first row past them is the last. */
  readonly maxBytes?: number;
  /** Milliseconds at most (30,000), waiting for a connection and sending included. */
  readonly timeoutMs?: number;
  /** Ends the query when it aborts. */
  readonly signal?: AbortSignal;
};

/** What applies where a question names no caps. */
export const SQL_CAPS = { limit: 10_000, maxBytes: 64 * 1024 * 1024, timeoutMs: 30_000 } as const;

/** Bytes at most of the rows that are read at once, from one row to 256: so many are held in memory. */
export const MAX_READ_BYTES = 64 * 1024 * 1024;

/** Bytes of one value at most: as many as an event may have. */
export const MAX_VALUE_BYTES = 32 * 1024 * 1024;

const MAX_SQL_BYTES = 64 * 1024;

/** Levels of nesting of a JSON value at most: some thousands are more than a program can write again. */
const MAX_VALUE_DEPTH = 1000;
/** json, jsonb, and lists of them. */
const JSON_OIDS = [114, 3802, 199, 3807];

/** Rows are fetched about so many bytes at a time. */
const PART_BYTES = 512 * 1024;
const PART_ROWS = 256;

/** How long after the server's own clock the one outside it ends a query, in milliseconds. */
const OUTSIDE_MS = 250;

/**
 * Runs one read-only query.
 * @throws TroupeError `sql_refused` for what is not one query, `sql_failed` with PostgreSQL's words, `sql_timeout`, `too_large` for a
 * value of more than 32 MiB or of JSON with more than 1,000 levels, or a row of more than 64 MiB
 */
export async function ask(db: Db, sql: string, caps: SqlCaps = {}): Promise<SqlAnswer> {
  let columns: readonly SqlColumn[] = [];
  const parts: (readonly (readonly unknown[])[])[] = [];
  const { truncated } = await askInParts(db, sql, caps, {
    columns: (found) => {
      columns = found;
    },
    rows: (part) => {
      parts.push(part);
    },
  });
  return { columns, rows: parts.flat(), truncated };
}

/**
 * Runs one read-only query and hands its rows to `sink` in parts of about 512 KiB, so that memory holds one part.
 * @throws TroupeError as `ask`; what `sink` throws
 */
export async function askInParts(
  db: Db,
  sql: string,
  { limit = SQL_CAPS.limit, maxBytes = SQL_CAPS.maxBytes, timeoutMs = SQL_CAPS.timeoutMs, signal }: SqlCaps,
  sink: {
    readonly columns: (columns: readonly SqlColumn[]) => void | Promise<void>;
    readonly rows: (part: readonly (readonly unknown[])[]) => void | Promise<void>;
  },
): Promise<{ readonly rows: number; readonly truncated: boolean }> {
  return readOnly(db, sql, { timeoutMs, ...(signal ? { signal } : {}) }, async (tx) => {
    let rows = 0;
    let bytes = 0;
    // One row first: its size determines how many more may come at once.
    let next = 1;
    for (;;) {
      const full = rows >= limit || bytes >= maxBytes;
      const asked = full ? 1 : Math.min(next, limit - rows);
      const part = await tx.query<unknown[]>(`fetch ${asked} from answer`, undefined, {
        array: true,
        maxBytes: MAX_READ_BYTES,
        maxValueBytes: MAX_VALUE_BYTES,
      });
      if (rows === 0) {
        const names = await typeNames(tx, part.columns);
        await sink.columns(part.columns.map(({ name, type }) => ({ name, type: names.get(type) ?? 'unknown' })));
      }
      if (full) return { rows, truncated: part.rows.length > 0 };
      refuseDeep(part);
      if (part.rows.length > 0) await sink.rows(part.rows);
      if (part.rows.length < asked) return { rows: rows + part.rows.length, truncated: false };
      rows += part.rows.length;
      bytes += part.bytes!;
      next = Math.max(1, Math.min(PART_ROWS, next * 8, Math.floor(PART_BYTES / (bytes / rows))));
    }
  });
}

/** Readers of Arrow and Parquet name columns, and of two with one name they take one without a word. */
export function refuseTwins(columns: readonly Pick<ResultColumn, 'name'>[]): void {
  const twice = columns.find(({ name }, i) => columns.findIndex((other) => other.name === name) < i);
  if (twice)
    throw new TroupeError('sql_refused', `Two columns are called ${twice.name}, of which most readers take one.`, {
      hint: 'Give each a name of its own with AS.',
    });
}

function refuseDeep({
  columns,
  rows,
}: {
  readonly columns: readonly ResultColumn[];
  readonly rows: readonly unknown[][];
}): void {
  columns.forEach(({ name, type }, i) => {
    if (JSON_OIDS.includes(type) && rows.some((row) => isDeeper(row[i], MAX_VALUE_DEPTH)))
      throw new TroupeError(
        'too_large',
        `A value of the column ${name} has more than ${MAX_VALUE_DEPTH} levels of JSON.`,
        {
          hint: 'Select it as text, (…)::text, or a part of it.',
        },
      );
  });
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  for (const one of Array.isArray(value) ? value : Object.values(value)) if (isDeeper(one, levels - 1)) return true;
  return false;
}

/**
 * Runs `read` in a transaction that is read only, has its time limits and is always rolled back; in it stands the cursor `answer` over
 * the query. `read` is given the query's text, which by then is known to be one query and nothing else, so that it can stand in
 * parentheses (a line break goes before the closing one: the text may end with a comment). A clock of this process cancels what the
 * server's clock did not stop, and cuts the connection one second after the deadline at the latest. It counts from the call on: where
 * other queries have all connections, waiting for one is part of the time.
 * @throws TroupeError as `ask`
 */
export async function readOnly<T>(
  db: Db,
  sql: string,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal?: AbortSignal },
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
  const deadline = new AbortController();
  const stop = signal ? AbortSignal.any([signal, deadline.signal]) : deadline.signal;
  // A reader that waits for its client would never see that its connection was cut.
  const stopped = new Promise<never>((_, reject) => {
    stop.addEventListener('abort', () => reject(stop.reason), { once: true });
  });
  stopped.catch(() => {});
  const clock = setTimeout(() => deadline.abort(), timeoutMs + OUTSIDE_MS);
  let hasBegun = false;
  try {
    const asked = db.transaction(
      async (tx) => {
        hasBegun = true;
        // The extended protocol takes exactly one statement, so nothing can follow the query's end.
        await tx.query(`declare answer no scroll cursor without hold for ${text}`, undefined, { extended: true });
        stop.throwIfAborted();
        undo.answer = await Promise.race([read(tx, text), stopped]);
        // A committed transaction could deliver notifications or keep settings: it never is.
        throw undo;
      },
      {
        readOnly: true,
        settings: `set local statement_timeout = ${Math.floor(timeoutMs)}; set local application_name = '${limitName(Math.ceil(timeoutMs))}'; set local lock_timeout = 2000; set local search_path = traj, pg_catalog`,
        signal: stop,
      },
    );
    asked.catch(() => {}); // Comes to nothing, later, where the time was over before it had a connection.
    await Promise.race([asked, stopped.catch((reason) => (hasBegun ? asked : Promise.reject(reason)))]);
  } catch (error) {
    if (error !== undo) {
      if (deadline.signal.aborted) throw hasBegun ? timedOut(error) : waitedTooLong(error);
      throw await suggesting(db, text, translated(error));
    }
  } finally {
    clearTimeout(clock);
  }
  return undo.answer!;
}

/** Names of types that every server of a version has, by their number: those from 16384 on are made in a database. */
const BUILT_IN = new Map<number, string>();
const FIRST_MADE = 16_384;

/** Names of the columns' types as SQL writes them, by their number. */
export async function typeNames(tx: Session, columns: readonly ResultColumn[]): Promise<ReadonlyMap<number, string>> {
  const wanted = [...new Set(columns.map(({ type }) => type))];
  if (wanted.every((oid) => BUILT_IN.has(oid))) return BUILT_IN;
  const { rows } = await tx.query<{ oid: number; name: string }>(
    'select oid::integer as oid, format_type(oid, null) as name from pg_type where oid = any($1::oid[])',
    [wanted],
  );
  for (const { oid, name } of rows) if (oid < FIRST_MADE) BUILT_IN.set(oid, name);
  return new Map(rows.map(({ oid, name }) => [oid, name]));
}

class Rollback<T> extends Error {
  answer: T | undefined;
}

const timedOut = (cause: unknown): TroupeError =>
  new TroupeError('sql_timeout', 'The query ran into its time limit and was stopped.', { cause });

const waitedTooLong = (cause: unknown): TroupeError =>
  new TroupeError(
    'sql_timeout',
    'The query waited for a connection until its time limit: other queries had them all.',
    {
      cause,
      hint: 'Ask again, ask fewer at once, or raise the limit.',
    },
  );

function translated(error: unknown): TroupeError {
  if (error instanceof TroupeError) return error;
  const { code, message } = error as { code?: string; message: string };
  if (code === '57014') return timedOut(error);
  if (code === '42601' || code === '25006' || code === '0A000' || code === '42501') {
    return new TroupeError('sql_refused', `This is not one read-only query: ${message}.`, {
      hint: 'Write a single SELECT, VALUES or WITH query over the views of schema traj.',
      cause: error,
    });
  }
  if (code === '53200') {
    return new TroupeError('sql_failed', `The database has no more memory for this query: ${message}.`, {
      hint: 'On the embedded server a query has 512 MB: aggregate less at once, or select less of long text.',
      cause: error,
    });
  }
  return new TroupeError('sql_failed', `${message}.`, {
    hint: 'The views are in schema traj; `troupe views` lists them.',
    cause: error,
  });
}

/** The error with the view or column that was probably meant, where the query names one that is not there. */
async function suggesting(db: Db, text: string, error: TroupeError): Promise<TroupeError> {
  const { code, message } = (error.detail.cause ?? {}) as { code?: string; message?: string };
  if (message === undefined || (code !== '42P01' && code !== '42703')) return error;
  const views = await listViews(db).catch(() => []);
  const advice = adviceOn(message, text, views);
  return advice === null ? error : new TroupeError(error.code, `${error.message} ${advice}`, error.detail);
}
