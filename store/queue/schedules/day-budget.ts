/** What the jobs of a schedule have used since midnight, against the budget of a day. */
import type { Db } from '../../db/pool.ts';
import { firstOf, query, sql } from '../../db/query.ts';
import { overBudget, spentBelow } from '../../loop/play/budget.ts';
import { below } from '../../loop/play/ids.ts';
import { cronTicks } from './cron.ts';
import type { ScheduleDefinition } from './definition-schema.ts';
import { fireId, instantOf } from './due.ts';

/** Midnight in the zone before a time, both in milliseconds since 1970. */
const midnightBefore = (zone: string, now: number): number => cronTicks('0 0 * * *', zone).latest(now) ?? now;

/**
 * Why no job starts before the next midnight of the zone; null while the budget lasts, or where there is none. Counted are the calls that
 * were recorded since midnight in episodes of the schedule's rollouts and gates, what its training programs reported, and the seconds in which its jobs ran; a job that began the
 * day before counts from midnight on.
 */
export async function dayBudgetOver(
  db: Db,
  name: string,
  { budget_per_day: budget, zone }: Pick<ScheduleDefinition, 'budget_per_day' | 'zone'>,
  now: number,
): Promise<string | null> {
  if (budget === undefined) return null;
  const since = instantOf(midnightBefore(zone, now));
  const jobs = fireId(name, '').slice(0, -1);
  const over = overBudget({ budget }, await spentBelow(db, jobs, since), await secondsOf(db, jobs, since, now));
  return over === null ? null : `since ${since}, midnight in ${zone}: ${over.message}`;
}

/** Seconds since a time in which jobs whose ids lie below this one ran; parts of a job are not counted again. */
async function secondsOf(db: Db, jobs: string, since: string, now: number): Promise<number> {
  const began = sql`greatest(started_at, ${since}::timestamptz)`;
  const ended = sql`coalesce(finished_at, ${instantOf(now)}::timestamptz)`;
  const row = await firstOf(
    db,
    query
      .selectFrom('facts.jobs')
      .select(sql<number>`coalesce(sum(greatest(extract(epoch from ${ended} - ${began}), 0)), 0)::float8`.as('seconds'))
      .where(below('job_id', jobs))
      .where('job_id', 'not like', `${jobs}/%/%`)
      .where('started_at', 'is not', null),
  );
  return row?.seconds ?? 0;
}
