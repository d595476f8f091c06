/**
 * Rows go to the tables in bulk: one prepared `INSERT … SELECT FROM json_to_recordset … ON CONFLICT` for each group of columns
 * and batch. Table names are unqualified: the schema is the transaction's search_path, so a rebuild writes beside the live tables.
 */
import type { Session } from './db/pool.ts';
import type { Row, Rows, Target } from './projections/projection.ts';

/** Collects the rows of a batch; of several rows with one key only the last version stays, since a statement may touch a row once. */
export class RowBuffer {
  readonly #rows = new Map<Target, Map<string, Row>>();

  add(rows: Rows): void {
    for (const [target, list] of rows) {
      let known = this.#rows.get(target);
      if (!known) {
        known = new Map();
        this.#rows.set(target, known);
      }
      for (const row of list) {
        const key = keyText(target, row);
        const before = known.get(key);
        if (before && target.version !== null && isNewer(before[target.version], row[target.version])) continue;
        known.set(key, row);
      }
    }
  }

  rowsFor(target: Target): readonly Row[] {
    return [...(this.#rows.get(target)?.values() ?? [])];
  }
}

/** As PostgreSQL compares: by bytes of UTF-8, which is not the order of JavaScript's code units. */
const isNewer = (a: unknown, b: unknown): boolean => Buffer.compare(Buffer.from(`${a}`), Buffer.from(`${b}`)) > 0;

/** The key of a row as one text. */
export const keyText = (target: Target, row: Row): string =>
  Object.keys(target.keys)
    .map((key) => row[key])
    .join('\u0000');

/** Inserts new rows and updates those whose version is not newer than what comes. Returns how many rows were touched. */
export async function upsert(tx: Session, target: Target, rows: readonly Row[]): Promise<number> {
  if (rows.length === 0) return 0;
  const { count } = await tx.query(statementOf(target), [JSON.stringify(rows)], { name: `put_${target.name}` });
  return count;
}

/** Removes the rows with these keys. */
export async function remove(tx: Session, target: Target, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return;
  const keys = Object.entries(target.keys);
  await tx.query(
    `delete from ${target.table} t using json_to_recordset($1::json) as r (${keys.map(([k, type]) => `${quote(k)} ${type}`).join(', ')})
     where ${keys.map(([k]) => `t.${quote(k)} = r.${quote(k)}`).join(' and ')}`,
    [JSON.stringify(rows)],
  );
}

const statements = new Map<Target, string>();

/** The text of the statement, for reading and tests. */
export function statementOf(target: Target): string {
  let statement = statements.get(target);
  if (!statement) {
    const keys = Object.keys(target.keys);
    const types = { ...target.keys, ...target.columns, ...(target.version ? { [target.version]: 'text' } : {}) };
    const names = Object.keys(types).map(quote).join(', ');
    const columns = Object.keys(types).filter((column) => !keys.includes(column));
    const typed = Object.entries(types).map(([column, type]) => `${quote(column)} ${type}`);
    const conflict =
      target.version === null
        ? 'do nothing'
        : `do update set ${columns.map((c) => `${quote(c)} = excluded.${quote(c)}`).join(', ')}
           where t.${target.version} is null or excluded.${target.version} >= t.${target.version}`;
    statement = `insert into ${target.table} as t (${names})
      select ${names} from json_to_recordset($1::json) as r (${typed.join(', ')})
      on conflict (${keys.map(quote).join(', ')}) ${conflict}`;
    statements.set(target, statement);
  }
  return statement;
}

const quote = (name: string): string => `"${name}"`;
