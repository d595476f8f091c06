/** What episodes are worth to a comparison, from the tables: those that a gate had played, and live ones. */
import { groupBy } from '../../../ingest/events/group-by.ts';
import type { Db } from '../../../store/db/pool.ts';
import { query, type RawBuilder, rowsOf, type SqlBool, sql } from '../../../store/db/query.ts';
import { type Both, meanOf } from '../../../store/evaluate/statistics/paired.ts';
import type { MeasuredTask } from '../../../store/loop/comparison/gate.ts';
import { episodeCost } from '../../../store/loop/play/budget.ts';

/** What an episode (alias `e`) took; unknown where one of its calls does not say it, since a sum of the others would be too small. */
export const EPISODE_USE = [
  sql<number | null>`(e.input_tokens + e.output_tokens)::float8`.as('tokens'),
  sql<
    number | null
  >`(select case when count(c.latency_ms) = count(*) then sum(c.latency_ms) end from facts.calls c where c.episode_id = e.episode_id)::float8`.as(
    'latency',
  ),
  episodeCost('e').as('usd'),
] as const;

/**
 * Mean of the rewards that name a step or an agent of a role, by role, of each of the episodes.
 * @param within a condition on `f`, a row of `traj.feedback`
 */
export async function roleRewards(
  db: Db,
  within: RawBuilder<SqlBool>,
): Promise<(episode: string) => ReadonlyMap<string, number>> {
  const found = await rowsOf(
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
  const byEpisode = groupBy(found, ({ episode_id }) => episode_id);
  return (episode) => new Map((byEpisode.get(episode) ?? []).map(({ role, value }) => [role, value]));
}

/** Null where there are none, or one is not known. */
export const meanOfAll = (values: readonly (number | null)[]): number | null =>
  values.includes(null) ? null : meanOf(values as readonly number[]);

/** Of those that are known; null where none is. */
export const meanOfKnown = (values: readonly (number | null)[]): number | null =>
  meanOf(values.flatMap((value) => value ?? []));

/** What episodes are worth that count as one: the attempts at a task, or the members of a group. */
export function unitOf(
  episodes: readonly {
    readonly value: number | null;
    readonly roles: ReadonlyMap<string, number>;
    readonly tokens: number | null;
    readonly latency: number | null;
    readonly usd: number | null;
  }[],
  mean: typeof meanOfAll,
) {
  const roles = [...new Set(episodes.flatMap((episode) => [...episode.roles.keys()]))].flatMap((role) => {
    const value = mean(episodes.map((episode) => episode.roles.get(role) ?? null));
    return value === null ? [] : [[role, value] as const];
  });
  return {
    value: mean(episodes.map(({ value }) => value)),
    roles: Object.fromEntries(roles),
    tokens: mean(episodes.map(({ tokens }) => tokens)),
    latency: mean(episodes.map(({ latency }) => latency)),
    usd: meanOfAll(episodes.map(({ usd }) => usd)),
  };
}

/** A unit of each side as a pair; null where a value is unknown. A role or a use that one side lacks is not compared. */
export function pairOf(
  before: ReturnType<typeof unitOf>,
  after: ReturnType<typeof unitOf>,
): Omit<MeasuredTask, 'task_id' | 'family'> | null {
  const both = (incumbent: number | null, candidate: number | null | undefined): Both | null =>
    incumbent === null || candidate == null ? null : { incumbent, candidate };
  const value = both(before.value, after.value);
  if (value === null) return null;
  const roles = Object.entries(before.roles).flatMap(([role, incumbent]) => {
    const pair = both(incumbent, after.roles[role]);
    return pair === null ? [] : [[role, pair] as const];
  });
  const { tokens, latency, usd } = before;
  return {
    ...value,
    roles: Object.fromEntries(roles),
    tokens: both(tokens, after.tokens),
    latency: both(latency, after.latency),
    usd: both(usd, after.usd),
  };
}
