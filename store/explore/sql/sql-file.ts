/**
 * The answer to a question in SQL as an Arrow IPC or Parquet file, however many rows it has, or as an Arrow stream: the server sends binary rows, which go into columns
 * and to the disk batch by batch. The guard is that of `sql.ts`.
 */
import { randomUUID } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import { TroupeError } from '../../../errors.ts';
import { arrowStreamWriter, arrowWriter, type ColumnShape, streamsIn } from '../../datasets/arrow.ts';
import { writeBehind } from '../../datasets/behind.ts';
import type { ColumnKind } from '../../datasets/columns.ts';
import { copyBatches } from '../../datasets/copy-binary.ts';
import { NESTED } from '../../datasets/nested-columns.ts';
import type { Db, Session } from '../../db/pool.ts';
import {
  MAX_READ_BYTES,
  MAX_VALUE_BYTES,
  readOnly,
  refuseTwins,
  SQL_CAPS,
  type SqlCaps,
  type SqlColumn,
  typeNames,
} from './sql.ts';

export type SqlFile = {
  readonly columns: readonly SqlColumn[];
  readonly rows: number;
  readonly bytes: number;
};

/** How a column of SQL goes into the file; what is not named here goes as the text that PostgreSQL writes, or as a list of such texts. */
const KINDS: Readonly<Record<string, readonly [kind: ColumnKind, cast: string]>> = {
  text: ['text', ''],
  json: ['text', '::text'],
  boolean: ['bool', ''],
  smallint: ['int4', '::int4'],
  integer: ['int4', ''],
  bigint: ['int8', ''],
  oid: ['int8', '::int8'],
  real: ['float4', ''],
  'double precision': ['float8', ''],
  'timestamp with time zone': ['timestamptz', ''],
  'smallint[]': ['int2[]', ''],
  'integer[]': ['int4[]', ''],
  'real[]': ['float4[]', ''],
  'double precision[]': ['float8[]', ''],
  'boolean[]': ['bool[]', ''],
};

/** The kind of a column of this type, and the column as the COPY gives it. Lists that have no form of their own on the wire come as JSON. */
function taken(type: string, column: string): readonly [kind: ColumnKind, sql: string] {
  const isArray = type.endsWith('[]');
  const [kind, cast] = KINDS[type] ?? (isArray ? (['text[]', '::text[]'] as const) : (['text', '::text'] as const));
  return [kind, NESTED[kind] ? `to_json(${column}${cast})::text` : `${column}${cast}`];
}

/** Small enough that the last batch, which nobody waits beside, is soon written; readers have no use for larger ones. */
const BATCH = { batchRows: 16_384, batchBytes: 8 * 1024 * 1024 };

/** A client that reads while the query runs gets rows sooner in smaller ones. */
const STREAMED = { batchRows: 16_384, batchBytes: 1024 * 1024 };

/** What is held of one row, and of one value in it. */
const LONGEST = { maxRowBytes: MAX_READ_BYTES, maxValueBytes: MAX_VALUE_BYTES } as const;

/** Compiling costs more than it saves. */
const SETTINGS = 'set local jit = off';

/**
 * Writes the answer to `path`, which is there completely, flushed, or as it was before; at most `limit` rows where one is given. It is
 * Parquet where the name ends so, made of an Arrow file beside it that is removed, so that the query is over before rows are compressed.
 * Memory holds a few batches, each of at most 16,384 rows or 8 MiB, and of Parquet a row group.
 * @throws TroupeError as `ask`; `home_unwritable` where the file cannot be written.
 */
export async function askIntoFile(
  db: Db,
  sql: string,
  path: string,
  options: { readonly limit?: number | null; readonly timeoutMs?: number } = {},
): Promise<SqlFile> {
  if (!path.endsWith('.parquet')) return askIntoArrow(db, sql, path, options);
  const arrow = `${path}.${randomUUID().slice(0, 8)}.tmp`;
  const draft = `${path}.${randomUUID().slice(0, 8)}.tmp`;
  try {
    const answer = await askIntoArrow(db, sql, arrow, options);
    // The library takes time and memory to load.
    const { parquetOf } = await import('../../datasets/parquet.ts');
    const file = await open(draft, 'wx').catch(refuse(path));
    let bytes = 0;
    try {
      for await (const part of parquetOf(streamsIn(arrow))) {
        await file.writeFile(part).catch(refuse(path));
        bytes += part.length;
      }
      await file.sync().catch(refuse(path));
    } finally {
      await file.close();
    }
    await rename(draft, path).catch(refuse(path));
    return { ...answer, bytes };
  } finally {
    await Promise.all([arrow, draft].map((left) => rm(left, { force: true })));
  }
}

async function askIntoArrow(
  db: Db,
  sql: string,
  path: string,
  { limit = null as number | null, timeoutMs = 3_600_000 } = {},
): Promise<SqlFile> {
  const draft = `${path}.${randomUUID().slice(0, 8)}.tmp`;
  const file = await open(draft, 'wx').catch(refuse(path));
  try {
    const answer = await readOnly(db, sql, { timeoutMs }, async (tx, text) => {
      const { columns, shapes, inner } = await arrowQuery(tx, text);
      const most = limit === null ? '' : ` limit ${limit}`;
      await tx.query(SETTINGS);
      const behind = writeBehind(file);
      const writer = arrowWriter(shapes, behind.write);
      const source = tx.copyOut(`copy (${inner}${most}) to stdout (format binary)`, { again: true });
      let [rows, before] = [0, 0];
      try {
        for await (const batch of copyBatches(source, shapes, { ...BATCH, ...LONGEST })) {
          rows += batch[0]!.length;
          await writer.write(batch);
          // The next batch goes into the arrays of the one before.
          await behind.written(before);
          before = behind.bytes();
        }
        await writer.finish();
      } finally {
        await behind.finish().catch(refuse(path));
      }
      return {
        columns,
        rows,
        bytes: behind.bytes(),
      };
    });
    await file.sync();
    await file.close();
    await rename(draft, path).catch(refuse(path));
    return answer;
  } catch (error) {
    await file.close().catch(() => {});
    await rm(draft, { force: true });
    throw error;
  }
}

/** The columns of the cursor's query, how each goes into Arrow, and the query that gives them as that. Nothing is run by it. */
async function arrowQuery(tx: Session, text: string) {
  const { columns } = await tx.query('fetch 0 from answer', undefined, { array: true });
  if (columns.length === 0) throw new TroupeError('sql_refused', 'Arrow needs columns, and this query has none.');
  refuseTwins(columns);
  const types = await typeNames(tx, columns);
  const shapes: ColumnShape[] = [];
  const selected = columns.map(({ name, type }, i) => {
    const [kind, column] = taken(types.get(type) ?? '', `c${i}`);
    shapes.push({ name, kind });
    return column;
  });
  const names = columns.map((_, i) => `c${i}`).join(', ');
  return {
    columns: columns.map(({ name, type }): SqlColumn => ({ name, type: types.get(type) ?? 'unknown' })),
    shapes,
    inner: `select ${selected.join(', ')} from (${text}\n) as q (${names})`,
  };
}

/**
 * Hands the answer to `write` in the streaming form of Arrow IPC, batch by batch.
 * @throws TroupeError as `ask`; what `write` throws
 */
export async function askAsArrow(
  db: Db,
  sql: string,
  { limit = SQL_CAPS.limit, maxBytes = SQL_CAPS.maxBytes, timeoutMs = SQL_CAPS.timeoutMs, signal }: SqlCaps,
  write: (bytes: Uint8Array) => Promise<void> | void,
): Promise<{ readonly rows: number; readonly truncated: boolean }> {
  return readOnly(db, sql, { timeoutMs, ...(signal ? { signal } : {}) }, async (tx, text) => {
    const { shapes, inner } = await arrowQuery(tx, text);
    await tx.query(SETTINGS);
    let bytes = 0;
    const pieces: Uint8Array[] = [];
    const writer = arrowStreamWriter(shapes, (piece) => {
      bytes += piece.length;
      pieces.push(piece);
    });
    const pass = async () => {
      if (pieces.length > 0) await write(Buffer.concat(pieces.splice(0)));
    };
    const source = tx.copyOut(`copy (${inner} limit ${limit}) to stdout (format binary)`, { again: true });
    let rows = 0;
    let truncated = false;
    for await (const batch of copyBatches(source, shapes, { ...STREAMED, ...LONGEST })) {
      if (bytes >= maxBytes) {
        truncated = true;
        break;
      }
      rows += batch[0]!.length;
      await writer.write(batch);
      await pass();
    }
    await writer.finish();
    await pass();
    if (truncated || rows < limit) return { rows, truncated };
    // The copy ended at the limit: whether the query has more, only its cursor shows.
    await tx.query(`move forward ${limit} in answer`);
    return {
      rows,
      truncated: (await tx.query('fetch 1 from answer', undefined, { maxBytes: MAX_READ_BYTES })).count > 0,
    };
  });
}

const refuse =
  (path: string) =>
  (error: Error): never => {
    throw new TroupeError('home_unwritable', `${path} cannot be written: ${error.message}.`, { cause: error });
  };
