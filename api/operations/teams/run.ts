/** What operations on teams do. */
import { query, sql } from '../../../store/db/query.ts';
import { teamsLike } from '../../../store/evaluate/consistency/stored-pool.ts';
import { requireReleasedTeam } from '../../../store/loop/team/version.ts';
import { canaryTeam } from '../../../trainer/loop/comparison/canary-traffic.ts';
import type { PageRequest } from '../lists.ts';
import type { OutputOf, ReadContext } from '../operation.ts';
import { readList } from '../read-list.ts';

const LIST = query
  .selectFrom('facts.teams as t')
  .leftJoin(
    (episodes) =>
      episodes
        .selectFrom('traj.episodes')
        .select([
          'team_id as played',
          sql<number>`count(*)::integer`.as('episodes'),
          sql<number>`count(reward)::integer`.as('rated'),
          sql<number | null>`avg(reward)`.as('mean_reward'),
        ])
        .groupBy('team_id')
        .as('e'),
    (on) => on.onRef('e.played', '=', 't.team_id'),
  )
  .select(['team_id', 'name', 'team_version'])
  .select([
    sql<number | null>`json_array_length(t.agents)`.as('agents'),
    sql<number | null>`json_array_length(t.edges)`.as('edges'),
    sql<number>`coalesce(e.episodes, 0)`.as('episodes'),
    sql<number>`coalesce(e.rated, 0)`.as('rated'),
    'mean_reward',
  ]);
const ORDER = { columns: { team_id: 'text', episodes: 'bigint', name: 'text' }, id: 'team_id' } as const;

export async function list({ db, catchUp }: ReadContext, page: PageRequest) {
  await catchUp();
  return readList<OutputOf<typeof LIST.executeTakeFirstOrThrow>>(db, LIST, ORDER, page);
}

export async function like({ db, catchUp }: ReadContext, { team }: { readonly team: string }) {
  await catchUp();
  return { team_id: team, teams: await teamsLike(db, team) };
}

export async function show(
  { db, catchUp }: ReadContext,
  { team: name, episode, group }: { readonly team: string; readonly episode?: string; readonly group?: string },
) {
  await catchUp();
  const compared = episode === undefined ? null : await canaryTeam(db, { name, episode, group: group ?? null });
  return compared ?? db.transaction((tx) => requireReleasedTeam(tx, name));
}
