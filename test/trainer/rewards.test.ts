/** Rewards of recorded episodes by a server, a model as judge and SQL: with real HTTP and a real database. */
import type { lookup as systemLookup } from 'node:dns';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postJson } from '../../api/http/post.ts';
import type { Draft } from '../../ingest/events/events.ts';
import { appendOwn } from '../../ingest/log/own-event.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { waitProjected } from '../../store/projecting/positions.ts';
import { runProjector } from '../../store/projecting/projector.ts';
import { type JobContext, requestJob, waitForJob } from '../../store/queue/jobs/jobs.ts';
import { runJobs } from '../../store/queue/jobs/worker.ts';
import { readRunners } from '../../trainer/loop/play/runners.ts';
import { rewardHandler } from '../../trainer/loop/rewards/job.ts';
import { readScorers } from '../../trainer/loop/rewards/source.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';

let fresh: TestDatabase;
let context: JobContext;
let server: Server;
let url: string;
let got: { readonly path: string; readonly key: string | undefined; readonly body: Record<string, unknown> }[];
let answer: (body: Record<string, unknown>) => { readonly status?: number; readonly body: unknown };
let stop: AbortController;
let running: Promise<unknown>[];
beforeEach(async () => {
  fresh = await freshDatabase();
  context = { db: fresh.db, log: postgresLog(fresh.db), now: () => new Date() };
  got = [];
  answer = () => ({ body: { reward: 1 } });
  server = createServer(async (request, response) => {
    const body = JSON.parse(await text(request)) as Record<string, unknown>;
    got.push({ path: request.url!, key: request.headers.authorization, body });
    const { status = 200, body: sent } = answer(body);
    response.writeHead(status, { location: 'http://127.0.0.1:1/' }).end(JSON.stringify(sent));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  stop = new AbortController();
  running = [runProjector(fresh.db, { signal: stop.signal, onTrouble: () => {} })];
  await appendOwn(
    context.log,
    [
      { name: 'task.defined', data: { task_id: 't', query: '2+2?', ground_truth: '4' } },
      ...['right', 'wrong', 'broken'].flatMap((episode_id) => [
        { name: 'episode.started', data: { episode_id, task_id: 't' } },
        {
          name: 'episode.finished',
          data: {
            episode_id,
            outcome: episode_id === 'broken' ? 'error' : 'unknown',
            answer: episode_id === 'right' ? '4' : '5',
          },
        },
      ]),
    ].map((draft, i) => ({ source: '/test', id: `e${i}`, time: '2026-01-01T00:00:00Z', ...draft }) as Draft),
  );
});
afterEach(async () => {
  stop.abort();
  await Promise.all(running);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await fresh.close();
});

const reward = async (source: object, { id = 'job', lookup }: { id?: string; lookup?: typeof systemLookup } = {}) => {
  const scoring = {
    post: postJson(lookup),
    env: {},
    keys: { JUDGE_KEY: 'a-secret-key' },
    hide: (words: string) => words,
  };
  const handlers = {
    reward: rewardHandler(context, {
      scorers: readScorers({ grader: source }),
      scoring,
      caughtUp: (db) => waitProjected(db, { log: context.log }),
    }),
  };
  running.push(runJobs(context, { worker: id, within: id, handlers, signal: stop.signal, pollMs: 20 }));
  await requestJob(context, { job_id: id, kind: 'reward', spec: { use: 'grader' } });
  return waitForJob(fresh.db, id, { timeoutMs: 120_000 });
};
const rewards = async () => {
  const { rows } = await fresh.db.query<{ episode_id: string; reward: number | null }>(
    'select episode_id, reward from traj.episodes order by 1',
  );
  return Object.fromEntries(rows.map((row) => [row.episode_id, row.reward]));
};

describe('A source of rewards', () => {
  it('that is a server gets task and answer, and what it gives is recorded; failed episodes are left out', async () => {
    answer = ({ output }) => ({ body: { reward: output === '4' ? 1 : 0 } });
    expect(await reward({ url: `${url}/grade`, key_env: 'JUDGE_KEY' })).toEqual({
      episodes: 2,
      rewarded: 2,
      failed: {},
    });
    expect(got.find(({ body }) => body.episode_id === 'right')).toEqual({
      path: '/grade',
      key: 'Bearer a-secret-key',
      body: { task: { task_id: 't', prompt: '2+2?', answer: '4' }, episode_id: 'right', output: '4' },
    });
    expect(await rewards()).toEqual({ broken: null, right: 1, wrong: 0 });
    // Rewarded episodes are not asked about again.
    expect(await reward({ url }, { id: 'again' })).toEqual({ episodes: 0, rewarded: 0, failed: {} });
  });

  it('that is a model grades within its range, and anything else is no reward', async () => {
    let graded = '{"reward": 0.5}';
    answer = () => ({ body: { choices: [{ message: { content: `Thinking.\n${graded}` } }] } });
    const judge = { model: 'judge-1', url: `${url}/v1`, rubric: 'Only the number counts.' };
    expect(await reward(judge)).toMatchObject({ rewarded: 2 });
    expect(got[0]).toMatchObject({ path: '/v1/chat/completions', body: { model: 'judge-1', temperature: 0 } });
    expect(JSON.stringify(got[0]!.body)).toContain('Only the number counts.');
    expect(await rewards()).toEqual({ broken: null, right: 0.5, wrong: 0.5 });
    graded = '{"reward": 7}';
    await appendOwn(
      context.log,
      [
        { name: 'episode.started', data: { episode_id: 'more', task_id: 't' } },
        { name: 'episode.finished', data: { episode_id: 'more', outcome: 'unknown' } },
      ].map((draft, i) => ({ source: '/test', id: `m${i}`, time: '2026-01-01T00:00:00Z', ...draft }) as Draft),
    );
    expect(await reward(judge, { id: 'again' })).toEqual({
      episodes: 1,
      rewarded: 0,
      failed: { 'The model judge-1 gave the reward 7, which is not from 0 to 1.': 1 },
    });
    expect((await rewards()).more).toBeNull();
  });

  it('that is SQL reads what was recorded; null is no reward', async () => {
    const sql = `select case when e.answer = t.ground_truth #>> '{}' then 1 end as reward from episodes e join tasks t using (task_id) where e.episode_id = :episode`;
    expect(await reward({ sql })).toEqual({
      episodes: 2,
      rewarded: 1,
      failed: {
        'The query returned null as `reward`: something that it reads is not recorded. Null is no reward.': 1,
      },
    });
    expect(await rewards()).toEqual({ broken: null, right: 1, wrong: null });
    expect(await reward({ sql: 'select 1 as reword' }, { id: 'other' })).toMatchObject({
      failed: { 'The query should return a number in a column `reward`, but it is nothing.': 1 },
    });
    expect(await reward({ sql: 'delete from episodes' }, { id: 'harm' })).toMatchObject({ rewarded: 0 });
  });

  it('that fails or redirects leaves the episode without a reward, and says why', async () => {
    answer = () => ({ status: 503, body: {} });
    expect(await reward({ url })).toEqual({ episodes: 2, rewarded: 0, failed: { 'It answered 503.': 2 } });
    // Each is tried twice.
    expect(got).toHaveLength(4);
    answer = () => ({ status: 302, body: { reward: 1 } });
    expect(await reward({ url }, { id: 'moved' })).toMatchObject({
      failed: { 'It answered 302; redirects are not followed.': 2 },
    });
    expect(await rewards()).toEqual({ broken: null, right: null, wrong: null });
  });

  it('is not asked at an address of a private network unless the configuration allows it', async () => {
    const lookup = ((_: string, __: object, found: (error: null, at: object[]) => void) =>
      found(null, [{ address: '127.0.0.1', family: 4 }])) as unknown as typeof systemLookup;
    const named = url.replace('127.0.0.1', 'grader.example');
    const { failed } = (await reward({ url: named }, { lookup })) as { failed: Record<string, number> };
    expect(Object.keys(failed)).toEqual([expect.stringContaining('leads to an address of a private network')]);
    expect(got).toEqual([]);
    expect(await reward({ url: named, private: true }, { id: 'allowed', lookup })).toMatchObject({ rewarded: 2 });
  });
});

it.each([
  [{ url: 'http://me:pw@host/x' }, /rewards.grader.url should be an address/],
  [{ model: 'm', url: 'http://host/v1', key_env: 'sk-123 456' }, /key_env should be the name of a variable/],
  [{ model: 'm', url: 'http://host/v1', range: [1, 0] }, /range should be a least and a greater number/],
  [{ sql: ' ' }, /sql should be a text/],
  [{ uri: 'x' }, /should be a map with command, url, model or sql/],
  [
    { sql: 'select 1', url: 'http://host' },
    /rewards.grader should be a map with command, url, model or sql, but it is "sql, url"/,
  ],
])('%j is refused', (source, sentence) => {
  expect(() => readScorers({ grader: source })).toThrow(sentence);
});

it('A runner names a source of the configuration', () => {
  const scorers = readScorers({ grader: { sql: 'select 1 as reward' } });
  const [runner] = readRunners({ pool: { workers: true, reward: { use: 'grader' } } }, scorers);
  expect(runner!.reward).toEqual({ from: 'sql', sql: 'select 1 as reward', timeoutS: 60 });
  expect(() => readRunners({ pool: { workers: true, reward: { use: 'other' } } }, scorers)).toThrow(
    /no reward "other"; it has grader/,
  );
  expect(() => readRunners({ pool: { workers: true, reward: 'stdout' } })).toThrow(/output of workers is not seen/);
});
