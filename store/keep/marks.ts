/** Which datasets and checkpoints used what was erased: the marks of `traj.erasures`, for all who show one of them. */
import type { Session } from '../db/pool.ts';
import { anyOf, query, rowsOf, sql } from '../db/query.ts';

/** The erasures of what each of these had used, oldest first; an id without any is not in the map. */
export async function erasuresOf(
  session: Session,
  kind: 'dataset' | 'checkpoint',
  ids: readonly string[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  const marked = query
    .selectFrom('troupe.erasures as e')
    .crossJoinLateral(sql<{ kind: string; id: string }>`json_to_recordset(e.used)`.as<'u'>(sql`u (kind text, id text)`))
    .select(['u.id', sql<string[]>`array_agg(e.erasure_id order by e.erased_at, e.erasure_id)`.as('erasures')])
    .where('u.kind', '=', kind)
    .where('u.id', '=', anyOf(ids))
    .groupBy('u.id');
  return new Map((await rowsOf(session, marked)).map(({ id, erasures }) => [id, erasures]));
}
