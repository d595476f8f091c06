/**
 * What is judged in one transaction: whole groups, as many as fit into memory. Portions lie in lanes that share no group and no lock, so
 * that while the rows of one are written another is read and judged.
 */
import type { Db } from '../../db/pool.ts';
import { query, rowsOf, sql } from '../../db/query.ts';
import { GROUP, SHARE } from './lock.ts';

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
  const rows = await rowsOf(
    db,
    query
      .with('asked', (q) => q.selectNoFrom(sql<string>`unnest(${episodes}::text[])`.as('episode_id')))
      .with('groups', (q) =>
        q
          .selectFrom('asked')
          .innerJoin('facts.episodes as e', 'e.episode_id', 'asked.episode_id')
          .distinct()
          .select(GROUP.as('group')),
      )
      .selectFrom((q) =>
        q
          .selectFrom('groups as g')
          .innerJoin('facts.episodes as e', 'e.group_id', 'g.group')
          .selectAll('e')
          .unionAll((all) =>
            all
              .selectFrom('groups as g')
              .innerJoin('facts.episodes as e', 'e.task_id', 'g.group')
              .where('e.group_id', 'is', null)
              .selectAll('e'),
          )
          .unionAll((all) =>
            all
              .selectFrom('groups as g')
              .innerJoin('facts.episodes as e', 'e.episode_id', 'g.group')
              .where('e.group_id', 'is', null)
              .where('e.task_id', 'is', null)
              .selectAll('e'),
          )
          .as('e'),
      )
      .select(['e.episode_id', GROUP.as('group'), sql<number>`coalesce(e.steps, 0)`.as('steps'), SHARE.as('share')])
      .$if(!together, (q) => q.orderBy(sql`${SHARE} % ${sql.lit(LANES)}`))
      .orderBy('group')
      .orderBy('e.episode_id'),
  );
  const portions: { episodes: string[]; shares: Set<number>; steps: number; lane: number }[] = [];
  let group: string | undefined;
  for (const { episode_id: episodeId, group: itsGroup, steps, share } of rows) {
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
