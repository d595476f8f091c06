/**
 * Rows go to the tables in bulk: one prepared `INSERT … SELECT FROM json_to_recordset … ON CONFLICT` for each group of columns
 * and batch. Table names are unqualified: the schema is the transaction's search_path, so a rebuild writes beside the live tables.
 */
import { keepBodies } from '../../ingest/log/postgres.ts';
import type { Body } from '../../ingest/log/split.ts';
import type { Session } from '../db/pool.ts';
import { BODIES } from '../projections/calls.ts';
import type { Row, Target } from '../projections/projection.ts';

/** Inserts new rows and updates those whose version is not newer than what comes. Returns how many rows were touched. */
export async function upsert(tx: Session, target: Target, rows: readonly Row[]): Promise<number> {
  if (rows.length === 0) return 0;
  if (target === BODIES) {
    await keepBodies(tx, rows as unknown as readonly Body[]);
    return rows.length;
  }
  const { count } = await tx.query(statementOf(target), [JSON.stringify(rows)], { name: `put_${target.name}` });
  return count;
}

/** Removes the rows with these keys. Bodies stay: other calls may name them, and they go with their key. */
export async function remove(tx: Session, target: Target, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0 || target === BODIES) return;
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
