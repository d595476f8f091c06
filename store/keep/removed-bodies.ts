/** Bodies of artifacts that pruned events named and nobody else does. They lie in the archives too. */
import type { Db } from '../db/pool.ts';
import { anyOf, countOf, query, rowsOf } from '../db/query.ts';
import { lockAllPartitions } from '../projecting/partitions.ts';
import { logEnds } from '../projecting/positions.ts';
import type { Positions } from '../projecting/read-batch.ts';

/** Bodies looked for in one reading of the log. */
const MOST = 100_000;

/**
 * Removes those that no event of the log names, and forgets the others. A body may be named by episodes of one import, and by what
 * came since, so the log is asked, the last of it while nobody appends.
 */
export async function removeUnneeded(db: Db, removeBody: (sha256: string) => Promise<boolean>): Promise<number> {
  let removed = 0;
  for (;;) {
    const rows = await rowsOf(
      db,
      query.selectFrom('troupe.unneeded_bodies').select('sha256').orderBy('sha256').limit(MOST),
    );
    if (rows.length === 0) return removed;
    const all = rows.map((row) => row.sha256);
    const ends = await logEnds(db);
    const needed = new Set(await namedAmong(db, all, null));
    const free = all.filter((name) => !needed.has(name));
    await db.transaction(async (tx) => {
      await tx.query('select 1 from troupe.log_partitions order by partition for update');
      await lockAllPartitions(tx);
      const since = new Set(await namedAmong(tx, free, ends));
      for (const name of free) if (!since.has(name) && (await removeBody(name))) removed++;
      await countOf(tx, query.deleteFrom('troupe.unneeded_bodies').where('sha256', '=', anyOf(all)));
    });
  }
}

/** Which of these bodies an event names; from these positions on, where some are given. */
async function namedAmong(db: Pick<Db, 'query'>, names: readonly string[], from: Positions | null): Promise<string[]> {
  if (names.length === 0) return [];
  const events =
    from === null
      ? 'troupe.stored_events e'
      : 'unnest($2::smallint[], $3::smallint[], $4::bigint[]) f (log, partition, position) join troupe.stored_events e on e.log = f.log and e.partition = f.partition and e.position >= f.position';
  const { rows } = await db.query<{ name: string }>(
    `with wanted as materialized (select unnest($1::text[]) as name)
     select distinct w.name from ${events}
     cross join lateral (values (e.data ->> 'sha256'), (e.data -> 'raw' ->> 'artifact_id')) v (name)
     join wanted w on w.name = v.name`,
    [
      names,
      ...(from === null ? [] : (['log', 'partition', 'position'] as const).map((name) => from.map((one) => one[name]))),
    ],
  );
  return rows.map((row) => row.name);
}
