/** Workers that lease episodes of a rollout over HTTP, and what becomes of reports that are late, doubled or of nobody. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postJson } from '../../api/http/post.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { createKey } from '../../store/keys/api-keys.ts';
import { runProjector } from '../../store/projecting/projector.ts';
import { waitForJob } from '../../store/queue/jobs/jobs.ts';
import { runJobs } from '../../store/queue/jobs/worker.ts';
import { type RolloutResult, rolloutHandlers } from '../../trainer/loop/play/handler.ts';
import type { lease as leaseOf } from '../../trainer/loop/play/leases.ts';
import { readRunners } from '../../trainer/loop/play/runners.ts';
import { expectBelow } from '../support/measured.ts';
import { post, type TestApp, testApp } from './support/app.ts';

const settings = { judge: null, close_after: 1800, notify: null };
const RUNNERS = {
  pool: { workers: true, lease_s: 30, timeout_s: 60, agent: 'solver' },
  brief: { workers: true, lease_s: 4, timeout_s: 60 },
  here: { command: ['true'] },
  graded: {
    workers: true,
    lease_s: 30,
    timeout_s: 60,
    reward: { sql: "select 1 / (answer = 'right')::int as reward from traj.episodes where episode_id = :episode" },
  },
};
const runners = readRunners(RUNNERS);

type Lease = Awaited<ReturnType<typeof leaseOf>>[number];

let at: TestApp;
let stop: AbortController;
let running: Promise<unknown>[];
const playRollouts = (): Promise<void> => {
  const context = { db: at.db, log: postgresLog(at.db), now: () => new Date() };
  const { signal } = stop;
  const handlers = rolloutHandlers(context, { runners, env: process.env, post: postJson(), signal });
  return runJobs(context, { worker: 'w', handlers, signal, pollMs: 20 });
};
beforeEach(async () => {
  at = await testApp({ settings: { ...settings, runners: RUNNERS } });
  stop = new AbortController();
  running = [runProjector(at.db, { signal: stop.signal, onTrouble: () => {} }), playRollouts()];
});
afterEach(async () => {
  stop.abort();
  await Promise.all(running);
  await at.close();
});

const ask = async (path: string, body: object, headers = {}) => {
  const answer = await post(at.app, body, headers, `/v1/rollouts${path}`);
  return { status: answer.statusCode, ...answer.json() } as Record<string, unknown>;
};
const begin = (more: object = {}) =>
  ask('', { id: 'r', runner: 'pool', tasks: [{ task_id: 'a', prompt: 'x' }], samples: 2, ...more });
const lease = async (runner: string, count: number) => (await ask('/lease', { runner, count })).attempts as Lease[];
/** The next attempt: the job plans them a moment after it was asked for. */
const leased = async (runner = 'pool'): Promise<Lease> => {
  for (let tries = 0; tries < 1000; tries++) {
    const [attempt] = await lease(runner, 1);
    if (attempt) return attempt;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error('no attempt came');
};
const call = ({ base_path }: Lease) =>
  post(
    at.app,
    { model: 'policy:solver', messages: [{ role: 'user', content: 'x' }] },
    {},
    `${base_path}/chat/completions`,
  );
const finish = (...attempts: object[]) => ask('/finish', { attempts });
const end = async ({ attempt_id, token }: Lease, more: object = { outcome: 'done', reward: 1 }) => {
  const { status, attempts } = await finish({ attempt_id, token, ...more });
  return { status, ...(attempts as object[])[0] };
};
const result = async () => (await waitForJob(at.db, 'r', { timeoutMs: 60_000 })) as RolloutResult;

describe('workers', () => {
  it('lease each episode once, play it by its base path, and finish it; then the group is complete', async () => {
    expect(await begin()).toEqual({ status: 200, rollout_id: 'r', state: 'running' });
    const [one, two] = [await leased(), await leased()];
    expect(one).toMatchObject({
      attempt_id: 'r/a/0',
      token: 1,
      rollout_id: 'r',
      episode_id: 'r/a/0',
      group_id: 'r/a',
      task: { task_id: 'a', prompt: 'x' },
      sample: 0,
      attempt: 0,
      base_path: '/e/r%2Fa%2F0/a/solver/v1',
      lease_s: 30,
    });
    expect(two.attempt_id).toBe('r/a/1');
    expect(await ask('/lease', { runner: 'pool' })).toEqual({ status: 200, attempts: [] });
    const beat = await ask('/heartbeat', { attempt_id: one.attempt_id, token: one.token });
    expect(beat).toEqual({ status: 200, lease_s: 30, seconds_left: expect.any(Number) });
    for (const [attempt, reward] of [
      [one, 1],
      [two, 0],
    ] as const) {
      expect((await call(attempt)).statusCode).toBe(200);
      expect(await end(attempt, { outcome: 'done', reward, answer: 'four' })).toEqual({
        status: 200,
        attempt_id: attempt.attempt_id,
        state: 'accepted',
        outcome: 'done',
        why: null,
      });
    }
    // The answer to the first report was lost, so it is sent again.
    expect(await end(one)).toMatchObject({ state: 'duplicate', outcome: 'done' });
    expect(await end(one, { outcome: 'done', reward: 0 })).toMatchObject({
      state: 'duplicate',
      why: 'It was reported before with the reward 1, which stays.',
    });
    expect(await result()).toMatchObject({
      episodes: ['r/a/0', 'r/a/1'],
      groups: { complete: 1, partial: 0 },
      attempts: { done: 2, failed: 0, late: 0, retried: 0 },
      without_reward: 0,
    });
    await at.project();
    const { rows } = await at.db.query(
      `select episode_id, group_id, reward, answer, closed from traj.episodes order by 1`,
    );
    expect(rows).toEqual([
      { episode_id: 'r/a/0', group_id: 'r/a', reward: 1, answer: 'four', closed: true },
      { episode_id: 'r/a/1', group_id: 'r/a', reward: 0, answer: 'four', closed: true },
    ]);
    const state = (await at.app.inject('/v1/rollouts/r')).json();
    expect(state).toMatchObject({
      state: 'finished',
      outcome: 'done',
      attempts: { waiting: 0, running: 0, done: 2, failed: 0 },
    });
  });

  it('are given an attempt as soon as there is one, or none after the time that they wait', async () => {
    const waiting = ask('/lease', { runner: 'pool', wait_s: 30 });
    const idle = await ask('/lease', { runner: 'pool', wait_s: 0.2 });
    expect(idle).toEqual({ status: 200, attempts: [] });
    const asked = performance.now();
    await begin({ samples: 1 });
    expect((await waiting).attempts).toHaveLength(1);
    expectBelow(performance.now() - asked, 20_000);
  });

  it('are given nothing once they have left while they waited', async () => {
    const url = await at.app.listen({ port: 0, host: '127.0.0.1' });
    const gone = new AbortController();
    const waiting = fetch(`${url}/v1/rollouts/lease`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ runner: 'pool', wait_s: 30 }),
      signal: gone.signal,
    });
    await new Promise((resolve) => setTimeout(resolve, 500));
    gone.abort();
    await expect(waiting).rejects.toThrow();
    await begin({ samples: 1 });
    expect(await leased()).toMatchObject({ token: 1, attempt: 0 });
  });

  it('end their waiting when the server stops', async () => {
    const waiting = ask('/lease', { runner: 'pool', wait_s: 30 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    await at.app.close();
    expect(await waiting).toEqual({ status: 200, attempts: [] });
  });

  it('lease and finish several at once; where one of them never was, none is ended', async () => {
    await begin({ samples: 3 });
    const first = await leased();
    const rest = await lease('pool', 10);
    expect([first, ...rest].map(({ attempt_id }) => attempt_id)).toEqual(['r/a/0', 'r/a/1', 'r/a/2']);
    for (const attempt of [first, ...rest]) await call(attempt);
    const done = ({ attempt_id, token }: Lease, reward: number) => ({ attempt_id, token, outcome: 'done', reward });
    expect(await finish(done(first, 1), { attempt_id: 'r/none/0', token: 1, outcome: 'done' })).toMatchObject({
      status: 404,
    });
    const reports = [done(rest[1]!, 0.5), done(first, 1), { ...done(rest[0]!, 0), token: 7 }];
    expect((await finish(...reports)).attempts).toEqual([
      { attempt_id: 'r/a/2', state: 'accepted', outcome: 'done', why: null },
      { attempt_id: 'r/a/0', state: 'accepted', outcome: 'done', why: null },
      expect.objectContaining({ attempt_id: 'r/a/1', state: 'late' }),
    ]);
    expect(await end(rest[0]!, { outcome: 'done', reward: 0 })).toMatchObject({ state: 'accepted' });
    expect(await result()).toMatchObject({ episodes: ['r/a/0', 'r/a/1', 'r/a/2'], without_reward: 0 });
  });

  it('are given nothing more once the budget is used up, also before the job of the rollout has looked', async () => {
    await begin({ samples: 6, budget: { tokens: 8 } });
    const both = [await leased(), ...(await lease('pool', 1))];
    expect(both).toHaveLength(2);
    stop.abort();
    await Promise.all(running);
    stop = new AbortController();
    running = [runProjector(at.db, { signal: stop.signal, onTrouble: () => {} })];
    for (const attempt of both) {
      await call(attempt);
      expect(await end(attempt)).toMatchObject({ state: 'accepted', outcome: 'done' });
    }
    expect(await lease('pool', 6)).toEqual([]);
    running.push(playRollouts());
    expect(await result()).toMatchObject({
      attempts: { done: 2, failed: 0 },
      tokens: 10,
      partial: [{ why: [{ code: 'budget', message: 'The budget of 8 tokens was used up: 10 recorded.', samples: 4 }] }],
    });
  });

  it('are given no more at once than fit into a budget, however many they ask for', async () => {
    await begin({ samples: 100, budget: { tokens: 60 } });
    const first = [await leased(), ...(await lease('pool', 128))];
    expect(first).toHaveLength(8);
    expect(await lease('pool', 128)).toEqual([]);
    // One call of 5 tokens each: 55 are left, of which 7 attempts under way take 35.
    await call(first[0]!);
    await end(first[0]!);
    const next = await lease('pool', 128);
    expect(next).toHaveLength(4);
    for (const attempt of [...first.slice(1), ...next]) {
      await call(attempt);
      await end(attempt);
    }
    expect(await lease('pool', 128)).toEqual([]);
    expect(await result()).toMatchObject({ attempts: { done: 12, failed: 0 }, tokens: 60 });
  });

  it('are given all that they ask for where only time is limited: each attempt has its own time limit', async () => {
    await begin({ samples: 20, budget: { seconds: 1000 } });
    expect([await leased(), ...(await lease('pool', 128))]).toHaveLength(20);
  });

  it('that wait for work get it once an attempt that ended leaves room in the budget', async () => {
    await begin({ samples: 20, budget: { tokens: 200 } });
    const first = [await leased(), ...(await lease('pool', 128))];
    const waiting = ask('/lease', { runner: 'pool', count: 3, wait_s: 30 });
    await call(first[0]!);
    await end(first[0]!);
    expect((await waiting).attempts).toHaveLength(3);
  });

  it('Complaints 1, 2 and 4: one that gives no sign of life loses its episode to another; its late report is kept and counts nothing', async () => {
    await begin({ runner: 'brief', samples: 1 });
    const silent = await leased('brief');
    await call(silent);
    const next = await leased('brief');
    expect(next).toMatchObject({ attempt_id: 'r/a/0/a1', attempt: 1, seed: silent.seed });
    expect(await ask('/heartbeat', { attempt_id: silent.attempt_id, token: 1 })).toMatchObject({
      status: 409,
      code: 'fenced',
    });
    expect(await end(silent, { outcome: 'done', reward: 1 })).toMatchObject({
      status: 200,
      state: 'late',
      outcome: 'failed',
    });
    expect(await end(silent, { outcome: 'done', reward: 1 })).toMatchObject({
      status: 200,
      state: 'duplicate',
      outcome: 'failed',
    });
    await call(next);
    expect(await end(next, { outcome: 'done', reward: 0.5 })).toMatchObject({ state: 'accepted' });
    expect(await result()).toMatchObject({
      episodes: ['r/a/0/a1'],
      attempts: { done: 1, failed: 1, late: 1, retried: 1 },
    });
    await at.project();
    const { rows } = await at.db.query(
      `select episode_id, group_id, reward, stop_reason from traj.episodes order by 1`,
    );
    expect(rows).toEqual([
      { episode_id: 'r/a/0', group_id: null, reward: 1, stop_reason: 'late: done' },
      { episode_id: 'r/a/0/a1', group_id: 'r/a', reward: 0.5, stop_reason: 'done' },
    ]);
  });

  it('the source of the runner rewards what has none; where it fails, the result says why', async () => {
    await begin({ runner: 'graded' });
    const attempts = [await leased('graded'), await leased('graded')];
    for (const [i, attempt] of attempts.entries()) {
      await call(attempt);
      await end(attempt, { outcome: 'done', answer: i === 0 ? 'right' : 'wrong' });
    }
    const { without_reward, reward_failed } = await result();
    expect(without_reward).toBe(1);
    expect(Object.entries(reward_failed!)).toEqual([[expect.stringContaining('division by zero'), 1]]);
    await at.project();
    const { rows } = await at.db.query('select reward from traj.episodes order by episode_id');
    expect(rows).toEqual([{ reward: 1 }, { reward: null }]);
  });

  it('a failure has no reward and is played again; done without anything recorded is a failure', async () => {
    await begin({ samples: 1 });
    expect(
      await end(await leased(), { outcome: 'failed', reason: 'the tool server is down', reward: 1 }),
    ).toMatchObject({
      outcome: 'failed',
      why: 'the tool server is down',
    });
    expect(await end(await leased())).toMatchObject({
      state: 'accepted',
      outcome: 'failed',
      why: expect.stringContaining('nothing was recorded'),
    });
    const { groups, partial } = await result();
    expect(groups).toEqual({ complete: 0, partial: 1 });
    expect(partial[0]!.why).toEqual([expect.objectContaining({ code: 'nothing_recorded', samples: 1 })]);
    await at.project();
    const { rows } = await at.db.query(`select count(reward)::int as n from traj.episodes`);
    expect(rows).toEqual([{ n: 0 }]);
  });

  it('what its team closed as an error is no success, whatever its worker reports', async () => {
    await begin({ samples: 1 });
    const attempt = await leased();
    await call(attempt);
    const data = { episode_id: attempt.episode_id, outcome: 'error' };
    await post(at.app, [{ type: 'troupe.episode.finished.v1', source: '/team', id: 'end', data }]);
    expect(await end(attempt)).toMatchObject({
      state: 'accepted',
      outcome: 'failed',
      why: 'The team closed the episode with the outcome error.',
    });
  });

  it('Complaint 3: at the deadline of the rollout what waits and runs ends', async () => {
    await begin({ deadline_s: 4 });
    const held = await leased();
    const { partial } = await result();
    expect(partial[0]!.why).toEqual([expect.objectContaining({ code: 'deadline', samples: 2 })]);
    expect(await end(held)).toMatchObject({ state: 'late' });
  });
});

describe('what does not fit is refused by name', () => {
  it.each([
    ['', { runner: 'none', tasks: [{ task_id: 'a' }], samples: 1 }, 404, /no runner "none"; it has pool, brief, here/],
    ['', { runner: 'pool', tasks: [], samples: 1 }, 400, /tasks/],
    ['', { runner: 'pool', tasks: [{ task_id: 'a' }], samples: 1, command: ['rm'] }, 400, /has no "command"/],
    ['', { id: 'a/b', runner: 'pool', tasks: [{ task_id: 'a' }], samples: 1 }, 400, /id of a rollout/],
    ['/lease', { runner: 'here' }, 400, /is a command, which Troupe starts itself/],
    ['/heartbeat', { attempt_id: 'r/none/0', token: 1 }, 404, /no attempt r\/none\/0/],
    ['/lease', { runner: 'pool', count: 0 }, 400, /count/],
    ['/finish', { attempts: [{ attempt_id: 'r/none/0', token: 1, outcome: 'done' }] }, 404, /no attempt/],
    ['/finish', { attempts: [{ attempt_id: 'r/none/0', token: 1, outcome: 'won' }] }, 400, /outcome/],
    ['/finish', { attempts: [] }, 400, /attempts/],
  ])('%s %j', async (path, body, status, sentence) => {
    expect(await ask(path, body)).toMatchObject({ status, detail: expect.stringMatching(sentence) });
  });

  it('another rollout under the same name, while the same one again changes nothing', async () => {
    await begin();
    expect(await begin()).toMatchObject({ status: 200 });
    expect(await begin({ samples: 3 })).toMatchObject({ status: 409, code: 'conflict' });
  });

  it('a key without the scope rollout', async () => {
    const { text } = await createKey(at.db, { name: 'agents', scopes: ['ingest'], expiresAt: null });
    const worker = await createKey(at.db, { name: 'pool', scopes: ['rollout'], expiresAt: null });
    expect(await ask('/lease', { runner: 'pool' }, { authorization: `Bearer ${text}` })).toMatchObject({ status: 403 });
    expect(await ask('/lease', { runner: 'pool' }, { authorization: `Bearer ${worker.text}` })).toMatchObject({
      status: 200,
    });
  });
});
