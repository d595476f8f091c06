/**
 * The rows of a whole batch. Most of a batch is new: rows whose key no table knows are copied, all columns that several events of the
 * batch hold for one key as one row, which costs less than an upsert for each of them. The others are upserted. Whoever calls
 * holds the lock under which alone these tables are written, so what is not known now is not there; if it were, the batch would fail
 * as a whole and be applied one by one.
 */
import { Readable } from 'node:stream';
import { type ColumnType, type CopyColumn, copyRows } from '../../ingest/log/copy-rows.ts';
import type { Session } from '../db/pool.ts';
import { BODIES } from '../tables/long-texts.ts';
import type { TableRow } from '../tables/projection.ts';
import { keyText, partsAt, type RowBuffer, type RowParts, TABLES, type Table } from './row-buffer.ts';
import { upsert } from './write-rows.ts';

/** Below so many rows of a table the two round trips more are not worth it. */
const FEWEST = 16;

const COLUMNS: ReadonlyMap<Table, readonly CopyColumn[]> = new Map(
  TABLES.map((table) => [
    table,
    [
      ...columnsOf(table.targets[0]!.keys, 0),
      ...table.targets.flatMap(({ columns, version }, i) =>
        columnsOf({ ...columns, ...(version ? { [version]: 'text' } : {}) }, i + 1),
      ),
    ],
  ]),
);

function columnsOf(types: Readonly<Record<string, ColumnType>>, part: number): CopyColumn[] {
  return Object.entries(types).map(([column, type]) => ({ name: column, type, part }));
}

/**
 * Writes all rows of the buffer into the schema that the transaction's search_path names. Of episodes that begin with this batch no
 * table knows a row, so none is looked for.
 */
export async function writeBatch(tx: Session, buffer: RowBuffer, beginning: ReadonlySet<string>): Promise<void> {
  for (const table of TABLES) {
    const rows = buffer.rowsOf(table);
    if (rows.size < FEWEST || table.targets[0] === BODIES) await upsertAll(tx, table, [...rows.values()]);
    else await writeMany(tx, table, { rows, beginning });
  }
}

async function upsertAll(tx: Session, { targets }: Table, rows: readonly RowParts[]): Promise<void> {
  for (const [i, target] of targets.entries()) await upsert(tx, target, partsAt(rows, i + 1));
}

type Many = { readonly rows: ReadonlyMap<string, RowParts>; readonly beginning: ReadonlySet<string> };

async function writeMany(tx: Session, table: Table, { rows, beginning }: Many): Promise<void> {
  const isNew = table.keys.includes('episode_id')
    ? ([row]: RowParts) => beginning.has(row!.episode_id as string)
    : () => false;
  const doubtful = [...rows.values()].flatMap((parts) => (isNew(parts) ? [] : [parts[0]!]));
  const known = await knownKeys(tx, table, doubtful);
  const fresh = known.size === 0 ? rows.values() : without(rows, known);
  const columns = COLUMNS.get(table)!;
  const names = columns.map((column) => `"${column.name}"`).join(', ');
  if (known.size < rows.size) {
    const bytes = Readable.from(copyRows(fresh, columns), { objectMode: false });
    await tx.copyIn(`copy ${table.name} (${names}) from stdin (format binary)`, bytes);
  }
  await upsertAll(
    tx,
    table,
    [...known].map((key) => rows.get(key)!),
  );
}

function* without(
  rows: ReadonlyMap<string, RowParts>,
  keys: ReadonlySet<string>,
): Generator<RowParts, void, undefined> {
  for (const [key, parts] of rows) if (!keys.has(key)) yield parts;
}

/** Which of these keys the table has. */
async function knownKeys(tx: Session, table: Table, rows: readonly TableRow[]): Promise<ReadonlySet<string>> {
  if (rows.length === 0) return new Set();
  const keys = Object.entries(table.targets[0]!.keys);
  const names = keys.map(([key]) => `"${key}"`).join(', ');
  const { rows: found } = await tx.query<TableRow>(
    `select ${names} from unnest(${keys.map(([, type], i) => `$${i + 1}::${type}[]`).join(', ')}) as k (${names})
     cross join lateral (select from ${table.name} t where ${keys.map(([key]) => `t."${key}" = k."${key}"`).join(' and ')} offset 0) t`,
    keys.map(([key]) => rows.map((row) => row[key])),
    { name: `known_${table.name}` },
  );
  return new Set(found.map((row) => keyText(table, row)));
}
