/** Episodes together with what replays them and what they replay: a judgement of one may depend on the others, whatever their groups are. */
import type { Db } from '../../db/pool.ts';
import { query, rowsOf, type SqlBool, sql } from '../../db/query.ts';
import { isPlayedIn, playedIn } from '../../loop/play/ids.ts';
import { ROLLOUT } from '../../loop/play/rollout.ts';

/** `linked`: whether any of them is a replay, or replayed. Attempts that failed are no replays. */
export async function withReplays(
  db: Pick<Db, 'query'>,
  episodes: readonly string[],
): Promise<{ readonly episodes: readonly string[]; readonly linked: boolean }> {
  const rollouts = await rowsOf(
    db,
    query
      .selectFrom('facts.jobs')
      .select('job_id')
      .select(
        sql<
          string[]
        >`array(select distinct p ->> 'episode_id' from jsonb_array_elements((spec -> 'places')::jsonb) p)`.as(
          'sources',
        ),
      )
      .where('kind', '=', ROLLOUT)
      .where(sql<SqlBool>`spec -> 'places' is not null`),
  );
  if (rollouts.length === 0) return { episodes, linked: false };
  const all = new Set(episodes);
  const taken = new Set<string>();
  for (let grew = true; grew; ) {
    grew = false;
    for (const { job_id, sources } of rollouts) {
      if (taken.has(job_id)) continue;
      const ours = [...all].some((id) => isPlayedIn(id, job_id));
      if (!ours && !sources.some((source) => all.has(source))) continue;
      taken.add(job_id);
      grew = true;
      const links = await rowsOf(
        db,
        query
          .selectFrom('facts.episodes')
          .select(['episode_id', sql<string>`tags ->> 'replay_of'`.as('source')])
          .where(playedIn('episode_id', job_id))
          .where(sql<SqlBool>`tags ->> 'replay_of' is not null`),
      );
      for (const { episode_id, source } of links) {
        all.add(episode_id);
        all.add(source);
      }
    }
  }
  return { episodes: taken.size === 0 ? episodes : [...all], linked: taken.size > 0 };
}
