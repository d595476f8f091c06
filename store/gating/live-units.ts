/** Live episodes as the units that a fall is looked for in: a group counts once, with the mean of its members. */
import { type RawBuilder, sql } from '../db/query.ts';
import type { LiveUnit, Watched } from './watch.ts';

/** Episodes that one look reads. */
export const MOST_LIVE = 20_000;

/** The metric of an episode (alias `e`); null where it is unknown. */
export const liveValue = (metric: Watched['metric']): RawBuilder<number | null> =>
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
    value: values.length === 0 ? null : values.reduce((a, b) => a + b, 0) / values.length,
  }));
}
