/** Which place an attempt replays, and what is there: what the gateway asks of the queue when the attempt calls for the first time. */
import type { Session } from '../../../store/db/pool.ts';
import { firstOf, query, type SqlBool, sql } from '../../../store/db/query.ts';
import { MAY_REPLAY } from '../../../store/loop/play/ids.ts';
import type { ReplayPlace, ReplayRequest } from '../../../store/loop/play/replay.ts';

export type Replaying = { readonly asked: ReplayRequest; readonly place: ReplayPlace; readonly sample: number };

/** Null for an episode that is no attempt at a replay. */
export async function replayingOf(db: Pick<Session, 'query'>, episode: string): Promise<Replaying | null> {
  if (!MAY_REPLAY.test(episode)) return null;
  const row = await firstOf(
    db,
    query
      .selectFrom('troupe.job_queue as attempt')
      .innerJoin('troupe.job_queue as whole', (on) => on.on(sql<SqlBool>`whole.job_id = attempt.spec ->> 'rollout'`))
      .select([
        sql<ReplayRequest | null>`whole.spec -> 'replay'`.as('asked'),
        sql<ReplayPlace | null>`whole.spec -> 'places' -> (attempt.spec ->> 'task')::integer`.as('place'),
        sql<number>`(attempt.spec ->> 'sample')::integer`.as('sample'),
      ])
      .where('attempt.job_id', '=', episode)
      .where('attempt.kind', 'like', 'attempt/%')
      .where('whole.kind', '=', 'rollout'),
  );
  if (row === undefined || row.asked === null || row.place === null) return null;
  return { asked: row.asked, place: row.place, sample: row.sample };
}
