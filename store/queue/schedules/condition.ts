/** Whether the condition of a schedule holds now, and the numbers behind it in a sentence. */
import type { Session } from '../../db/pool.ts';
import { query, rowsOf, type SqlBool, sql } from '../../db/query.ts';
import { liveUnitsOf, liveValue, MOST_LIVE } from '../../loop/comparison/live-units.ts';
import { evidenceOf, type FullWatchRules, type LiveUnit, watchedBy } from '../../loop/comparison/watch.ts';
import type { Positions } from '../../projecting/read-batch.ts';
import type { ScheduleDefinition } from './definition-schema.ts';
import { driftNow } from './drift.ts';
import { newEpisodes } from './new-episodes.ts';

export type ScheduleCondition = NonNullable<ScheduleDefinition['when']>;

export type ConditionResult = {
  readonly holds: boolean;
  readonly detail: string;
  /** Judged episodes that are new; null for a condition on a metric. */
  readonly new_episodes: number | null;
  /** Where the log ended when they were counted; null for a condition on a metric. */
  readonly until: Positions | null;
};

/** What the condition looks back to: positions of the log and the time at which the last job started, else the beginning. */
export type Since = { readonly positions: Positions; readonly at: string };

/** Looks once. Nothing is changed. */
export async function conditionNow(db: Session, when: ScheduleCondition, since: Since): Promise<ConditionResult> {
  if ('fell' in when) return metricNow(db, when.fell, since.at);
  if ('drift' in when) return { ...(await driftNow(db, when.drift, since.at)), new_episodes: null, until: null };
  const { count, until } = await newEpisodes(db, since.positions);
  return {
    holds: count >= when.new_episodes,
    detail: `${count} new judged episodes, and the condition is ${when.new_episodes}`,
    new_episodes: count,
    until,
  };
}

/** A fall is found as the watch of a release finds it: at any number of looks with a chance of at most 5 % where there is none. */
async function metricNow(
  db: Session,
  { metric, by, range }: Extract<ScheduleCondition, { fell: unknown }>['fell'],
  since: string,
): Promise<ConditionResult> {
  const rules = watchedBy({ metric, fall: by, ...(range === undefined ? {} : { range }) });
  const before = await liveEpisodes(db, rules, { before: since });
  const evidence = evidenceOf(rules, before, await liveEpisodes(db, rules, { from: since }));
  const shown = (value: number | null) => (value === null ? 'unknown' : String(Number(value.toPrecision(4))));
  const means = `mean ${metric} ${shown(evidence.after.mean)} of ${evidence.after.units} live episodes since ${since}, ${shown(evidence.before.mean)} of ${evidence.before.units} before`;
  const proof =
    evidence.capital === null
      ? `no conclusion: too few episodes, or no room for a fall by ${by}`
      : `the evidence for a fall by more than ${by} is ${shown(evidence.capital)} of ${shown(evidence.needed)}`;
  return { holds: evidence.fell, detail: `${means}; ${proof}`, new_episodes: null, until: null };
}

/** Closed episodes outside of rollouts and gates on one side of a time, in the order of their ends; of those before it the last ones. */
async function liveEpisodes(
  db: Session,
  { metric, before: last }: FullWatchRules,
  side: { readonly before: string } | { readonly from: string },
): Promise<LiveUnit[]> {
  const isBefore = 'before' in side;
  const began = sql`coalesce(e.started_at, e.last_at)`;
  const rows = await rowsOf(
    db,
    query
      .selectFrom('facts.episodes as e')
      .select(['e.episode_id', 'e.group_id', 'e.task_id', liveValue(metric).as('value')])
      .where('e.closed', '=', true)
      .where(sql<SqlBool>`e.tags ->> 'rollout' is null`)
      .where(
        isBefore
          ? sql<SqlBool>`${began} < ${side.before}::timestamptz`
          : sql<SqlBool>`${began} >= ${side.from}::timestamptz`,
      )
      .orderBy(sql`coalesce(e.finished_at, e.last_at)`, isBefore ? 'desc' : 'asc')
      .orderBy('e.episode_id')
      .limit(isBefore ? last : MOST_LIVE),
  );
  if (isBefore) rows.reverse();
  return liveUnitsOf(rows);
}
