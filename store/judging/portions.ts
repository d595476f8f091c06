/**
 * What is judged in one transaction: whole groups, as many as fit into memory. Portions lie in lanes that share no group and no lock, so
 * that while the rows of one are written another is read and judged.
 */
import type { Db } from '../db/pool.ts';
import { shareSql } from './lock.ts';

export type Portion = {
  /** In the order of their groups. */
  readonly episodes: readonly string[];
  readonly shares: readonly number[];
  readonly lane: number;
};

/** One writes in the server while the other computes here. */
const LANES = 2;
/** Of each portion that is being judged; four times as many in one lane took the process to 530 to 870 MB. */
const MOST_STEPS = 100_000;
const MOST_EPISODES = 10_000;

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
     ) e order by ${together ? '' : `${shareSql('e')} % ${LANES}, `}2, 1`,
    [episodes],
    { array: true },
  );
  const portions: { episodes: string[]; shares: Set<number>; steps: number; lane: number }[] = [];
  let group: string | undefined;
  for (const [episodeId, itsGroup, steps, share] of rows) {
    const last = portions.at(-1);
    const lane = share % LANES;
    const full = last && (last.lane !== lane || last.steps >= MOST_STEPS || last.episodes.length >= MOST_EPISODES);
    if (!last || (full && itsGroup !== group && !together))
      portions.push({ episodes: [], shares: new Set(), steps: 0, lane });
    group = itsGroup;
    const portion = portions.at(-1)!;
    portion.episodes.push(episodeId);
    portion.shares.add(share);
    portion.steps += steps;
  }
  return portions.map(({ episodes: own, shares, lane }) => ({ episodes: own, shares: [...shares], lane }));
}
