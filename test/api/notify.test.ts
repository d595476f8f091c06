import type { lookup as systemLookup } from 'node:dns';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findReceiver, readReceivers } from '../../api/notify/receivers.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { recordRelease } from '../../store/loop/release/releases.ts';
import { endWaiting, type JobContext, requestJob, waitForJob } from '../../store/queue/jobs/jobs.ts';
import { runJobs } from '../../store/queue/jobs/worker.ts';
import { deliver, receiverStates } from '../../store/queue/notify/delivery.ts';
import { HAPPENINGS } from '../../store/queue/notify/happenings.ts';
import { recordScheduleEvent } from '../../store/queue/schedules/schedule-events.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';

type Got = { readonly headers: IncomingHttpHeaders; readonly message: Record<string, unknown> };

const MESSAGE = {
  id: 'i',
  event: 'test',
  project: 'airline',
  run: null,
  schedule: null,
  reason: null,
  report: null,
  at: null,
} as const;

describe('A receiver of notifications', () => {
  let fresh: TestDatabase;
  let context: JobContext;
  let clock: number;
  let server: Server;
  let got: Got[];
  let answer: (response: ServerResponse) => void;
  let url: string;
  let folder: string;
  beforeEach(async () => {
    fresh = await freshDatabase();
    clock = Date.parse('2026-05-01T12:00:00Z');
    context = { db: fresh.db, log: postgresLog(fresh.db), now: () => new Date(clock) };
    got = [];
    answer = (response) => response.writeHead(204).end();
    folder = mkdtempSync(join(tmpdir(), 'troupe-notify-'));
    server = createServer(async (request, response) => {
      got.push({ headers: request.headers, message: JSON.parse(await text(request)) });
      answer(response);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  });
  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    rmSync(folder, { recursive: true });
    await fresh.close();
  });

  const delivered = async (fields: Record<string, unknown>, env: Record<string, string> = {}) => {
    const troubles: string[] = [];
    const [receiver] = readReceivers({ ops: fields }, { PATH: process.env.PATH ?? '', ...env });
    await deliver(fresh.db, receiver!, {
      project: 'airline',
      now: context.now,
      onTrouble: (one) => troubles.push(one),
    });
    return troubles;
  };
  const pausedNow = (reason: string) =>
    recordScheduleEvent(context.log, context.now(), {
      name: 'schedule.changed',
      data: { schedule: 'nightly', change: 'paused', by: 'scheduler', reason },
    });
  const released = (release_id: string, by: string) =>
    recordRelease(context.log, {
      source: '/plans',
      time: context.now().toISOString(),
      ...{ release_id, policies: { solver: 'c1' }, reason: `because of ${release_id}`, by },
    });
  const reasons = () => got.map(({ message }) => message.reason);
  const state = async () => (await receiverStates(fresh.db))[0]!;

  /** One of each, a second apart. */
  async function everything(): Promise<void> {
    const run = 'schedule/nightly/2026-05-01T12:00:00Z';
    const stop = new AbortController();
    const handlers = {
      plan: async () => ({ released: true, rounds: [] }),
      evaluate: async () => {
        throw new Error('no episodes');
      },
      sft: async () => ({}),
    };
    const work = runJobs(context, { worker: 'w', handlers, signal: stop.signal });
    await requestJob(context, { job_id: run, kind: 'plan', spec: {} });
    await waitForJob(fresh.db, run);
    clock += 1000;
    // A part of a run, and a job that nobody scheduled, are no runs.
    await requestJob(context, { job_id: `${run}/1/train-solver`, kind: 'sft', spec: {}, parent: run });
    await waitForJob(fresh.db, `${run}/1/train-solver`);
    await requestJob(context, { job_id: 'by-hand', kind: 'sft', spec: {} });
    await waitForJob(fresh.db, 'by-hand');
    const failing = 'schedule/weekly/2026-05-01T12:00:00Z';
    await requestJob(context, { job_id: failing, kind: 'evaluate', spec: {} });
    await waitForJob(fresh.db, failing).catch(() => {});
    clock += 1000;
    await requestJob(context, { job_id: 'retrain-1/1/gate', kind: 'decision', spec: {} });
    const result = { passed: false, reason: 'it reads badly' };
    expect(await endWaiting(context, { job_id: 'retrain-1/1/gate', kind: 'decision', result })).toBe(true);
    clock += 1000;
    await requestJob(context, { job_id: 'retrain-1/2/gate', kind: 'decision', spec: {} });
    const cut = { passed: false, reason: 'The budget cut it short', cut_short: 'no tokens are left' };
    expect(await endWaiting(context, { job_id: 'retrain-1/2/gate', kind: 'decision', result: cut })).toBe(true);
    clock += 1000;
    await released(`${run}/1`, 'plan retrain');
    clock += 1000;
    await released(`${run}/1/watch/rollback`, 'rollback');
    clock += 1000;
    await pausedNow('its last 3 jobs failed');
    clock += 1000;
    await recordScheduleEvent(context.log, context.now(), {
      name: 'schedule.skipped',
      data: {
        schedule: 'nightly',
        first_due_at: 'T',
        last_due_at: 'T',
        count: 1,
        reason: 'overlap',
        detail: 'one runs',
      },
    });
    stop.abort();
    await work;
  }

  const nightly = 'schedule/nightly/2026-05-01T12:00:00Z';
  const weekly = 'schedule/weekly/2026-05-01T12:00:00Z';
  const EXPECTED = [
    ['run_done', nightly, 'nightly', null, `troupe plan show ${nightly}`],
    ['run_failed', weekly, 'weekly', 'no episodes', 'troupe schedule show weekly'],
    ['gate_refused', 'retrain-1', null, 'it reads badly', 'troupe plan show retrain-1'],
    ['gate_cut_short', 'retrain-1', null, 'The budget cut it short', 'troupe plan show retrain-1'],
    ['released', nightly, 'nightly', `because of ${nightly}/1`, 'troupe policies'],
    ['rolled_back', nightly, 'nightly', `because of ${nightly}/1/watch/rollback`, 'troupe policies'],
    ['schedule_paused', null, 'nightly', 'its last 3 jobs failed', 'troupe schedule show nightly'],
    [
      'tick_skipped',
      null,
      'nightly',
      'The tick of T started no job (overlap): one runs',
      'troupe schedule show nightly',
    ],
  ];
  const rows = (messages: readonly Record<string, unknown>[]) =>
    messages.map(({ event, run, schedule, reason, report }) => [event, run, schedule, reason, report]);

  it('gets each happening once by HTTP, in order, with the key, and nothing again after a restart', async () => {
    const fields = { url, key_env: 'HOOK_KEY', on: [...HAPPENINGS] };
    const env = { HOOK_KEY: 'hook-key' };
    await pausedNow('before anybody was to be notified');
    await delivered(fields, env);
    await everything();
    expect(await delivered(fields, env)).toEqual([]);
    const messages = got.map(({ message }) => message);
    expect(rows(messages)).toEqual(EXPECTED);
    expect(messages[0]).toMatchObject({ project: 'airline', at: '2026-05-01T12:00:00.000Z' });
    expect(new Set(messages.map(({ id }) => id)).size).toBe(EXPECTED.length);
    expect(got[0]!.headers).toMatchObject({
      authorization: 'Bearer hook-key',
      'content-type': 'application/json',
    });
    await delivered(fields, env);
    await delivered(fields, env);
    expect(got).toHaveLength(EXPECTED.length);
    expect(await state()).toMatchObject({ sent: EXPECTED.length, given_up: 0, failing: null });
  }, 60_000);

  it('gets them on standard input where it is a command, which inherits only the variables that are named', async () => {
    const file = join(folder, 'messages.jsonl');
    const command = ['sh', '-c', 'cat >> "$FILE"; [ -z "$SECRET" ] || echo seen >> "$FILE"'];
    const fields = { command, env: ['FILE'], on: [...HAPPENINGS] };
    const env = { FILE: file, SECRET: 'not for the command' };
    await delivered(fields, env);
    await everything();
    expect(await delivered(fields, env)).toEqual([]);
    await delivered(fields, env);
    const lines = readFileSync(file, 'utf8').trim().split('\n');
    expect(rows(lines.map((line) => JSON.parse(line)))).toEqual(EXPECTED);
  }, 60_000);

  it('is notified by default of what an operator has to know, and not of each run and tick', async () => {
    await delivered({ url });
    await everything();
    await delivered({ url });
    expect(got.map(({ message }) => message.event)).toEqual([
      'run_failed',
      'gate_refused',
      'gate_cut_short',
      'released',
      'rolled_back',
      'schedule_paused',
    ]);
  }, 60_000);

  it('that is down gets everything later, in order; until then its state and a sentence say why', async () => {
    await delivered({ url });
    await pausedNow('first');
    clock += 1000;
    await pausedNow('second');
    answer = (response) => response.writeHead(503).end();
    const [troubles] = await delivered({ url });
    expect(troubles).toContain('ops was not notified of schedule_paused: It answered 503.');
    expect((await state()).failing).toMatchObject({ attempts: 1, error: 'It answered 503.' });
    // Not before its time.
    clock += 4000;
    await delivered({ url });
    expect(got).toHaveLength(1);
    clock += 2000;
    await delivered({ url });
    expect((await state()).failing).toMatchObject({ attempts: 2, since: '2026-05-01T12:00:01.000Z' });
    answer = (response) => response.writeHead(200).end('ok');
    clock += 11_000;
    await delivered({ url });
    expect(reasons()).toEqual(['first', 'first', 'first', 'second']);
    expect(got[0]!.message.id).toBe(got[2]!.message.id);
    expect(await state()).toMatchObject({ sent: 2, failing: null });
  });

  it('that refuses a message for what it says gets the next one after three attempts; nothing else is skipped', async () => {
    await delivered({ url });
    await pausedNow('refused');
    clock += 1000;
    await pausedNow('taken');
    answer = (response) => response.writeHead(got.at(-1)!.message.reason === 'refused' ? 422 : 200).end();
    const troubles: string[] = [];
    for (const wait of [0, 6000, 11_000]) {
      clock += wait;
      troubles.push(...(await delivered({ url })));
    }
    expect(reasons()).toEqual(['refused', 'refused', 'refused', 'taken']);
    expect(troubles[2]).toContain('ops refuses schedule_paused');
    expect(troubles[2]).toContain('which was given up: It answered 422.');
    expect(await state()).toMatchObject({ sent: 1, given_up: 1, failing: null });
    // A wrong key or address refuses every message: nothing is given up before its time.
    await pausedNow('kept');
    answer = (response) => response.writeHead(401).end();
    for (let attempt = 0; attempt < 5; attempt++) {
      clock += 300_000;
      await delivered({ url });
    }
    expect(await state()).toMatchObject({ sent: 1, given_up: 1, failing: { attempts: 5 } });
  });

  it('is notified of what only a newer Troupe can read once one is there', async () => {
    await delivered({ url });
    await pausedNow('before');
    await pausedNow('newer');
    await pausedNow('behind');
    const version = (n: number) =>
      fresh.db.query(`update troupe.events set type_version = $1 where data ->> 'reason' = 'newer'`, [n]);
    await version(9);
    await delivered({ url });
    await delivered({ url });
    expect(reasons()).toEqual(['before']);
    await version(1);
    await delivered({ url });
    expect(reasons()).toEqual(['before', 'newer', 'behind']);
  });

  it('whose answer has no end is not read to it', async () => {
    answer = (response) => {
      response.writeHead(200);
      const piece = Buffer.alloc(65_536, 'x');
      const more = () => {
        while (!response.destroyed && response.write(piece));
        response.once('drain', more);
      };
      more();
    };
    const [ops] = readReceivers({ ops: { url } }, {});
    await expect(ops!.send(MESSAGE)).rejects.toThrow('It answered with more than 1048576 bytes.');
  });

  it('is given up after three days, message by message', async () => {
    await delivered({ url });
    await pausedNow('old');
    clock += 4 * 86_400_000;
    await pausedNow('new');
    const [troubles] = await delivered({ url });
    expect(troubles).toContain('too old for ops');
    expect(reasons()).toEqual(['new']);
    expect(await state()).toMatchObject({ sent: 1, given_up: 1 });
  });

  it('is notified by one process where several work at once', async () => {
    await delivered({ url });
    for (let i = 0; i < 5; i++) {
      await pausedNow(`reason ${i}`);
      clock += 1000;
    }
    await Promise.all([delivered({ url }), delivered({ url }), delivered({ url })]);
    await delivered({ url });
    expect(reasons()).toEqual([0, 1, 2, 3, 4].map((i) => `reason ${i}`));
  });

  it('gets a message again, with the same id, where its sender was killed after it was sent', async () => {
    await delivered({ url });
    await pausedNow('twice');
    const before = (await fresh.db.query(`select result::text from troupe.job_queue where kind = 'notify'`)).rows[0];
    await delivered({ url });
    // As it stands after a kill in between: claimed, and not written.
    await fresh.db.query(
      `update troupe.job_queue set result = $1::json, leased_until = clock_timestamp() + interval '1 minute' where kind = 'notify'`,
      [before!.result],
    );
    await delivered({ url });
    expect(got).toHaveLength(1);
    await fresh.db.query(`update troupe.job_queue set leased_until = clock_timestamp() where kind = 'notify'`);
    await delivered({ url });
    expect(reasons()).toEqual(['twice', 'twice']);
    expect(got[0]!.message.id).toBe(got[1]!.message.id);
  });

  it('that redirects is not followed', async () => {
    let followed = 0;
    const inside = createServer((_, response) => {
      followed += 1;
      response.end();
    });
    await new Promise<void>((resolve) => inside.listen(0, '127.0.0.1', resolve));
    const { port } = inside.address() as AddressInfo;
    answer = (response) => response.writeHead(307, { location: `http://127.0.0.1:${port}/` }).end();
    const [ops] = readReceivers({ ops: { url } }, {});
    await expect(ops!.send(MESSAGE)).rejects.toThrow('It answered 307; redirects are not followed.');
    expect([got.length, followed]).toEqual([1, 0]);
    inside.close();
  });

  it('whose name leads to this machine gets nothing, unless the setting says that it is private', async () => {
    const lookup = ((_: string, __: object, found: (error: null, all: object[]) => void) =>
      found(null, [{ address: '127.0.0.1', family: 4 }])) as unknown as typeof systemLookup;
    const named = url.replace('127.0.0.1', 'hooks.example.com');
    const sending = (more: object) => readReceivers({ ops: { url: named, ...more } }, {}, lookup)[0]!.send(MESSAGE);
    await expect(sending({})).rejects.toThrow('hooks.example.com leads to an address of a private network');
    expect(got).toHaveLength(0);
    await sending({ private: true });
    expect(got).toHaveLength(1);
  });

  it('that fails says why: an unset key, a command that ends with an error, nobody who listens', async () => {
    const sending = (fields: Record<string, unknown>) =>
      readReceivers({ ops: fields }, { PATH: process.env.PATH ?? '' })[0]!.send(MESSAGE);
    await expect(sending({ url, key_env: 'NOT_SET' })).rejects.toThrow(
      'The variable NOT_SET of notify.ops.key_env is not set.',
    );
    await expect(sending({ command: ['sh', '-c', 'echo broken >&2; exit 3'] })).rejects.toThrow(
      'The command ended with 3: broken',
    );
    await new Promise((resolve) => server.close(resolve));
    await expect(sending({ url })).rejects.toThrow('It could not be reached (ECONNREFUSED).');
  });

  it.each([
    [{ ops: {} }, /notify.ops should be a map with either command or url/],
    [{ ops: { url: 'http://a', command: ['x'] } }, /either command or url/],
    [{ ops: { url: 'ftp://a' } }, /notify.ops.url should be an address/],
    [{ ops: { url: 'https://me:secret@a' } }, /notify.ops.url should be an address .*, but it is "\*\*\*"/],
    [{ ops: { url: 'http://a', on: ['done'] } }, /notify.ops.on should be a list of run_done, run_failed/],
    [{ ops: { url: 'http://a', key: 'k' } }, /notify.ops has no "key". It has url, key_env, private, on/],
    [{ ops: { command: 'sh x' } }, /notify.ops.command should be a list/],
    [{ ops: { command: ['x'], env: ['A=b'] } }, /notify.ops.env should be a list of names/],
  ])('is refused with a sentence where the setting is %j', (setting, why) => {
    expect(() => readReceivers(setting, {})).toThrow(why);
    expect(() => findReceiver([], 'ops')).toThrow('the setting notify is empty');
  });
});
