/** A rollout whose team is a server that gets each episode by POST: what it is sent, what is recorded, and what goes wrong. */
import type { lookup as systemLookup } from 'node:dns';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postJson } from '../../../api/http/post.ts';
import { serve } from '../../../api/http/serve.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { runProjector } from '../../../store/projecting/projector.ts';
import { type JobContext, requestJob, waitForJob } from '../../../store/queue/jobs/jobs.ts';
import { runJobs } from '../../../store/queue/jobs/worker.ts';
import type { WebhookBody } from '../../../trainer/loop/play/by-webhook.ts';
import { type RolloutResult, rolloutHandlers } from '../../../trainer/loop/play/handler.ts';
import { readRunners } from '../../../trainer/loop/play/runners.ts';
import { type TestApp, testApp } from '../../api/support/app.ts';

type Answer = { readonly status?: number; readonly body: unknown };

let at: TestApp;
let context: JobContext;
let url: string;
let team: Server;
let address: string;
let got: { readonly key: string | undefined; readonly body: WebhookBody }[];
let play: (body: WebhookBody) => Promise<Answer>;
let stop: AbortController;
let running: Promise<unknown>[];
beforeEach(async () => {
  at = await testApp();
  ({ url } = await serve(at.app, { host: '127.0.0.1', port: 0 }));
  context = { db: at.db, log: postgresLog(at.db), now: () => new Date() };
  got = [];
  team = createServer(async (request, response) => {
    const body = JSON.parse(await text(request)) as WebhookBody;
    got.push({ key: request.headers.authorization, body });
    const { status = 200, body: answer } = await play(body);
    response.writeHead(status).end(JSON.stringify(answer, null, 2));
  });
  await new Promise<void>((resolve) => team.listen(0, '127.0.0.1', resolve));
  address = `http://127.0.0.1:${(team.address() as AddressInfo).port}/play`;
  play = async (body) => ({ body: { reward: body.sample, answer: await ask(body) } });
  stop = new AbortController();
  running = [runProjector(at.db, { signal: stop.signal, onTrouble: () => {} })];
});
afterEach(async () => {
  stop.abort();
  await Promise.all(running);
  team.closeAllConnections();
  await new Promise((resolve) => team.close(resolve));
  await at.close();
});

/** Asks the gateway once. */
const ask = async ({ openai_base_url, task, key }: WebhookBody): Promise<string> => {
  const answer = await fetch(`${openai_base_url}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'policy:solver', messages: [{ role: 'user', content: JSON.stringify(task) }] }),
  });
  return `${answer.status}`;
};
const rollout = async (
  tasks: readonly object[],
  { samples = 1, ...fields }: Readonly<Record<string, unknown>> = {},
  lookup?: typeof systemLookup,
): Promise<RolloutResult> => {
  const runner = { webhook: address, private: true, key_env: 'TEAM_KEY', url, retries: 0, reward: 'answer', ...fields };
  const settings = {
    runners: readRunners({ hosted: runner }),
    env: { ...process.env, TEAM_KEY: 'a-secret-key' },
    post: postJson(lookup),
    signal: stop.signal,
  };
  const handlers = rolloutHandlers(context, settings);
  running.push(runJobs(context, { worker: 'w', handlers, signal: stop.signal, pollMs: 20 }));
  await requestJob(context, { job_id: 'r', kind: 'rollout', spec: { runner: 'hosted', tasks, samples } });
  return (await waitForJob(at.db, 'r', { timeoutMs: 60_000 })) as RolloutResult;
};
const reasons = ({ partial }: RolloutResult) => partial.flatMap(({ why }) => why);

describe('a team behind a webhook', () => {
  it('gets each episode with the addresses it plays it by, and its answer has the reward', async () => {
    const result = await rollout([{ task_id: 'a b', prompt: '2+2?' }], { samples: 2 });
    expect(result).toMatchObject({ groups: { complete: 1, partial: 0 }, without_reward: 0 });
    expect(got.map(({ key }) => key)).toEqual(['Bearer a-secret-key', 'Bearer a-secret-key']);
    const first = got.find(({ body }) => body.sample === 0)!.body;
    expect(first).toEqual({
      attempt_id: 'r/a b/0',
      rollout_id: 'r',
      episode_id: 'r/a b/0',
      group_id: 'r/a b',
      task: { task_id: 'a b', prompt: '2+2?' },
      sample: 0,
      attempt: 0,
      seed: expect.any(Number),
      params: {},
      base_path: '/e/r%2Fa%20b%2F0/a/agent/v1',
      deadline: expect.stringMatching(/Z$/),
      openai_base_url: `${url}/e/r%2Fa%20b%2F0/a/agent/v1`,
      anthropic_base_url: `${url}/e/r%2Fa%20b%2F0/a/agent`,
      episode_url: `${url}/e/r%2Fa%20b%2F0`,
      troupe_url: url,
      key: null,
    });
    await at.project();
    const { rows } = await at.db.query('select episode_id, reward, answer, calls from traj.episodes order by 1');
    expect(rows).toEqual([
      { episode_id: 'r/a b/0', reward: 0, answer: '200', calls: 1 },
      { episode_id: 'r/a b/1', reward: 1, answer: '200', calls: 1 },
    ]);
  });

  it('fails an episode that it answers with another status, and the reason has no secret', async () => {
    play = async () => ({ status: 503, body: { message: 'no room for a-secret-key' } });
    const [why] = reasons(await rollout([{ task_id: 'a' }]));
    expect(why).toMatchObject({ code: 'answer', samples: 1 });
    expect(why!.message).toMatch(/^It answered 503 instead of 200: [\s\S]*no room for \*\*\*/);
    expect(why!.message).not.toContain('a-secret-key');
  });

  it('fails an episode that it answers before anything is recorded', async () => {
    play = async () => ({ body: { reward: 1 } });
    expect(reasons(await rollout([{ task_id: 'a' }]))).toMatchObject([{ code: 'nothing_recorded' }]);
  });

  it('fails an episode that it does not answer in time', async () => {
    play = () => new Promise(() => {});
    expect(reasons(await rollout([{ task_id: 'a' }], { timeout_s: 1 }))).toEqual([
      { code: 'timeout', message: 'It did not end within 1 s.', samples: 1 },
    ]);
  });

  it('is not asked at an address of a private network unless the configuration allows it', async () => {
    const lookup = ((_: string, __: object, found: (error: null, at: object[]) => void) =>
      found(null, [{ address: '127.0.0.1', family: 4 }])) as unknown as typeof systemLookup;
    const named = { private: false, webhook: address.replace('127.0.0.1', 'team.example') };
    const [why] = reasons(await rollout([{ task_id: 'a' }], named, lookup));
    expect(why).toMatchObject({ code: 'answer', message: expect.stringContaining('private network') });
    expect(got).toEqual([]);
  });

  it('has to have the variable of its key', async () => {
    await expect(rollout([{ task_id: 'a' }], { key_env: 'NOT_THERE' })).rejects.toThrow(/key_env names NOT_THERE/);
  });
});

it('A webhook is an address; its reward is the answer, not standard output', () => {
  const read = (fields: object) => () => readRunners({ hosted: { webhook: 'http://host/play', ...fields } });
  expect(read({})()[0]).toMatchObject({ by: 'webhook', concurrency: 4, reward: { from: 'team' } });
  expect(read({ webhook: 'host/play' })).toThrow(/runners.hosted.webhook should be an address/);
  expect(read({ reward: 'stdout' })).toThrow(/should be team, answer, or a map/);
  expect(read({ command: ['x'] })).toThrow(/runners.hosted should be a map with command, webhook or workers/);
});
