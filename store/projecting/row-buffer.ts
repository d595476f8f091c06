/** The rows of a batch by table and key: the parts of several events for one key are together. */
import { groupBy } from '../../ingest/events/group-by.ts';
import { TARGETS } from '../tables/catalogue.ts';
import type { Rows, TableRow, Target } from '../tables/projection.ts';

/** Targets of one table; all of them have the same key. */
export type Table = { readonly name: string; readonly targets: readonly Target[]; readonly keys: readonly string[] };

export const TABLES: readonly Table[] = [...groupBy(TARGETS, ({ table }) => table)].map(([name, targets]) => ({
  name,
  targets,
  keys: Object.keys(targets[0]!.keys),
}));

const PLACES: ReadonlyMap<Target, readonly [table: Table, at: number]> = new Map(
  TABLES.flatMap((table) => table.targets.map((target, i) => [target, [table, i + 1]] as const)),
);

/** One row in parts: the first has its key, the others are the columns of each target of the table. */
export type RowParts = readonly (TableRow | undefined)[];

/** Collects the rows of a batch; of several rows of one target with one key only the last version stays, since a statement may touch a row once. */
export class RowBuffer {
  readonly #tables = new Map<Table, Map<string, (TableRow | undefined)[]>>();

  add(rows: Rows): void {
    for (const [target, list] of rows) {
      const [table, at] = PLACES.get(target)!;
      let known = this.#tables.get(table);
      if (!known) {
        known = new Map();
        this.#tables.set(table, known);
      }
      for (const row of list) {
        const key = keyText(table, row);
        let parts = known.get(key);
        if (!parts) {
          parts = new Array<TableRow | undefined>(table.targets.length + 1).fill(undefined);
          parts[0] = row;
          known.set(key, parts);
        }
        const before = parts[at];
        if (before && target.version !== null && isNewer(before[target.version], row[target.version])) continue;
        parts[at] = row;
      }
    }
  }

  rowsFor(target: Target): readonly TableRow[] {
    const [table, at] = PLACES.get(target)!;
    return partsAt(this.#tables.get(table)?.values() ?? [], at);
  }

  /** Rows of a table by the text of their key. */
  rowsOf(table: Table): ReadonlyMap<string, RowParts> {
    return this.#tables.get(table) ?? new Map();
  }
}

/** The part of the target at this place, of each row that has one. */
export const partsAt = (rows: Iterable<RowParts>, at: number): readonly TableRow[] =>
  Array.from(rows, (parts) => parts[at]).filter((row) => row !== undefined);

/** As PostgreSQL compares: by bytes of UTF-8, which is not the order of JavaScript's code units. */
const isNewer = (a: unknown, b: unknown): boolean => Buffer.compare(Buffer.from(`${a}`), Buffer.from(`${b}`)) > 0;

/** The key of a row as one text. */
export function keyText({ keys }: Table, row: TableRow): string {
  let text = `${row[keys[0]!]}`;
  for (let i = 1; i < keys.length; i++) text += `\u0000${row[keys[i]!]}`;
  return text;
}
