import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { projectAll } from '../../store/projecting/projector.ts';
import {
  cancelJob,
  type Handler,
  type JobContext,
  MAX_ATTEMPTS,
  requestJob,
  requireHeld,
  WaitsFor,
  waitForJob,
} from '../../store/queue/jobs/jobs.ts';
import { runJobs } from '../../store/queue/jobs/worker.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { expectBelow } from '../support/measured.ts';
import { startProgram } from './support/process.ts';

describe('the queue of jobs', () => {
  let fresh: TestDatabase;
  let context: JobContext;
  let stop: AbortController;
  let workers: Promise<void>[];
  beforeEach(async () => {
    fresh = await freshDatabase({ max: 12 });
    context = { db: fresh.db, log: postgresLog(fresh.db), now: () => new Date() };
    stop = new AbortController();
    workers = [];
  });
  afterEach(async () => {
    stop.abort();
    await Promise.all(workers);
    await fresh.close();
  });
  const work = (worker: string, handlers: Record<string, Handler>, leaseMs = 30_000) => {
    workers.push(runJobs(context, { worker, handlers, signal: stop.signal, pollMs: 20, leaseMs }));
  };
  const request = (job_id: string, kind: string) => requestJob(context, { job_id, kind, spec: { n: 1 } });
  const row = async (id: string) =>
    (
      await fresh.db.query(
        `select state, outcome, token::integer as token, attempts, worker from troupe.job_queue where job_id = $1`,
        [id],
      )
    ).rows[0];
  const jobRow = async (id: string) => {
    await projectAll(fresh.db);
    return (await fresh.db.query('select state, outcome, worker, result, error from traj.jobs where job_id = $1', [id]))
      .rows[0];
  };

  it('P31: gives each job to one worker, once, however many workers there are', async () => {
    const done: string[] = [];
    const running = new Set<string>();
    const handler: Handler = async (job) => {
      expect(running.has(job.job_id)).toBe(false);
      running.add(job.job_id);
      await new Promise((resolve) => setTimeout(resolve, 5));
      running.delete(job.job_id);
      done.push(job.job_id);
      return { n: job.spec.n };
    };
    for (const worker of ['w1', 'w2', 'w3']) work(worker, { sum: handler });
    const ids = Array.from({ length: 20 }, (_, i) => `j${i}`);
    await Promise.all([...ids, ...ids].map((id) => request(id, 'sum')));
    expect(await Promise.all(ids.map((id) => waitForJob(fresh.db, id)))).toEqual(ids.map(() => ({ n: 1 })));
    expect([...done].sort()).toEqual([...ids].sort());
    expect(await jobRow('j3')).toMatchObject({ state: 'finished', outcome: 'done', result: { n: 1 } });
  });

  it('fails a job with the sentence of its error, and does the next one', async () => {
    work('w', {
      bad: async () => {
        throw new Error('it cannot be done');
      },
      good: async () => 7,
    });
    await request('bad', 'bad');
    await request('good', 'good');
    await expect(waitForJob(fresh.db, 'bad')).rejects.toMatchObject({
      code: 'training_failed',
      message: expect.stringContaining('it cannot be done'),
    });
    expect(await waitForJob(fresh.db, 'good')).toBe(7);
    await expect(waitForJob(fresh.db, 'none')).rejects.toMatchObject({ code: 'not_found' });
    await request('nobody', 'nobody');
    await expect(waitForJob(fresh.db, 'nobody', { timeoutMs: 50 })).rejects.toMatchObject({ code: 'busy' });
    expect(await jobRow('bad')).toMatchObject({ outcome: 'failed', error: { message: 'it cannot be done' } });
  });

  it('P34: cancels a job that waits with its parts, and no worker starts it', async () => {
    await request('plan', 'sum');
    await request('plan/1', 'sum');
    await request('plan-b', 'sum');
    expect(await cancelJob(context, 'plan', { by: 'ann', reason: 'wrong data' })).toEqual(['plan', 'plan/1']);
    const done: string[] = [];
    work('w', { sum: async ({ job_id }) => done.push(job_id) });
    await waitForJob(fresh.db, 'plan-b');
    expect(done).toEqual(['plan-b']);
    expect(await jobRow('plan')).toMatchObject({
      state: 'finished',
      outcome: 'cancelled',
      error: { code: 'cancelled', message: 'It was cancelled by ann: wrong data' },
    });
    await expect(waitForJob(fresh.db, 'plan/1')).rejects.toThrow('cancelled by ann');
    await expect(cancelJob(context, 'plan', { by: 'ann', reason: null })).rejects.toMatchObject({ code: 'conflict' });
    await expect(cancelJob(context, 'none', { by: 'ann', reason: null })).rejects.toMatchObject({ code: 'not_found' });
  });

  it('P34: a worker stops a cancelled job within 10 s, publishes nothing of it, and does the next one', async () => {
    const stopped: string[] = [];
    let begun: () => void = () => {};
    const running = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const long: Handler = async (job, report, signal) => {
      await requireHeld(fresh.db, job);
      begun();
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      for (const publish of [() => requireHeld(fresh.db, job), () => report(1, { loss: 1 })])
        await publish().catch((error) => stopped.push(error.code));
      return 'published';
    };
    work('w', { long, short: async () => 7 });
    await request('long', 'long');
    await running;
    const cancelled = performance.now();
    await cancelJob(context, 'long', { by: 'ann', reason: null });
    await request('short', 'short');
    expect(await waitForJob(fresh.db, 'short')).toBe(7);
    expectBelow(performance.now() - cancelled, 10_000);
    expect(stopped).toEqual(['fenced', 'fenced']);
    expect(await jobRow('long')).toMatchObject({ outcome: 'cancelled', result: null });
    const { rows } = await fresh.db.query('select * from traj.job_metrics');
    expect(rows).toEqual([]);
  });

  it('P31: gives the job of a killed worker to another after its lease, while a live one keeps its own', async () => {
    await request('j', 'crash');
    const dead = await startProgram('working.ts', fresh.url, 'dead', '900');
    expect(await dead.firstLine).toBe('1');
    const taken: number[] = [];
    work('heir', { crash: async (job) => void taken.push(job.token) }, 900);
    await new Promise((resolve) => setTimeout(resolve, 1500));
    expect(taken).toEqual([]);
    await dead.kill();
    const start = performance.now();
    await waitForJob(fresh.db, 'j', { timeoutMs: 10_000 });
    expectBelow(performance.now() - start, 5000);
    expect(taken).toEqual([2]);
    expect(await row('j')).toMatchObject({ state: 'finished', outcome: 'done', token: 2, worker: 'heir' });
  });

  it('tries a job again that the environment failed, and fails it in the end with the reason', async () => {
    let tries = 0;
    const full = Object.assign(new Error('could not extend file: No space left on device'), { code: '53100' });
    const handlers: Record<string, Handler> = {
      once: async () => {
        if (++tries === 1) throw full;
        return tries;
      },
      always: async () => {
        throw full;
      },
    };
    work('w1', handlers);
    await request('soon', 'once');
    expect(await waitForJob(fresh.db, 'soon')).toBe(2);
    await request('never', 'always');
    await expect(waitForJob(fresh.db, 'never')).rejects.toThrow(
      /tried 3 times and ended each time: The disk of PostgreSQL is full/,
    );
    expect(await row('never')).toMatchObject({ attempts: MAX_ATTEMPTS + 1 });
  });

  it('P31: a worker lives on when its connections are cut, and does what is asked for afterwards', async () => {
    work('w1', { sum: async () => 'done' });
    await request('before', 'sum');
    await waitForJob(fresh.db, 'before');
    await fresh.db
      .query('select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()')
      .catch(() => {});
    const ask = async (): Promise<void> => request('after', 'sum').catch(ask);
    await ask();
    expect(await waitForJob(fresh.db, 'after')).toBe('done');
  });

  it('P33: does not try a job that kills its workers without limit', async () => {
    await request('j', 'crash');
    for (let i = 0; i < MAX_ATTEMPTS; i++) {
      const victim = await startProgram('working.ts', fresh.url, `victim-${i}`, '100');
      expect(await victim.firstLine).toBe(String(i + 1));
      await victim.kill();
    }
    const ran: number[] = [];
    work('last', { crash: async () => void ran.push(1) }, 100);
    await expect(waitForJob(fresh.db, 'j', { timeoutMs: 10_000 })).rejects.toThrow(`${MAX_ATTEMPTS} times`);
    expect(ran).toEqual([]);
    expect(await jobRow('j')).toMatchObject({ outcome: 'failed', error: { code: 'training_failed' } });
  });

  it('P31: lets a worker with an old token finish nothing and report nothing', async () => {
    let free: () => void = () => {};
    const held = new Promise<void>((resolve) => {
      free = resolve;
    });
    let late: unknown;
    work(
      'slow',
      {
        fit: async (_, report) => {
          await report(1, { loss: 3 });
          await held;
          late = await report(2, { loss: 2 }).catch((error: unknown) => error);
          return 'the slow one';
        },
      },
      1500,
    );
    await request('j', 'fit');
    while (!(await fresh.db.query(`select 1 from troupe.events where name = 'job.progressed'`)).rows.length)
      await new Promise((resolve) => setTimeout(resolve, 10));
    // As if its beats had not come through for longer than the lease.
    await fresh.db.query(
      `update troupe.job_queue set token = token + 1, worker = 'other', leased_until = clock_timestamp() + interval '1 minute'`,
    );
    await new Promise((resolve) => setTimeout(resolve, 700));
    free();
    while (late === undefined) await new Promise((resolve) => setTimeout(resolve, 10));
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(late).toMatchObject({ code: 'fenced' });
    expect(await row('j')).toMatchObject({ state: 'running', token: 2, worker: 'other', outcome: null });
    expect(await jobRow('j')).toMatchObject({ state: 'running', outcome: null });
    await fresh.db.query(`update troupe.job_queue set leased_until = clock_timestamp() - interval '1 second'`);
    work('third', { fit: async (_, report) => report(1, { loss: 1 }).then(() => 'the third one') });
    expect(await waitForJob(fresh.db, 'j')).toMatch(/the/);
    expect(await jobRow('j')).toMatchObject({ outcome: 'done' });
    const { rows } = await fresh.db.query(`select name from troupe.events where name = 'job.finished'`);
    expect(rows).toHaveLength(1);
  });

  it('a job that waits for another leaves its worker, and goes on once that one has ended, however it ended', async () => {
    const tries: string[] = [];
    const part = async (id: string, parent: string) => {
      await requestJob(context, { job_id: id, kind: 'part', spec: {}, parent });
      const [job] = (await fresh.db.query(`select state, outcome from troupe.job_queue where job_id = $1`, [id])).rows;
      if (job!.state !== 'finished') throw new WaitsFor(id);
      return job!.outcome;
    };
    // One worker alone does both kinds: it would wait for itself for ever if the whole held it.
    work('w', {
      whole: async ({ job_id }) => {
        tries.push(job_id);
        return [await part(`${job_id}/1`, job_id), await part(`${job_id}/2`, job_id)];
      },
      part: async ({ job_id }) => {
        if (job_id.endsWith('/2')) throw new Error('it cannot be done');
      },
    });
    await request('all', 'whole');
    expect(await waitForJob(fresh.db, 'all')).toEqual(['done', 'failed']);
    expect(tries).toEqual(['all', 'all', 'all']);
    expect(await row('all')).toMatchObject({ attempts: 1, outcome: 'done' });
    await projectAll(fresh.db);
    const started = await fresh.db.query(
      `select count(*)::integer as n from troupe.events where name = 'job.started' and key = 'j/all'`,
    );
    expect(started.rows).toEqual([{ n: 1 }]);
  });

  it('a worker within one job does that job and its parts, and no other', async () => {
    workers.push(
      runJobs(context, {
        worker: 'w',
        handlers: { sum: async ({ job_id }) => job_id },
        signal: stop.signal,
        pollMs: 20,
        within: 'mine',
      }),
    );
    for (const id of ['mine-too', 'other', 'mine', 'mine/1/a']) await request(id, 'sum');
    expect(await waitForJob(fresh.db, 'mine')).toBe('mine');
    expect(await waitForJob(fresh.db, 'mine/1/a')).toBe('mine/1/a');
    expect(await row('mine-too')).toMatchObject({ state: 'waiting' });
    expect(await row('other')).toMatchObject({ state: 'waiting' });
  });
});
