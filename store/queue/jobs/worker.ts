/**
 * Whoever does jobs: takes the next one under a lease, renews it, and ends the job, puts it aside or puts it back. A worker whose lease
 * went to another has an old token, and nothing that it still does counts.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { TroupeError } from '../../../errors.ts';
import { environmentError, isTransient } from '../../db/faults.ts';
import { onNotify } from '../../db/notifications.ts';
import { patiently } from '../../db/patience.ts';
import type { Db } from '../../db/pool.ts';
import {
  anyOf,
  countOf,
  firstOf,
  prepare,
  query,
  type RawBuilder,
  rowsOf,
  rowsOfPrepared,
  type SqlBool,
  sql,
} from '../../db/query.ts';
import {
  end,
  type Handler,
  held,
  JOB_CHANNEL,
  type Job,
  type JobContext,
  type JobResult,
  MAX_ATTEMPTS,
  record,
  WaitsFor,
} from './jobs.ts';

const LEASE_MS = 30_000;
/** A worker looks at least this often for a job: what is requested notifies it, what is left by a worker that died, or by another project, notifies nobody. */
const POLL_MS = 2000;
/** A worker looks at least this often whether its job was cancelled. */
const LOOK_MS = 3000;
/** Before a job that the environment failed is put back, times the attempts it had. */
const PUT_BACK_MS = 1000;

/** Something that a worker needs beside the queue before it takes a job of some kinds. */
export type WorkerTurn = {
  readonly kinds: readonly string[];
  /** Returns how to give it back; null while others have it, and the job waits. */
  readonly take: (jobId: string) => Promise<(() => Promise<void>) | null>;
  /** The first of these jobs that needs no turn, as it works elsewhere: it is done beside the others. */
  readonly free?: (jobIds: readonly string[]) => Promise<string | null>;
};

export type RunJobsOptions = {
  readonly worker: string;
  readonly handlers: Readonly<Record<string, Handler>>;
  readonly signal: AbortSignal;
  readonly pollMs?: number;
  /** How long after its last sign of life a worker is taken for dead; it gives one three times in that time. */
  readonly leaseMs?: number;
  /** Only the job of this id and those whose ids begin with it and a slash: a job of jobs and its parts. */
  readonly within?: string;
  readonly turn?: WorkerTurn;
  /** Called with what the environment failed at, which is tried again. */
  readonly onTrouble?: (error: unknown) => void;
  /** Called with the outcome of a job, and the seconds that this worker had it. */
  readonly onEnded?: (job: Job, outcome: JobResult['outcome'], seconds: number) => void;
};

/** Does jobs of these kinds until stopped, one after the other. A job that the environment failed is tried again, as often as one whose worker died. */
export async function runJobs(
  context: JobContext,
  {
    worker,
    handlers,
    signal,
    pollMs = POLL_MS,
    leaseMs = LEASE_MS,
    within,
    turn,
    onTrouble = () => {},
    onEnded = () => {},
  }: RunJobsOptions,
): Promise<void> {
  const { db } = context;
  const [inTurn, freely] = [true, false].map((wanted) =>
    Object.keys(handlers).filter((kind) => (turn?.kinds.includes(kind) ?? false) === wanted),
  ) as [string[], string[]];
  const take = async (kinds: readonly string[], within: string | null): Promise<boolean> => {
    const job = await claim(db, { kinds, worker, leaseMs, within });
    if (job) await perform(context, job, { worker, leaseMs, signal, onTrouble, onEnded }, handlers[job.kind]!);
    return job !== null;
  };
  const beside = new Set<Promise<unknown>>();
  const takeBeside = async (jobId: string): Promise<boolean> => {
    const job = await claim(db, { kinds: inTurn, worker, leaseMs, within: jobId });
    if (job === null) return false;
    const work = perform(context, job, { worker, leaseMs, signal, onTrouble, onEnded }, handlers[job.kind]!).catch(
      onTrouble,
    );
    beside.add(work);
    void work.finally(() => beside.delete(work));
    return true;
  };
  const takeInTurn = async (turn: WorkerTurn): Promise<boolean> => {
    const waiting = await rowsOfPrepared(db, nextJobs, { kinds: inTurn, within: within ?? null });
    const free = (await turn.free?.(waiting.map(({ job_id }) => job_id))) ?? null;
    if (free !== null) return takeBeside(free);
    const [next] = waiting;
    const giveBack = next ? await turn.take(next.job_id) : null;
    if (next === undefined || giveBack === null) return false;
    return take(inTurn, next.job_id).finally(giveBack);
  };
  await onNotify(
    db,
    JOB_CHANNEL,
    { signal, pollMs, onTrouble },
    async () => (turn !== undefined && inTurn.length > 0 && (await takeInTurn(turn))) || take(freely, within ?? null),
  );
  await Promise.all(beside);
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

/** Ends the leases of a worker whose process is known to be dead, so that nobody waits for them to run out. */
export const endLeases = (db: Db, worker: string): Promise<number> =>
  countOf(
    db,
    query
      .updateTable('troupe.job_queue')
      .set({ leased_until: sql<string>`clock_timestamp() - interval '1 second'` })
      .where('worker', '=', worker)
      .where('state', '=', 'running'),
  );

const leaseEnd = (leaseMs: number) => sql<string>`clock_timestamp() + make_interval(secs => ${leaseMs}::float8 / 1000)`;

/** The job that it waits for has ended. */
const awaitedEnded = sql<SqlBool>`exists (select from troupe.job_queue as awaited where awaited.job_id = troupe.job_queue.waits_for and awaited.state = 'finished')`;

type Claim = {
  readonly kinds: readonly string[];
  readonly worker: string;
  readonly leaseMs: number;
  readonly within: string | null;
};

/** The job that whoever does these kinds takes next. */
const claimable = (value: { (name: 'kinds'): readonly string[]; (name: 'within'): string | null }) =>
  query
    .selectFrom('troupe.job_queue')
    .select('job_id')
    .where('kind', '=', anyOf(value('kinds')))
    .where(
      sql<SqlBool>`(${value('within')}::text is null or job_id = ${value('within')}::text or starts_with(job_id, ${value('within')}::text || '/'))`,
    )
    .where((one) =>
      one.or([
        one.and([one('state', '=', 'waiting'), one.or([one('waits_for', 'is', null), awaitedEnded])]),
        one.and([one('state', '=', 'running'), one('leased_until', '<', sql<string>`clock_timestamp()`)]),
      ]),
    )
    .orderBy('requested_at')
    .orderBy('job_id')
    .limit(1);

/** Jobs that are looked at for one that needs no turn. */
const LOOKED_AT = 16;
const nextJobs = prepare<Pick<Claim, 'kinds' | 'within'>>('jobs_next')((value) => claimable(value).limit(LOOKED_AT));

const claimJob = prepare<Claim>('job_claim')((value) =>
  query
    .updateTable('troupe.job_queue')
    .set((job) => ({
      state: 'running',
      worker: value('worker'),
      token: job('token', '+', 1),
      attempts: job('attempts', '+', 1),
      leased_until: leaseEnd(value('leaseMs')),
    }))
    .where('job_id', '=', claimable(value).forUpdate().skipLocked())
    .returning(['job_id', 'kind', 'spec', 'token']),
);

async function claim(db: Db, asked: Claim): Promise<Job | null> {
  const [job] = await rowsOfPrepared(db, claimJob, asked);
  return job ? { ...job, spec: job.spec as Job['spec'] } : null;
}

async function perform(
  { db, log, now }: JobContext,
  job: Job,
  {
    worker,
    leaseMs,
    signal,
    onTrouble,
    onEnded,
  }: Required<Omit<RunJobsOptions, 'handlers' | 'pollMs' | 'within' | 'turn'>>,
  handler: Handler,
): Promise<void> {
  const lost = new AbortController();
  const began = performance.now();
  // While it is asked to stop once is enough: whoever leaves hands back what it holds.
  const untilDone = <T>(work: () => Promise<T>) => (signal.aborted ? work() : patiently(work, { signal, onTrouble }));
  const beat = async () => {
    const renewed = query
      .updateTable('troupe.job_queue')
      .set('leased_until', leaseEnd(leaseMs))
      .where('job_id', '=', job.job_id)
      .where('token', '=', job.token)
      .where('state', '=', 'running');
    if ((await countOf(db, renewed)) === 0) lost.abort();
  };
  // A beat that the database missed is made up by the next one.
  const renew = setInterval(() => void beat().catch(() => {}), Math.min(LOOK_MS, leaseMs / 3));
  let ended: JobResult;
  let attempts = 1;
  try {
    const row = await firstOf(
      db,
      query.selectFrom('troupe.job_queue').select(['attempts', 'error', 'waits_for']).where('job_id', '=', job.job_id),
    );
    attempts = row?.attempts ?? 1;
    if (attempts > MAX_ATTEMPTS) {
      const last = row?.error as { readonly message: string } | null | undefined;
      const why = last ? `ended each time: ${last.message}` : 'its worker died each time.';
      throw new TroupeError('training_failed', `It was tried ${MAX_ATTEMPTS} times and ${why}`);
    }
    // Going on after a wait is no new start.
    if (!row?.waits_for) {
      await record(log, now, job.job_id, `started-${job.token}`, {
        name: 'job.started',
        data: { job_id: job.job_id, worker, token: job.token },
      });
    }
    const report = async (step: number, metrics: Record<string, number>) => {
      if (lost.signal.aborted)
        throw new TroupeError('fenced', `Job ${job.job_id} was cancelled or given to another worker; this one stops.`);
      await record(log, now, job.job_id, `progressed-${job.token}-${step}`, {
        name: 'job.progressed',
        data: { job_id: job.job_id, step, metrics },
      });
    };
    ended = { outcome: 'done', result: (await handler(job, report, lost.signal)) ?? null, error: null };
  } catch (error) {
    if (error instanceof WaitsFor) {
      await untilDone(() => putAside(db, job, error.jobId));
      return;
    }
    const known = error instanceof TroupeError ? error : environmentError(error);
    const message = known?.message ?? (error instanceof Error ? error.message : String(error));
    const problem = { code: known?.code ?? 'internal', message };
    if (isTransient(error)) {
      if (!signal.aborted) onTrouble(error);
      await sleep(PUT_BACK_MS * attempts, undefined, { signal }).catch(() => {});
      // What a process that is asked to stop broke off was no attempt.
      await untilDone(() => putBack(db, job, problem, { counted: !signal.aborted }));
      return;
    }
    ended = { outcome: 'failed', result: null, error: problem };
  } finally {
    clearInterval(renew);
  }
  await untilDone(() => finish({ db, log, now }, job, ended));
  onEnded(job, ended.outcome, (performance.now() - began) / 1000);
}

/** It waits for another job. What it did so far went well, so its attempts are counted anew. */
const putAside = (db: Db, job: Job, waitsFor: string) =>
  letGo(db, job, { attempts: 0, error: null, waits_for: waitsFor });

/** The environment failed it, not what it is: it waits again, and keeps the attempt and the reason. */
const putBack = (
  db: Db,
  job: Job,
  error: { readonly code: string; readonly message: string },
  { counted }: { readonly counted: boolean },
) =>
  letGo(db, job, {
    ...(counted ? {} : { attempts: sql<number>`greatest(attempts - 1, 0)` }),
    error: JSON.stringify(error),
  });

/** The job leaves its worker, if it holds it still, and waits in the queue. */
const letGo = (
  db: Db,
  { job_id, token }: Job,
  and: {
    readonly attempts?: number | RawBuilder<number>;
    readonly error: string | null;
    readonly waits_for?: string;
  },
): Promise<number> =>
  countOf(
    db,
    query
      .updateTable('troupe.job_queue')
      .set((row) => ({ state: 'waiting', worker: null, leased_until: null, token: row('token', '+', 1), ...and }))
      .where('job_id', '=', job_id)
      .where('token', '=', token)
      .where('state', '=', 'running'),
  );

/** A worker whose lease went to another has an old token: it finds no row and does nothing. While it holds the row, nobody can take the job. */
const finish = ({ db, log, now }: JobContext, job: Job, ended: JobResult): Promise<void> =>
  db.transaction(async (tx) => {
    if ((await firstOf(tx, held(job).forUpdate())) === undefined) return;
    await end(tx, { log, now }, { job_id: job.job_id, eventId: `finished-${job.token}` }, ended);
  });
