/**
 * Rows go to the tables in bulk: one prepared `INSERT … SELECT FROM json_to_recordset … ON CONFLICT` for each group of columns
 * and batch. Table names are unqualified: the schema is the transaction's search_path, so a rebuild writes beside the live tables.
 */
import { keepBodies } from '../../ingest/log/postgres.ts';
import type { Body } from '../../ingest/log/split.ts';
import type { Session } from '../db/pool.ts';
import { BODIES } from '../tables/long-texts.ts';
import type { TableRow, Target } from '../tables/projection.ts';
import { steps } from '../tables/steps.ts';

/** Inserts new rows and updates those whose version is not newer than what comes. */
export async function upsert(tx: Session, target: Target, rows: readonly TableRow[]): Promise<void> {
  if (rows.length === 0) return;
  if (target === BODIES) return keepBodies(tx, rows as unknown as readonly Body[]);
  const values = [JSON.stringify(rows)];
  // The constraint that holds steps apart is no unique index, which an update on conflict needs.
  if (target === steps.targets[0]) await tx.query(OLDER_STEPS, values, { name: 'take_older_steps' });
  await tx.query(statementOf(target), values, { name: `put_${target.name}` });
}

/** Removes the steps in whose place others come. By their places in the table, since statistics may be those of an empty one. */
const OLDER_STEPS = `delete from steps where ctid = any(array(
  select o.ctid from json_to_recordset($1::json) as r (episode_id text, call_id text, candidate integer, version text)
  cross join lateral (
    select s.ctid, s.version from steps s where s.episode_id = r.episode_id and s.call_id = r.call_id and s.candidate = r.candidate offset 0
  ) o
  where o.version <= r.version collate "C"))`;

/** Removes the rows with these keys. Bodies stay: other calls may name them, and they go with their key. */
export async function remove(tx: Session, target: Target, rows: readonly TableRow[]): Promise<void> {
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
function statementOf(target: Target): string {
  let statement = statements.get(target);
  if (!statement) {
    const keys = Object.keys(target.keys);
    const types = { ...target.keys, ...target.columns, ...(target.version ? { [target.version]: 'text' } : {}) };
    const names = Object.keys(types).map(quote).join(', ');
    const columns = Object.keys(types).filter((column) => !keys.includes(column));
    const typed = Object.entries(types).map(([column, type]) => `${quote(column)} ${type}`);
    const conflict =
      target.version === null || target === steps.targets[0]
        ? 'do nothing'
        : `(${keys.map(quote).join(', ')}) do update set ${columns.map((c) => `${quote(c)} = excluded.${quote(c)}`).join(', ')}
           where t.${target.version} is null or excluded.${target.version} >= t.${target.version}`;
    statement = `insert into ${target.table} as t (${names})
      select ${names} from json_to_recordset($1::json) as r (${typed.join(', ')})
      on conflict ${conflict}`;
    statements.set(target, statement);
  }
  return statement;
}

const quote = (name: string): string => `"${name}"`;
