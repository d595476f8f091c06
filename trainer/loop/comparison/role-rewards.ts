/** Rewards that were recorded for a role: for a step or an agent of it. */
import type { Db } from '../../../store/db/pool.ts';
import { query, type RawBuilder, rowsOf, type SqlBool, sql } from '../../../store/db/query.ts';

export type RoleReward = { readonly episode_id: string; readonly role: string; readonly value: number };

/** The mean of each role in each of the episodes. @param within a condition on `f`, a row of `traj.feedback` */
export function roleRewards(db: Db, within: RawBuilder<SqlBool>): Promise<RoleReward[]> {
  return rowsOf(
    db,
    query
      .selectFrom('traj.feedback as f')
      .leftJoin('traj.steps as s', (on) =>
        on
          .on('f.target_kind', '=', sql.lit('step'))
          .onRef('s.episode_id', '=', 'f.episode_id')
          .onRef('s.step_id', '=', 'f.target_id'),
      )
      .leftJoin('traj.agents as a', (on) =>
        on
          .on('f.target_kind', '=', sql.lit('agent'))
          .onRef('a.episode_id', '=', 'f.episode_id')
          .onRef('a.agent_id', '=', 'f.target_id'),
      )
      .select([
        sql<string>`f.episode_id`.as('episode_id'),
        sql<string>`coalesce(s.role, a.role)`.as('role'),
        sql<number>`avg(f.value)`.as('value'),
      ])
      .where('f.kind', '=', 'reward')
      .where('f.value', 'is not', null)
      .where(within)
      .where(sql<boolean>`coalesce(s.role, a.role) is not null`)
      .groupBy([sql`1`, sql`2`]),
  );
}
