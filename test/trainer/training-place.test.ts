import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { type JobContext, requestJob, waitForJob } from '../../store/queue/jobs/jobs.ts';
import { runJobs } from '../../store/queue/jobs/worker.ts';
import { readEngines } from '../../trainer/engines/engines.ts';
import { firstElsewhere, placeHolders, takePlace, trainingTurn } from '../../trainer/loop/jobs/training-place.ts';
import { startProgram } from '../store/support/process.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';

const holder = (job_id: string) => ({ pid: process.pid, project: 'p', home: '/home', job_id });

describe('the places of a machine for training', () => {
  it('are as many as the setting says, and each says who has it', async () => {
    const places = { count: 2, named: randomUUID() };
    expect(await placeHolders(places)).toEqual([]);
    const first = await takePlace(places, holder('a'));
    const second = await takePlace(places, holder('b'));
    expect(await takePlace(places, holder('c'))).toBeNull();
    expect((await placeHolders(places)).map((one) => one?.job_id).sort()).toEqual(['a', 'b']);
    await first!();
    expect(await placeHolders(places)).toEqual([holder('b')]);
    const third = await takePlace(places, holder('c'));
    expect(third).not.toBeNull();
    await second!();
    await third!();
  });

  it('are files where a system has no abstract names; what a dead process left is taken over', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'troupe-places-'));
    const places = { count: 1, named: 'place', folder };
    // What a killed process leaves: a socket's file that nobody listens at.
    const left = spawnSync(process.execPath, [
      '-e',
      `require('node:net').createServer().listen(${JSON.stringify(join(folder, 'place-1.sock'))}, () => process.kill(process.pid, 'SIGKILL'))`,
    ]);
    expect(left.signal).toBe('SIGKILL');
    expect(readdirSync(folder)).toEqual(['place-1.sock']);
    expect(await placeHolders(places)).toEqual([]);
    const free = await takePlace(places, holder('a'));
    expect(await takePlace(places, holder('b'))).toBeNull();
    expect(await placeHolders(places)).toEqual([holder('a')]);
    await free!();
    rmSync(folder, { recursive: true });
  });

  it('is held by somebody unknown where another program has its name', async () => {
    const named = randomUUID();
    const server = createServer((socket) => socket.end('{"pid":"7"}'));
    await new Promise<void>((listening) => server.listen(`\0${named}/1`, listening));
    expect(await takePlace({ count: 1, named, folder: null }, holder('a'))).toBeNull();
    expect(await placeHolders({ count: 1, named, folder: null })).toEqual([null]);
    await new Promise((closed) => server.close(closed));
  });

  it('is free as soon as the process that has it is killed with -9', async () => {
    const named = randomUUID();
    const other = await startProgram('../../trainer/place-program.ts', named);
    expect(await other.firstLine).toBe('has it');
    const places = { count: 1, named };
    expect(await takePlace(places, holder('a'))).toBeNull();
    expect(await placeHolders(places)).toEqual([
      { pid: other.child.pid, project: 'other', home: '/elsewhere', job_id: 'night/1/train-solver' },
    ]);
    await other.kill();
    const free = await takePlace(places, holder('a'));
    expect(free).not.toBeNull();
    await free!();
  }, 60_000);
});

describe('workers of two projects on one machine', () => {
  let databases: TestDatabase[];
  let stop: AbortController;
  let workers: Promise<void>[];
  beforeEach(async () => {
    databases = await Promise.all([freshDatabase(), freshDatabase()]);
    stop = new AbortController();
    workers = [];
  });
  afterEach(async () => {
    stop.abort();
    await Promise.all(workers);
    await Promise.all(databases.map((one) => one.close()));
  });
  const contextOf = ({ db }: TestDatabase): JobContext => ({ db, log: postgresLog(db), now: () => new Date() });

  it('a program that works elsewhere takes no place, and a training goes on beside it', async () => {
    const places = { count: 1, named: randomUUID() };
    const engines = readEngines({ cloud: { command: ['x'], elsewhere: true }, here: { command: ['x'] } });
    const begun: string[] = [];
    let release: () => void = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const waits = async ({ job_id }: { readonly job_id: string }) => {
      begun.push(job_id);
      await held;
    };
    const context = contextOf(databases[0]!);
    const free = firstElsewhere(context.db, engines);
    const turn = trainingTurn(places, { project: 'p', home: '/home', say: () => {}, free });
    const program = (job_id: string, engine: string) =>
      requestJob(context, { job_id, kind: 'program', spec: { engine } });
    await requestJob(context, { job_id: 'local', kind: 'sft', spec: {} });
    await program('here', 'here');
    await program('cloud-1', 'cloud');
    await program('cloud-2', 'cloud');
    const handlers = { sft: waits, program: waits };
    workers.push(runJobs(context, { worker: 'w', handlers, turn, signal: stop.signal, pollMs: 20 }));
    await expect.poll(() => begun.toSorted()).toEqual(['cloud-1', 'cloud-2', 'local']);
    expect((await placeHolders(places)).map((one) => one?.job_id)).toEqual(['local']);
    release();
    for (const id of ['local', 'here', 'cloud-1', 'cloud-2']) await waitForJob(context.db, id);
  });

  it('train one after the other; what is no training does not wait, and who waits says for whom', async () => {
    const named = randomUUID();
    const output: string[] = [];
    let training = 0;
    let most = 0;
    let release: () => void = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const handlers = {
      sft: async () => {
        training += 1;
        most = Math.max(most, training);
        await held;
        training -= 1;
      },
      gate: async () => 'compared',
    };
    const contexts = databases.map(contextOf);
    for (const [at, context] of contexts.entries()) {
      const turn = trainingTurn(
        { count: 1, named },
        { project: `p${at}`, home: '/home', say: (text) => output.push(text) },
      );
      await requestJob(context, { job_id: `train-${at}`, kind: 'sft', spec: {} });
      workers.push(runJobs(context, { worker: 'w', handlers, turn, signal: stop.signal, pollMs: 20 }));
      if (at === 0) await expect.poll(() => training).toBe(1);
    }
    await requestJob(contexts[1]!, { job_id: 'gate', kind: 'gate', spec: {} });
    expect(await waitForJob(contexts[1]!.db, 'gate')).toBe('compared');
    const [row] = (
      await databases[1]!.db.query('select state, attempts from troupe.job_queue where kind = $1', ['sft'])
    ).rows;
    expect(row).toEqual({ state: 'waiting', attempts: 0 });
    expect(output).toEqual([`Job train-1 waits for job train-0 of project p0 in /home (process ${process.pid}).`]);
    release();
    await waitForJob(contexts[0]!.db, 'train-0');
    await waitForJob(contexts[1]!.db, 'train-1');
    expect(most).toBe(1);
  });
});
