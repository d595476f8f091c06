/**
 * The rows of a whole batch. Most of a batch is new: rows whose key no table knows are copied, all columns that several events of the
 * batch say about one key as one row, which costs less than an upsert for each of them. The others are upserted. Whoever calls
 * holds the lock under which alone these tables are written, so what is not known now is not there; if it were, the batch would fail
 * as a whole and be applied one by one.
 */
import { Readable } from 'node:stream';
import { arrayText, type CopyColumn, copyText } from './copy-text.ts';
import type { Session } from './db/pool.ts';
import { groupBy } from './methods/statistics.ts';
import { TARGETS } from './projections/catalogue.ts';
import type { ColumnType, Row, Target } from './projections/projection.ts';
import { keyText, type RowBuffer, upsert } from './write-rows.ts';

/** Below so many rows of a table the two round trips more are not worth it. */
const FEWEST = 64;

/** Targets of one table; all of them have the same key. Of a row the first part is the key, the others are what each target says. */
type Table = { readonly name: string; readonly targets: readonly Target[]; readonly columns: readonly CopyColumn[] };

const TABLES: readonly Table[] = [...groupBy(TARGETS, ({ table }) => table)].map(([name, targets]) => ({
  name,
  targets,
  columns: [
    ...columnsOf(targets[0]!.keys, 0),
    ...targets.flatMap(({ columns, version }, i) =>
      columnsOf({ ...columns, ...(version ? { [version]: 'text' } : {}) }, i + 1),
    ),
  ],
}));

function columnsOf(types: Readonly<Record<string, ColumnType>>, part: number): CopyColumn[] {
  return Object.entries(types).map(([column, type]) => ({ name: column, type, part }));
}

/** Writes all rows of the buffer into the schema that the transaction's search_path names. */
export async function writeBatch(tx: Session, buffer: RowBuffer): Promise<void> {
  for (const table of TABLES) {
    const rows = table.targets.map((target) => buffer.rowsFor(target));
    const most = Math.max(...rows.map(({ length }) => length));
    if (most < FEWEST) for (const [i, target] of table.targets.entries()) await upsert(tx, target, rows[i]!);
    else await writeMany(tx, table, rows);
  }
}

async function writeMany(tx: Session, { name, targets, columns }: Table, rows: readonly (readonly Row[])[]) {
  const keyOf = (row: Row) => keyText(targets[0]!, row);
  const together = new Map<string, (Row | undefined)[]>();
  for (const [i, list] of rows.entries()) {
    for (const row of list) {
      const key = keyOf(row);
      let parts = together.get(key);
      if (parts === undefined) {
        parts = new Array<Row | undefined>(targets.length + 1).fill(undefined);
        parts[0] = row;
        together.set(key, parts);
      }
      parts[i + 1] = row;
    }
  }
  const known = await knownKeys(
    tx,
    targets[0]!,
    Array.from(together.values(), (parts) => parts[0]!),
  );
  for (const key of known) together.delete(key);
  if (together.size > 0) {
    const text = Readable.from(copyText(together.values(), columns), { objectMode: false });
    await tx.copyIn(`copy ${name} (${columns.map((column) => `"${column.name}"`).join(', ')}) from stdin`, text);
  }
  if (known.size === 0) return;
  for (const [i, target] of targets.entries())
    await upsert(
      tx,
      target,
      rows[i]!.filter((row) => known.has(keyOf(row))),
    );
}

/** Which of these keys the table has. */
async function knownKeys(tx: Session, target: Target, rows: readonly Row[]): Promise<ReadonlySet<string>> {
  const keys = Object.entries(target.keys);
  const names = keys.map(([key]) => `"${key}"`).join(', ');
  const { rows: found } = await tx.query<Row>(
    `select ${names} from unnest(${keys.map(([, type], i) => `$${i + 1}::${type}[]`).join(', ')}) as k (${names})
     join ${target.table} t using (${names})`,
    keys.map(([key]) => arrayText(rows.map((row) => row[key]))),
    { name: `known_${target.table}` },
  );
  return new Set(found.map((row) => keyText(target, row)));
}
