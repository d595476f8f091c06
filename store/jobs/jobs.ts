/**
 * Work to do. A job is a row of the queue while somebody must do it, and events once something happened: requested, started,
 * progressed, finished. A worker holds a job under a lease with a fencing token; only the holder of the newest token can finish it,
 * and a job whose worker died is given to another, at most {@link MAX_ATTEMPTS} times.
 */
import { TroupeError } from '../../errors.ts';
import { decodeDraft } from '../../ingest/decode.ts';
import type { Draft } from '../../ingest/events.ts';
import type { EventLog } from '../../ingest/log/log.ts';
import { onNews } from '../db/news.ts';
import type { Db } from '../db/pool.ts';

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
  await db.query('insert into troupe.job_queue (job_id, kind, spec) values ($1, $2, $3) on conflict do nothing', [
    job_id,
    kind,
    JSON.stringify(spec),
  ]);
  await db.query(`select pg_notify('${JOB_CHANNEL}', $1)`, [kind]);
}

/** Waits for the end of a job. @throws TroupeError `training_failed` with the job's own error when it did not end well. */
export async function waitForJob(db: Db, jobId: string, { timeoutMs = 600_000 } = {}): Promise<unknown> {
  const deadline = performance.now() + timeoutMs;
  for (let pause = 2; performance.now() < deadline; pause = Math.min(50, pause * 1.3)) {
    const { rows } = await db.query<JobResult & { state: string }>(
      'select state, outcome, result, error from troupe.job_queue where job_id = $1',
      [jobId],
      { name: 'job_state' },
    );
    const job = rows[0];
    if (!job) throw new TroupeError('not_found', `There is no job ${jobId}.`);
    if (job.state === 'finished') {
      if (job.outcome === 'done') return job.result;
      throw new TroupeError('training_failed', `Job ${jobId} ${job.outcome}: ${JSON.stringify(job.error)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  throw new TroupeError('busy', `Job ${jobId} did not end within ${timeoutMs / 1000} s.`);
}

/** Does jobs of these kinds until stopped, one after the other. */
export async function runJobs(
  context: JobContext,
  {
    worker,
    handlers,
    signal,
    pollMs = 500,
    leaseMs = LEASE_MS,
  }: {
    readonly worker: string;
    readonly handlers: Readonly<Record<string, Handler>>;
    readonly signal: AbortSignal;
    readonly pollMs?: number;
    /** How long after its last sign of life a worker is taken for dead; it gives one three times in that time. */
    readonly leaseMs?: number;
  },
): Promise<void> {
  const { db } = context;
  await onNews(db, JOB_CHANNEL, { signal, pollMs }, async () => {
    const job = await claim(db, Object.keys(handlers), worker, leaseMs);
    if (job) await perform(context, job, { worker, leaseMs }, handlers[job.kind]!);
    return job !== null;
  });
}

/** Puts the jobs of a worker that leaves back into the queue, as if they had not been tried. Returns their ids. */
export async function handBack(db: Db, worker: string): Promise<string[]> {
  const { rows } = await db.query<{ job_id: string }>(
    `update troupe.job_queue set state = 'waiting', worker = null, leased_until = null, token = token + 1, attempts = greatest(attempts - 1, 0)
     where worker = $1 and state = 'running' returning job_id`,
    [worker],
  );
  return rows.map((row) => row.job_id);
}

async function claim(db: Db, kinds: readonly string[], worker: string, leaseMs: number): Promise<Job | null> {
  const { rows } = await db.query<Job>(
    `update troupe.job_queue q set state = 'running', worker = $2, token = token + 1, attempts = attempts + 1,
            leased_until = clock_timestamp() + make_interval(secs => $3::float8 / 1000)
     where job_id = (
       select job_id from troupe.job_queue
       where kind = any($1::text[]) and (state = 'waiting' or state = 'running' and leased_until < clock_timestamp())
       order by requested_at, job_id for update skip locked limit 1
     ) returning job_id, kind, spec, token`,
    [kinds, worker, leaseMs],
    { name: 'job_claim' },
  );
  const job = rows[0];
  return job ? { ...job, token: Number(job.token) } : null;
}

async function perform(
  { db, log, now }: JobContext,
  job: Job,
  { worker, leaseMs }: { readonly worker: string; readonly leaseMs: number },
  handler: Handler,
): Promise<void> {
  let lost = false;
  const beat = async () => {
    const { count } = await db.query(
      `update troupe.job_queue set leased_until = clock_timestamp() + make_interval(secs => $3::float8 / 1000)
       where job_id = $1 and token = $2 and state = 'running'`,
      [job.job_id, job.token, leaseMs],
    );
    lost = count === 0;
  };
  // A beat that the database missed is made up by the next one.
  const renew = setInterval(() => void beat().catch(() => {}), leaseMs / 3);
  let ended: JobResult;
  try {
    const { rows } = await db.query<{ attempts: number }>('select attempts from troupe.job_queue where job_id = $1', [
      job.job_id,
    ]);
    if ((rows[0]?.attempts ?? 1) > MAX_ATTEMPTS) {
      throw new TroupeError('training_failed', `It was tried ${MAX_ATTEMPTS} times and its worker died each time.`);
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
    const message = error instanceof Error ? error.message : String(error);
    const code = error instanceof TroupeError ? error.code : 'internal';
    ended = { outcome: 'failed', result: null, error: { code, message } };
  } finally {
    clearInterval(renew);
  }
  await finish({ db, log, now }, job, ended);
}

/** A worker whose lease went to another has an old token: it finds no row and says nothing. While it speaks, nobody can take the job. */
const finish = ({ db, log, now }: JobContext, job: Job, ended: JobResult): Promise<void> =>
  db.transaction(async (tx) => {
    const { rows } = await tx.query(
      `select 1 from troupe.job_queue where job_id = $1 and token = $2 and state = 'running' for update`,
      [job.job_id, job.token],
    );
    if (rows.length === 0) return;
    await record(log, now, job.job_id, `finished-${job.token}`, {
      name: 'job.finished',
      data: { job_id: job.job_id, ...ended },
    });
    await tx.query(
      `update troupe.job_queue set state = 'finished', outcome = $2, result = $3, error = $4, leased_until = null where job_id = $1`,
      [job.job_id, ended.outcome, JSON.stringify(ended.result), JSON.stringify(ended.error)],
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
