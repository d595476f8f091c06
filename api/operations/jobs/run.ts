/** What operations on jobs do. */
import { got, TroupeError } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import { firstOf, query, sql } from '../../../store/db/query.ts';
import { cancelJob } from '../../../store/queue/jobs/jobs.ts';
import { curvesOf } from '../../../store/queue/jobs/metrics.ts';
import { madeBy } from '../../../store/queue/jobs/run-of-plan.ts';
import { waitsForTraining } from '../../../trainer/loop/jobs/training-place.ts';
import { columns, type FilteredPage, filteredList } from '../filtered-list.ts';
import type { ChangeContext, OutputOf, ReadContext } from '../operation.ts';

const JOBS = {
  rows: 'traj.jobs',
  fields: {
    ...columns('text', 'job_id', 'kind', 'state', 'outcome', 'plan', 'parent_job_id', 'worker'),
    ...columns('time', 'requested_at', 'started_at', 'finished_at'),
  },
  id: 'job_id',
};

const jobs = query
  .selectFrom('traj.jobs')
  .select(sql<string>`job_id`.as('job_id'))
  .select(['kind', 'state', 'outcome', 'plan', 'parent_job_id', 'worker', 'result', 'error'])
  .select(['requested_at', 'started_at', 'finished_at']);

const recordedJob = (db: Db, id: string) => firstOf(db, jobs.select('spec').where('job_id', '=', id));

/** The same as the queue has it, which knows of a change before it is projected. */
const queuedJob = (db: Db, id: string) =>
  firstOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select(['job_id', 'kind', 'spec', 'outcome', 'result', 'error', 'requested_at'])
      .select(sql<string>`case state when 'waiting' then 'requested' else state end`.as('state'))
      .where('job_id', '=', id)
      .where('kind', 'not in', ['schedule', 'notify']),
  );

export async function list(context: ReadContext, asked: FilteredPage) {
  const waitsFor = await waitsForTraining(context);
  const page = await filteredList<NonNullable<OutputOf<typeof recordedJob>>>(context.db, jobs, JOBS, asked);
  return {
    ...page,
    items: page.items.map(({ result, ...job }) => ({ ...job, made: madeBy(result), waits_for: waitsFor(job) })),
  };
}

export async function show(context: ReadContext, { job: id }: { readonly job: string }) {
  const { db } = context;
  const [recorded, queued] = await Promise.all([recordedJob(db, id), queuedJob(db, id)]);
  const job = queued ?? recorded;
  if (job === undefined)
    throw new TroupeError('not_found', `There is no job ${got(id)}; \`troupe jobs\` lists them.`, { field: 'job' });
  const unknown = { plan: null, parent_job_id: null, worker: null, started_at: null, finished_at: null };
  const latest = (name: string) =>
    firstOf(
      db,
      query
        .selectFrom('facts.job_metrics')
        .select('value')
        .where('job_id', '=', id)
        .where('name', '=', name)
        .orderBy('step', 'desc')
        .limit(1),
    );
  const [waitsFor, done, total] = await Promise.all([waitsForTraining(context), latest('done'), latest('total')]);
  return {
    ...{ ...unknown, ...recorded, ...job },
    ...{ made: madeBy(job.result), waits_for: waitsFor(job) },
    ...{ done: done?.value ?? null, total: total?.value ?? null },
  };
}

export const metrics = async ({ db }: ReadContext, { job }: { readonly job: string }) => ({
  items: await curvesOf(db, job),
});

export async function cancel(
  context: ChangeContext,
  { job, reason = null }: { readonly job: string; readonly reason?: string | null },
) {
  const cancelled = await cancelJob(context, job, { by: context.by, reason });
  await context.catchUp();
  return { cancelled };
}
