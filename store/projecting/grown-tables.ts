/** What the planner knows of tables: autovacuum looks once a minute, and questions right after an import would read whole tables. */
import type { Db } from '../db/pool.ts';

/** Pages of 8 kB that a table may grow by unseen. A smaller one is read whole anyway. */
const UNSEEN_PAGES = 32;

/** Analyses the tables that grew by a fifth since they were last looked at. Answers with their names. */
export async function analyzeGrown(db: Db): Promise<readonly string[]> {
  const { rows } = await db.query<{ readonly name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname in ('facts', 'troupe') and c.relkind = 'r'
       and pg_relation_size(c.oid) / current_setting('block_size')::bigint > 1.2 * greatest(c.relpages, 0) + $1
     order by 1`,
    [UNSEEN_PAGES],
  );
  const names = rows.map(({ name }) => name);
  if (names.length > 0) await db.query(`analyze ${names.join(', ')}`);
  return names;
}
