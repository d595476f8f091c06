/**
 * Work to do. A job is a row of the queue while somebody must do it, and events once something happened: requested, started,
 * progressed, finished. A worker holds a job under a lease with a fencing token; only the holder of the newest token can finish it,
 * and a job whose worker died is given to another, at most {@link MAX_ATTEMPTS} times.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { TroupeError } from '../../errors.ts';
import { decodeDraft } from '../../ingest/decode.ts';
import type { Draft } from '../../ingest/events.ts';
import type { EventLog } from '../../ingest/log/log.ts';
import { environmentError, isTransient } from '../db/faults.ts';
import { notify, onNews } from '../db/news.ts';
import { patiently } from '../db/patience.ts';
import type { Db } from '../db/pool.ts';
import { anyOf, countOf, firstOf, prepare, query, rowsOf, rowsOfPrepared, sql } from '../db/query.ts';

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

/** Does a job of one kind; `report` records metrics of a step. Throwing fails the job with the error's sentence. */
export type Handler = (
  job: Job,
  report: (step: number, metrics: Record<string, number>) => Promise<void>,
) => Promise<unknown>;

export const JOB_CHANNEL = 'troupe_jobs';
export const MAX_ATTEMPTS = 3;
const LEASE_MS = 30_000;
/** Before a job that the environment failed is put back, times the attempts it had. */
const PUT_BACK_MS = 1000;

export type JobContext = { readonly db: Db; readonly log: EventLog; readonly now: () => Date };

/** Puts a job into the queue; asking again for the same id changes nothing. */
export async function requestJob(
  { db, log, now }: JobContext,
  {
    job_id,
    kind,
    spec,
    parent,
  }: {
    readonly job_id: string;
    readonly kind: string;
    readonly spec: Record<string, unknown>;
    readonly parent?: string;
  },
): Promise<void> {
  await record(log, now, job_id, 'requested', {
    name: 'job.requested',
    data: { job_id, kind, spec, parent_job_id: parent ?? null },
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

export type RunJobsOptions = {
  readonly worker: string;
  readonly handlers: Readonly<Record<string, Handler>>;
  readonly signal: AbortSignal;
  readonly pollMs?: number;
  /** How long after its last sign of life a worker is taken for dead; it gives one three times in that time. */
  readonly leaseMs?: number;
  /** Called with what the environment failed at, which is tried again. */
  readonly onTrouble?: (error: unknown) => void;
};

/** Does jobs of these kinds until stopped, one after the other. A job that the environment failed is tried again, as often as one whose worker died. */
export async function runJobs(
  context: JobContext,
  { worker, handlers, signal, pollMs = 500, leaseMs = LEASE_MS, onTrouble = () => {} }: RunJobsOptions,
): Promise<void> {
  const { db } = context;
  await onNews(db, JOB_CHANNEL, { signal, pollMs, onTrouble }, async () => {
    const job = await claim(db, Object.keys(handlers), worker, leaseMs);
    if (job) await perform(context, job, { worker, leaseMs, signal, onTrouble }, handlers[job.kind]!);
    return job !== null;
  });
}

/** Puts the jobs of a worker that leaves back into the queue, as if they had not been tried. Returns their ids. */
export async function handBack(db: Db, worker: string): Promise<string[]> {
  const rows = await rowsOf(
    db,
    query
      .updateTable('troupe.job_queue')
      .set((job) => ({
        state: 'waiting',
        worker: null,
        leased_until: null,
        token: job('token', '+', 1),
        attempts: sql<number>`greatest(attempts - 1, 0)`,
      }))
      .where('worker', '=', worker)
      .where('state', '=', 'running')
      .returning('job_id'),
  );
  return rows.map((row) => row.job_id);
}

const leaseEnd = (leaseMs: number) => sql<string>`clock_timestamp() + make_interval(secs => ${leaseMs}::float8 / 1000)`;

const claimJob = prepare<{ kinds: readonly string[]; worker: string; leaseMs: number }>('job_claim')((value) =>
  query
    .updateTable('troupe.job_queue')
    .set((job) => ({
      state: 'running',
      worker: value('worker'),
      token: job('token', '+', 1),
      attempts: job('attempts', '+', 1),
      leased_until: leaseEnd(value('leaseMs')),
    }))
    .where('job_id', '=', (job) =>
      job
        .selectFrom('troupe.job_queue')
        .select('job_id')
        .where('kind', '=', anyOf(value('kinds')))
        .where((one) =>
          one.or([
            one('state', '=', 'waiting'),
            one.and([one('state', '=', 'running'), one('leased_until', '<', sql<string>`clock_timestamp()`)]),
          ]),
        )
        .orderBy('requested_at')
        .orderBy('job_id')
        .limit(1)
        .forUpdate()
        .skipLocked(),
    )
    .returning(['job_id', 'kind', 'spec', 'token']),
);

async function claim(db: Db, kinds: readonly string[], worker: string, leaseMs: number): Promise<Job | null> {
  const [job] = await rowsOfPrepared(db, claimJob, { kinds, worker, leaseMs });
  return job ? { ...job, spec: job.spec as Job['spec'] } : null;
}

async function perform(
  { db, log, now }: JobContext,
  job: Job,
  { worker, leaseMs, signal, onTrouble }: Required<Pick<RunJobsOptions, 'worker' | 'leaseMs' | 'signal' | 'onTrouble'>>,
  handler: Handler,
): Promise<void> {
  let lost = false;
  // While it is asked to stop once is enough: whoever leaves hands back what it holds.
  const untilDone = <T>(work: () => Promise<T>) => (signal.aborted ? work() : patiently(work, { signal, onTrouble }));
  const beat = async () => {
    const renewed = query
      .updateTable('troupe.job_queue')
      .set('leased_until', leaseEnd(leaseMs))
      .where('job_id', '=', job.job_id)
      .where('token', '=', job.token)
      .where('state', '=', 'running');
    lost = (await countOf(db, renewed)) === 0;
  };
  // A beat that the database missed is made up by the next one.
  const renew = setInterval(() => void beat().catch(() => {}), leaseMs / 3);
  let ended: JobResult;
  let attempts = 1;
  try {
    const row = await firstOf(
      db,
      query.selectFrom('troupe.job_queue').select(['attempts', 'error']).where('job_id', '=', job.job_id),
    );
    attempts = row?.attempts ?? 1;
    if (attempts > MAX_ATTEMPTS) {
      const last = row?.error as { readonly message: string } | null | undefined;
      const why = last ? `ended each time: ${last.message}` : 'its worker died each time.';
      throw new TroupeError('training_failed', `It was tried ${MAX_ATTEMPTS} times and ${why}`);
    }
    await record(log, now, job.job_id, `started-${job.token}`, {
      name: 'job.started',
      data: { job_id: job.job_id, worker, token: job.token },
    });
    const report = async (step: number, metrics: Record<string, number>) => {
      if (lost) throw new TroupeError('fenced', `Job ${job.job_id} was given to another worker; this one stops.`);
      await record(log, now, job.job_id, `progressed-${job.token}-${step}`, {
        name: 'job.progressed',
        data: { job_id: job.job_id, step, metrics },
      });
    };
    ended = { outcome: 'done', result: (await handler(job, report)) ?? null, error: null };
  } catch (error) {
    const known = error instanceof TroupeError ? error : environmentError(error);
    const message = known?.message ?? (error instanceof Error ? error.message : String(error));
    const told = { code: known?.code ?? 'internal', message };
    if (isTransient(error)) {
      onTrouble(error);
      await sleep(PUT_BACK_MS * attempts, undefined, { signal }).catch(() => {});
      await untilDone(() => putBack(db, job, told));
      return;
    }
    ended = { outcome: 'failed', result: null, error: told };
  } finally {
    clearInterval(renew);
  }
  await untilDone(() => finish({ db, log, now }, job, ended));
}

/** The environment failed it, not what it is: it waits again, and keeps the attempt and the reason. */
const putBack = (db: Db, { job_id, token }: Job, error: { readonly code: string; readonly message: string }) =>
  countOf(
    db,
    query
      .updateTable('troupe.job_queue')
      .set((row) => ({
        state: 'waiting',
        worker: null,
        leased_until: null,
        token: row('token', '+', 1),
        error: JSON.stringify(error),
      }))
      .where('job_id', '=', job_id)
      .where('token', '=', token)
      .where('state', '=', 'running'),
  );

/** A worker whose lease went to another has an old token: it finds no row and says nothing. While it speaks, nobody can take the job. */
const finish = ({ db, log, now }: JobContext, job: Job, ended: JobResult): Promise<void> =>
  db.transaction(async (tx) => {
    const held = query
      .selectFrom('troupe.job_queue')
      .select('job_id')
      .where('job_id', '=', job.job_id)
      .where('token', '=', job.token)
      .where('state', '=', 'running');
    if ((await firstOf(tx, held.forUpdate())) === undefined) return;
    await record(log, now, job.job_id, `finished-${job.token}`, {
      name: 'job.finished',
      data: { job_id: job.job_id, ...ended },
    });
    const end = {
      outcome: ended.outcome,
      result: JSON.stringify(ended.result),
      error: JSON.stringify(ended.error),
      leased_until: null,
    };
    await countOf(
      tx,
      query
        .updateTable('troupe.job_queue')
        .set({ state: 'finished', ...end })
        .where('job_id', '=', job.job_id),
    );
  });

async function record(
  log: EventLog,
  now: () => Date,
  jobId: string,
  id: string,
  draft: Pick<Draft, 'name' | 'data'>,
): Promise<void> {
  const decoded = decodeDraft({ source: '/jobs', id: `${jobId}/${id}`, time: now().toISOString(), ...draft } as Draft);
  if (decoded.refusal)
    throw new TroupeError('internal', `A job's own event was refused: ${JSON.stringify(decoded.refusal)}`);
  await log.append([decoded.event]);
}

type Schema<T> = {
  Check(value: unknown): value is T;
  Errors(value: unknown): { instancePath: string; message: string }[];
};

/** A job's spec as its kind needs it. @throws TroupeError `usage` naming the field. */
export function checkedSpec<T>(schema: Schema<T>, spec: unknown): T {
  if (schema.Check(spec)) return spec;
  const [error] = schema.Errors(spec);
  throw new TroupeError('usage', `The job's spec does not fit: ${error?.instancePath || 'it'} ${error?.message}.`);
}
