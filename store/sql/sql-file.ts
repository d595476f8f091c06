/**
 * The answer to a question in SQL as an Arrow IPC file, however many rows it has: the server sends binary rows, which go into columns
 * and to the disk batch by batch. The guard is that of `sql.ts`.
 */
import { randomUUID } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import { TroupeError } from '../../errors.ts';
import { arrowWriter, type ColumnShape } from '../datasets/arrow.ts';
import { writeBehind } from '../datasets/behind.ts';
import type { ColumnKind } from '../datasets/columns.ts';
import { copyBatches } from '../datasets/copy-binary.ts';
import type { Db } from '../db/pool.ts';
import { readOnly, typeNames } from './sql.ts';

export type SqlFile = {
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly rows: number;
  readonly bytes: number;
};

/** How a column of SQL goes into the file; what is not named here goes as the text that PostgreSQL writes. */
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
};

/** Small enough that the last batch, which nobody waits beside, is soon written; readers have no use for larger ones. */
const BATCH = { batchRows: 16_384, batchBytes: 8 * 1024 * 1024 };

/** Compiling costs more than it saves. */
const SETTINGS = 'set local jit = off';

/**
 * Writes the answer to `path`, which is there completely, flushed, or as it was before; at most `limit` rows where one is given.
 * Memory holds a few batches, each of at most 16,384 rows or 8 MiB.
 * @throws TroupeError as `ask`; `home_unwritable` where the file cannot be written.
 */
export async function askIntoFile(
  db: Db,
  sql: string,
  path: string,
  { limit = null as number | null, timeoutMs = 3_600_000 } = {},
): Promise<SqlFile> {
  const draft = `${path}.${randomUUID().slice(0, 8)}.tmp`;
  const file = await open(draft, 'wx').catch(refuse(path));
  try {
    const answer = await readOnly(db, sql, timeoutMs, async (tx, text) => {
      // Nothing is run by this: it only tells what would come.
      const { columns } = await tx.query('fetch 0 from answer', undefined, { array: true });
      if (columns.length === 0) throw new TroupeError('sql_refused', 'A file needs columns, and this query has none.');
      const types = await typeNames(tx, columns);
      const shapes: ColumnShape[] = [];
      const selected = columns.map(({ name, type }, i) => {
        const [kind, cast] = KINDS[types.get(type) ?? ''] ?? ['text', '::text'];
        shapes.push({ name, kind });
        return `c${i}${cast}`;
      });
      const names = columns.map((_, i) => `c${i}`).join(', ');
      const inner = `select ${selected.join(', ')} from (${text}\n) as q (${names})`;
      const most = limit === null ? '' : ` limit ${limit}`;
      await tx.query(SETTINGS);
      const behind = writeBehind(file);
      const writer = arrowWriter(shapes, behind.write);
      const source = tx.copyOut(`copy (${inner}${most}) to stdout (format binary)`);
      let rows = 0;
      try {
        for await (const batch of copyBatches(source, shapes, BATCH)) {
          rows += batch[0]!.length;
          writer.write(batch);
          await behind.room();
        }
        await writer.finish();
      } finally {
        await behind.finish().catch(refuse(path));
      }
      return {
        columns: columns.map(({ name, type }) => ({ name, type: types.get(type) ?? 'unknown' })),
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

const refuse =
  (path: string) =>
  (error: Error): never => {
    throw new TroupeError('home_unwritable', `${path} cannot be written: ${error.message}.`, { cause: error });
  };
