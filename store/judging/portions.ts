/** What is judged in one transaction: whole groups, as many as fit into memory. */
import type { Db } from '../db/pool.ts';
import { shareSql } from './lock.ts';

export type Portion = {
  /** In the order of their groups. */
  readonly episodes: readonly string[];
  readonly shares: readonly number[];
};

/** Twice as many took the process to 530 to 870 MB. */
const MOST_STEPS = 200_000;
const MOST_EPISODES = 20_000;

/**
 * Cuts the episodes, and all others of their groups, into portions of whole groups. With `together` they stay one, for methods
 * whose answer about an episode depends on all the others.
 */
export async function portionsOf(
  db: Db,
  episodes: readonly string[],
  { together = false }: { readonly together?: boolean } = {},
): Promise<Portion[]> {
  const { rows } = await db.query<[episodeId: string, group: string, steps: number, share: number]>(
    `with asked as (select unnest($1::text[]) as episode_id),
       groups as (select distinct e.group_id, case when e.group_id is null then e.task_id end as task_id,
                         case when e.group_id is null and e.task_id is null then e.episode_id end as episode_id
                  from asked join facts.episodes e using (episode_id))
     select e.episode_id, coalesce(e.group_id, e.task_id, e.episode_id), coalesce(e.steps, 0), ${shareSql('e')}
     from (
       select e.* from groups g join facts.episodes e on e.group_id = g.group_id
       union all
       select e.* from groups g join facts.episodes e on e.task_id = g.task_id and e.group_id is null
       union all
       select e.* from groups g join facts.episodes e on e.episode_id = g.episode_id
     ) e order by 2, 1`,
    [episodes],
    { array: true },
  );
  const portions: { episodes: string[]; shares: Set<number>; steps: number }[] = [];
  let group: string | undefined;
  for (const [episodeId, itsGroup, steps, share] of rows) {
    const last = portions.at(-1);
    const full = last && (last.steps >= MOST_STEPS || last.episodes.length >= MOST_EPISODES);
    if (!last || (full && itsGroup !== group && !together))
      portions.push({ episodes: [], shares: new Set(), steps: 0 });
    group = itsGroup;
    const portion = portions.at(-1)!;
    portion.episodes.push(episodeId);
    portion.shares.add(share);
    portion.steps += steps;
  }
  return portions.map((portion) => ({ episodes: portion.episodes, shares: [...portion.shares] }));
}
