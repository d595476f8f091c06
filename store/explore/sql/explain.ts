/** How PostgreSQL would run a question in SQL. The guard is that of `sql.ts`; the query itself is not run. */
import type { Db } from '../../db/pool.ts';
import { readOnly, SQL_CAPS } from './sql.ts';

/**
 * The lines of the plan, as EXPLAIN prints them.
 * @throws TroupeError as `ask`
 */
export function explain(db: Db, sql: string, { timeoutMs = SQL_CAPS.timeoutMs as number } = {}): Promise<string[]> {
  return readOnly(db, sql, { timeoutMs }, async (tx, text) => {
    // With an option list of ours, parentheses at the query's beginning cannot become one.
    const { rows } = await tx.query<[string]>(`explain (costs on) ${text}`, undefined, { array: true, extended: true });
    return rows.map(([line]) => line);
  });
}
