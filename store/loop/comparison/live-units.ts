/** Live episodes as the units that a fall is looked for in: a group counts once, with the mean of its members. */
import type { Db } from '../../db/pool.ts';
import { firstOf, query, type RawBuilder, type SqlBool, sql } from '../../db/query.ts';
import { meanOf } from '../../evaluate/statistics/paired.ts';
import { ASKED_POLICY } from '../release/releases.ts';
import type { FullWatchRules, LiveUnit } from './watch.ts';

/** Episodes that one look reads. */
export const MOST_LIVE = 20_000;

/** Episodes that the deviation is computed of. */
const NEWEST = 500;

/** Standard deviation of the metric over the newest live episodes that have a value; null for fewer than two. */
export async function liveDeviation(db: Pick<Db, 'query'>, metric: FullWatchRules['metric']): Promise<number | null> {
  const newest = query
    .selectFrom('facts.episodes as e')
    .select(liveValue(metric).as('value'))
    .where('e.closed', '=', true)
    .where(IS_LIVE)
    .where(sql<SqlBool>`${liveValue(metric)} is not null`)
    .orderBy(sql`coalesce(e.finished_at, e.last_at)`, 'desc')
    .limit(NEWEST);
  const row = await firstOf(
    db,
    query.selectFrom(newest.as('newest')).select(sql<number | null>`stddev_samp(value)::float8`.as('deviation')),
  );
  return row?.deviation ?? null;
}

/** Whether an episode (alias `e`) is of no rollout and no gate. */
export const IS_LIVE = sql<SqlBool>`e.tags ->> 'rollout' is null`;

/** Whether one of the calls (alias `c`) of an episode was for one of these policies and answered by the weights beside it. */
export const answeredBy = (weights: readonly (readonly [policy: string, checkpoint: string])[]): RawBuilder<boolean> =>
  weights.length === 0
    ? sql`false`
    : sql`bool_or((${ASKED_POLICY}, c.checkpoint_id) in (${sql.join(weights.map(([policy, id]) => sql`(${policy}, ${id})`))}))`;

/** The metric of an episode (alias `e`); null where it is unknown. */
export const liveValue = (metric: FullWatchRules['metric']): RawBuilder<number | null> =>
  metric === 'reward' ? sql`e.reward` : sql`case e.outcome when 'success' then 1.0 when 'failure' then 0.0 end::float8`;

export type LiveEpisode = {
  readonly episode_id: string;
  readonly group_id: string | null;
  readonly task_id: string | null;
  readonly value: number | null;
};

/** The units of these episodes, in the order in which each was first seen. Pure. */
export function liveUnitsOf(episodes: readonly LiveEpisode[]): LiveUnit[] {
  const units = new Map<string, { readonly task: string; readonly values: number[] }>();
  for (const { episode_id, group_id, task_id, value } of episodes) {
    const unit = group_id ?? episode_id;
    const known = units.get(unit) ?? { task: task_id ?? unit, values: [] };
    if (value !== null) known.values.push(Number(value));
    units.set(unit, known);
  }
  return [...units.values()].map(({ task, values }) => ({
    task,
    value: meanOf(values),
  }));
}
