/** What a schedule did: the jobs it requested, and the ticks it skipped with their reasons. */
import type { EventData } from '../../../ingest/events/events.ts';
import { upcast } from '../../../ingest/events/upcast/catalogue.ts';
import type { Db } from '../../db/pool.ts';
import { query, rowsOf, type SqlBool, sql } from '../../db/query.ts';
import { WATCH } from '../../loop/comparison/watching.ts';
import { fireId } from './due.ts';

export type ScheduledRun = {
  readonly job_id: string;
  readonly due_at: string;
  readonly state: 'waiting' | 'running' | 'finished';
  readonly outcome: 'done' | 'failed' | 'cancelled' | null;
  readonly result: unknown;
  readonly error: unknown;
};

/** A job as `traj.jobs` shows it, here as among the runs; one that is in no table yet is `requested`. */
export type ShownRun = Omit<ScheduledRun, 'state' | 'outcome'> & {
  readonly state: string;
  readonly outcome: string | null;
  /** The time whose recordings it read, where it was run afterwards. */
  readonly as_of: string | null;
};

/** The last `limit` jobs and the last `limit` skipped ticks, newest first. */
export async function scheduleHistory(db: Db, name: string, limit: number) {
  const [runs, skipped] = await Promise.all([
    rowsOf(
      db,
      // Not for whoever only decides: it reads the whole spec of a job, such as a plan with all its tasks.
      query
        .selectFrom(jobsOf(name, '').select(['job_id', 'spec']).orderBy('job_id', 'desc').limit(limit).as('q'))
        .leftJoin('traj.jobs as j', 'j.job_id', 'q.job_id')
        .select([
          'q.job_id',
          sql<string>`coalesce(j.state, 'requested')`.as('state'),
          'j.outcome',
          'j.result',
          'j.error',
          sql<string | null>`q.spec #>> '{as_of,at}'`.as('as_of'),
        ])
        .orderBy('q.job_id', 'desc'),
    ),
    rowsOf(
      db,
      query
        .selectFrom('troupe.events')
        .select(['type_version', 'data'])
        .where('key', '=', `x/schedule/${name}`)
        .where('name', '=', 'schedule.skipped')
        .orderBy('position', 'desc')
        .limit(limit),
    ),
  ]);
  return {
    runs: runs.map((run) => ({ ...run, due_at: dueAt(name, run.job_id) })),
    skipped: skipped.map(({ type_version, data }) => {
      const skip = upcast('schedule.skipped', type_version, data) as EventData<'schedule.skipped'>;
      const { first_due_at, last_due_at, count, reason, detail } = skip;
      return { due_at: first_due_at, until: last_due_at, count: count ?? null, reason, detail: detail ?? null };
    }),
  };
}

/** The ids of those of these jobs whose release was rolled back by its watch. */
export async function rolledBack(db: Db, runs: readonly ScheduledRun[]): Promise<ReadonlySet<string>> {
  if (runs.length === 0) return new Set();
  const ids = runs.map(({ job_id }) => job_id);
  const watches = await rowsOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select('job_id')
      .where('kind', '=', WATCH)
      .where('job_id', '>', ids.at(-1)!)
      .where('job_id', '<', `${ids[0]}0`)
      .where(sql<SqlBool>`result ->> 'outcome' = 'fell'`),
  );
  return new Set(ids.filter((id) => watches.some(({ job_id }) => job_id.startsWith(`${id}/`))));
}

/** The last `limit` jobs that were due after that instant, newest first. */
export async function lastRuns(
  db: Db,
  name: string,
  { after = '', limit }: { readonly after?: string; readonly limit: number },
): Promise<ScheduledRun[]> {
  const runs = await rowsOf(
    db,
    jobsOf(name, after)
      .select(['job_id', 'state', 'outcome', 'result', 'error'])
      .orderBy('job_id', 'desc')
      .limit(limit),
  );
  return runs.map((run) => ({ ...run, due_at: dueAt(name, run.job_id) }));
}

const dueAt = (name: string, job: string): string => job.slice(fireId(name, '').length);

/** Its jobs that were due after that instant, without their parts. */
function jobsOf(name: string, after: string) {
  const first = fireId(name, '');
  return (
    query
      .selectFrom('troupe.job_queue')
      .where('job_id', '>', fireId(name, after))
      // The character after the slash: all ids that begin with `first`, and no other.
      .where('job_id', '<', `${first.slice(0, -1)}0`)
      // Parts of a job have ids below its own.
      .where('job_id', 'not like', `${first}%/%`)
  );
}
