/**
 * Work to do: asking for it, waiting for it, cancelling it; `worker.ts` does it. A job is a row of the queue while somebody must do it, and
 * events once something happened: requested, started, progressed, finished. A worker holds a job under a lease with a fencing token; only
 * the holder of the newest token can finish it, and a job whose worker died is given to another, at most {@link MAX_ATTEMPTS} times.
 */
import type { Static, TSchema } from 'typebox';
import { read } from '../../../document.ts';
import { TroupeError } from '../../../errors.ts';
import type { Draft } from '../../../ingest/events/events.ts';
import type { EventLog } from '../../../ingest/log/log.ts';
import { appendOwn } from '../../../ingest/log/own-event.ts';
import { notify } from '../../db/notifications.ts';
import type { Db, Session } from '../../db/pool.ts';
import { countOf, firstOf, prepare, query, rowsOf, rowsOfPrepared, type SqlBool, sql } from '../../db/query.ts';

export type Job<Spec = Record<string, unknown>> = {
  readonly job_id: string;
  readonly kind: string;
  readonly spec: Spec;
  readonly token: number;
};

export type JobResult = {
  readonly outcome: 'done' | 'failed' | 'cancelled';
  readonly result: unknown;
  readonly error: unknown;
};

/**
 * Thrown by a handler whose job cannot go on before another job has ended. The job leaves its worker, and is run again from its
 * beginning once the other one has finished, however it ended. So a job of jobs holds no worker while its parts run.
 */
export class WaitsFor extends Error {
  readonly jobId: string;

  constructor(jobId: string) {
    super(`It waits for job ${jobId}.`);
    this.name = 'WaitsFor';
    this.jobId = jobId;
  }
}

/**
 * Does a job of one kind; `report` records metrics of a step. Throwing fails the job with the error's sentence; throwing
 * {@link WaitsFor} puts it aside until another job has ended.
 */
export type Handler = (
  job: Job,
  report: (step: number, metrics: Record<string, number>) => Promise<void>,
  /** Fires once the job was given to another worker: nothing that this one still does counts. */
  fenced: AbortSignal,
) => Promise<unknown>;

export const JOB_CHANNEL = 'troupe_jobs';
export const MAX_ATTEMPTS = 3;

export type JobContext = { readonly db: Db; readonly log: EventLog; readonly now: () => Date };

/** Puts a job into the queue; asking again for the same id changes nothing. */
export async function requestJob(
  { db, log, now }: JobContext,
  {
    job_id,
    kind,
    spec,
    parent,
    tick,
  }: {
    readonly job_id: string;
    readonly kind: string;
    readonly spec: Record<string, unknown>;
    readonly parent?: string;
    /** The tick of a schedule that it is for. */
    readonly tick?: { readonly schedule: string; readonly due_at: string };
  },
): Promise<void> {
  await record(log, now, job_id, 'requested', {
    name: 'job.requested',
    data: { job_id, kind, spec, parent_job_id: parent ?? null, ...tick },
  });
  const row = { job_id, kind, spec: JSON.stringify(spec) };
  await countOf(
    db,
    query
      .insertInto('troupe.job_queue')
      .values(row)
      .onConflict((conflict) => conflict.doNothing()),
  );
  await notify(db, JOB_CHANNEL, kind);
}

/**
 * Has a job that has ended go on with another spec: its handler is called again, and what it left is there. What is counted from its request,
 * such as a deadline, goes on from where it ended. Returns false where it has not ended, or is not there.
 */
export const goOnWithJob = (
  { db, log, now }: JobContext,
  {
    job_id,
    spec,
    parent,
  }: { readonly job_id: string; readonly spec: Record<string, unknown>; readonly parent?: string },
): Promise<boolean> =>
  db.transaction(async (tx) => {
    const ended = query
      .selectFrom('troupe.job_queue')
      .select(['kind', 'token'])
      .where('job_id', '=', job_id)
      .where('state', '=', 'finished');
    const job = await firstOf(tx, ended.forUpdate());
    if (job === undefined) return false;
    await record(log, now, job_id, `requested-${job.token}`, {
      name: 'job.requested',
      data: { job_id, kind: job.kind, spec, parent_job_id: parent ?? null, again: true },
    });
    const none = { outcome: null, result: null, error: null, worker: null, leased_until: null, waits_for: null };
    const lasted = sql`coalesce((select finished_at from facts.jobs f where f.job_id = job_queue.job_id), clock_timestamp()) - requested_at`;
    await countOf(
      tx,
      query
        .updateTable('troupe.job_queue')
        .set({
          ...none,
          state: 'waiting',
          attempts: 0,
          spec: JSON.stringify(spec),
          requested_at: sql<string>`clock_timestamp() - (${lasted})`,
        })
        .where('job_id', '=', job_id),
    );
    await notify(tx, JOB_CHANNEL, job.kind);
    return true;
  });

/**
 * Ends a job that no worker takes, such as a decision that is left to a person. Returns false where no such job waits: it is not there,
 * or has ended.
 */
export const endWaiting = (
  { db, log, now }: JobContext,
  { job_id, kind, result }: { readonly job_id: string; readonly kind: string; readonly result: unknown },
): Promise<boolean> =>
  db.transaction(async (tx) => {
    const waiting = query
      .selectFrom('troupe.job_queue')
      .select('job_id')
      .where('job_id', '=', job_id)
      .where('kind', '=', kind)
      .where('state', '=', 'waiting');
    if ((await firstOf(tx, waiting.forUpdate())) === undefined) return false;
    await end(tx, { log, now }, { job_id, eventId: 'finished' }, { outcome: 'done', result, error: null });
    return true;
  });

const jobState = prepare<{ jobId: string }>('job_state')((value) =>
  query
    .selectFrom('troupe.job_queue')
    .select(['state', 'outcome', 'result', 'error'])
    .where('job_id', '=', value('jobId')),
);

/** Waits for the end of a job. @throws TroupeError `training_failed` with the job's own error when it did not end well. */
export async function waitForJob(db: Db, jobId: string, { timeoutMs = 600_000 } = {}): Promise<unknown> {
  const deadline = performance.now() + timeoutMs;
  for (let pause = 2; performance.now() < deadline; pause = Math.min(50, pause * 1.3)) {
    const [job] = await rowsOfPrepared(db, jobState, { jobId });
    if (!job) throw new TroupeError('not_found', `There is no job ${jobId}.`);
    if (job.state === 'finished') {
      if (job.outcome === 'done') return job.result;
      throw new TroupeError('training_failed', `Job ${jobId} ${job.outcome}: ${JSON.stringify(job.error)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  throw new TroupeError('busy', `Job ${jobId} did not end within ${timeoutMs / 1000} s.`);
}

/**
 * Ends a job that waits or runs, and its parts, with the outcome cancelled. A worker that has one of them stops within seconds, and what
 * it still does publishes nothing. Returns the ids of what was cancelled, the job itself first.
 * @throws TroupeError `not_found`; `conflict` where it has ended already
 */
export async function cancelJob(
  { db, log, now }: JobContext,
  jobId: string,
  { by, reason }: { readonly by: string; readonly reason: string | null },
): Promise<string[]> {
  const job = await firstOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select(['state', 'outcome'])
      .where('job_id', '=', jobId)
      .where('kind', 'not in', ['schedule', 'notify']),
  );
  if (!job) throw new TroupeError('not_found', `There is no job ${jobId}; \`troupe jobs\` lists them.`);
  if (job.state === 'finished') throw new TroupeError('conflict', `Job ${jobId} has ended already: ${job.outcome}.`);
  const error = { code: 'cancelled', message: `It was cancelled by ${by}${reason === null ? '.' : `: ${reason}`}` };
  const cancelled = await db.transaction(async (tx) => {
    const rows = await rowsOf(
      tx,
      query
        .updateTable('troupe.job_queue')
        .set((row) => ({
          state: 'finished',
          outcome: 'cancelled',
          error: JSON.stringify(error),
          token: row('token', '+', 1),
          leased_until: null,
        }))
        .where((row) => row.or([row('job_id', '=', jobId), sql<SqlBool>`starts_with(job_id, ${`${jobId}/`})`]))
        .where('state', '<>', 'finished')
        .returning(['job_id', 'token']),
    );
    for (const row of rows) {
      await record(log, now, row.job_id, `finished-${row.token}`, {
        name: 'job.finished',
        data: { job_id: row.job_id, outcome: 'cancelled', result: null, error },
      });
    }
    return rows.map((row) => row.job_id);
  });
  // It ended by itself between the two looks.
  if (!cancelled.includes(jobId)) throw new TroupeError('conflict', `Job ${jobId} has just ended.`);
  await notify(db, JOB_CHANNEL, 'cancelled');
  return cancelled.sort();
}

/**
 * Makes sure that a job is still its worker's, just before something of it becomes visible to others.
 * @throws TroupeError `fenced` where it was cancelled or given to another worker
 */
export async function requireHeld(db: Db, job: Job): Promise<void> {
  if ((await firstOf(db, held(job))) === undefined)
    throw new TroupeError('fenced', `Job ${job.job_id} was cancelled or given to another worker; this one stops.`);
}

/** The job as long as its worker holds it: whoever took it over, or cancelled it, moved the token or the state. */
export const held = ({ job_id, token }: Pick<Job, 'job_id' | 'token'>) =>
  query
    .selectFrom('troupe.job_queue')
    .select('job_id')
    .where('job_id', '=', job_id)
    .where('token', '=', token)
    .where('state', '=', 'running');

/** Ends a job: its event, its row, and word to whoever waits for it. */
export async function end(
  tx: Session,
  { log, now }: Pick<JobContext, 'log' | 'now'>,
  { job_id, eventId }: { readonly job_id: string; readonly eventId: string },
  ended: JobResult,
): Promise<void> {
  await record(log, now, job_id, eventId, { name: 'job.finished', data: { job_id, ...ended } });
  const row = {
    outcome: ended.outcome,
    result: JSON.stringify(ended.result),
    error: JSON.stringify(ended.error),
    leased_until: null,
  };
  await countOf(
    tx,
    query
      .updateTable('troupe.job_queue')
      .set({ state: 'finished', ...row })
      .where('job_id', '=', job_id),
  );
  // Jobs that waited for it can go on.
  await notify(tx, JOB_CHANNEL, job_id);
}

/** Appends an event about a job. */
export async function record(
  log: EventLog,
  now: () => Date,
  jobId: string,
  id: string,
  draft: Pick<Draft, 'name' | 'data'>,
): Promise<void> {
  const whole = { source: '/jobs', id: `${jobId}/${id}`, time: now().toISOString(), ...draft } as Draft;
  // The spec of what is requested has names that a user gave.
  await appendOwn(log, [whole], draft.name === 'job.requested' ? 'usage' : 'internal');
}

/** A job's spec as its kind needs it. @throws TroupeError `usage` naming the field. */
export const checkedSpec = <T extends TSchema>(schema: T, spec: unknown): Static<T> =>
  read(schema, spec, { called: 'it', before: "The job's spec does not fit: " });
