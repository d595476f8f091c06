/** How many episodes were judged since a job started: by the places of the log, not by times, since what is late has an old time. */
import type { Session } from '../../db/pool.ts';
import { logEnds } from '../../projecting/positions.ts';
import type { Positions } from '../../projecting/read-batch.ts';

export type NewEpisodes = {
  /** Episodes that were judged in between, and not before. */
  readonly count: number;
  /** Where the log ended when they were counted. */
  readonly until: Positions;
};

/** Episodes judged from these positions on; from the beginning where a partition has none. */
export async function newEpisodes(db: Session, since: Positions): Promise<NewEpisodes> {
  const until = await logEnds(db);
  const { rows } = await db.query<{ count: number }>(
    `with since as (select * from json_to_recordset($1) as s (log smallint, partition smallint, position bigint)),
       until as (select * from json_to_recordset($2) as u (log smallint, partition smallint, position bigint)),
       judgings as (
         select j.data, j.position < coalesce(s.position, 0) as old
         from troupe.events j join until u using (log, partition) left join since s using (log, partition)
         where j.key = 'x/judge' and j.name = 'judge.completed' and j.position < u.position
       ),
       judged as (select distinct json_array_elements_text(data -> 'episodes') as episode_id from judgings where not old)
     select count(*)::integer as count from judged n
     where not exists (select from troupe.pruned p where p.key = 'e/' || n.episode_id) and not exists (
         select from troupe.events e join since s using (log, partition) where e.key = 'e/' || n.episode_id and e.position < s.position
       )
       or n.episode_id not in (select json_array_elements_text(data -> 'episodes') from judgings where old)`,
    [JSON.stringify(since), JSON.stringify(until)],
    { name: 'schedule_new_episodes' },
  );
  return { count: rows[0]?.count ?? 0, until };
}
