/**
 * The loop for teams that other clients made: a team that uses Chat Completions, Messages and Responses, all streamed, is served by a
 * policy made here, recorded with token ids, judged in groups, and trains the next checkpoint, which then serves the team.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { registeredPolicyServers } from '../api/gateway/policy-servers.ts';
import { buildApp } from '../api/http/app.ts';
import { openKeyRing } from '../api/http/key-ring.ts';
import { serve } from '../api/http/serve.ts';
import { fileArtifacts } from '../ingest/log/artifacts.ts';
import { postgresBook, postgresLog } from '../ingest/log/postgres.ts';
import { createRecorder } from '../ingest/recorder/recorder.ts';
import { projectAll } from '../store/projecting/projector.ts';
import { storeHandlers } from '../store/queue/jobs/handlers.ts';
import type { Job, JobContext } from '../store/queue/jobs/jobs.ts';
import { registerProcess } from '../store/queue/jobs/processes.ts';
import { trainerHandlers } from '../trainer/loop/jobs/handlers.ts';
import { newModelDirectory } from '../trainer/model/model-directory.ts';
import { CHATML_ROLES, CHATML_SPECIAL, CHATML_TEMPLATE } from '../trainer/model/tokens/chatml.ts';
import { trainBpe } from '../trainer/model/tokens/tokenizer-training.ts';
import { type InferServer, startInfer } from '../trainer/sample/infer.ts';
import { connectInfer } from '../trainer/sample/infer-client.ts';
import { Policy } from '../trainer/sample/policy.ts';
import { freshDatabase, type TestDatabase } from './support/database.ts';
import { tinyConfig } from './trainer/tiny-checkpoint.ts';

const home = mkdtempSync(join(tmpdir(), 'troupe-dialects-'));
let fresh: TestDatabase;
let infer: InferServer;
let url: string;
let model: string;
const ends: (() => unknown)[] = [];

beforeAll(async () => {
  fresh = await freshDatabase();
  const { db } = fresh;
  const tokenizer = trainBpe(['plan, solve and check'], {
    vocabSize: 300,
    special: CHATML_SPECIAL,
    roles: CHATML_ROLES,
  });
  const config = { ...tinyConfig, vocab_size: 300, max_position_embeddings: 500 };
  const parts = { config, tokenizer, chatTemplate: CHATML_TEMPLATE, seed: 1 };
  model = (await newModelDirectory(join(home, 'model'), parts, { durable: false })).dir;
  const socket = join(home, 'infer.sock');
  infer = await startInfer({ socket, threads: 1 }, Policy.load);
  await infer.load({ dir: model, name: 'team' });
  const leave = await registerProcess(db, { processId: 'p', role: 'infer', policy: 'team', address: socket });
  const policyServers = registeredPolicyServers(db, connectInfer);
  const app = await buildApp({
    db,
    log: postgresLog(db),
    book: postgresBook(db),
    artifacts: fileArtifacts(join(home, 'artifacts')),
    policyServers,
    keys: openKeyRing(db),
    project: 'test',
    version: 'test',
  });
  const listening = await serve(app, { host: '127.0.0.1', port: 0 });
  url = listening.url;
  ends.push(listening.close, leave, policyServers.close, () => infer.close(), fresh.close);
});
afterAll(async () => {
  for (const end of ends) await end();
  rmSync(home, { recursive: true, force: true });
});

/** What the client of each agent sends. */
const AGENTS = {
  planner: ['chat/completions', (text: string) => ({ messages: [{ role: 'user', content: text }], max_tokens: 12 })],
  solver: ['messages', (text: string) => ({ messages: [{ role: 'user', content: text }], max_tokens: 12 })],
  checker: ['responses', (text: string) => ({ input: text, max_output_tokens: 12 })],
} as const;

/** One episode: each agent in turn, streamed. Returns how many events came. */
async function play(episode: string, text: string): Promise<number> {
  let events = 0;
  for (const [agent, [path, bodyOf]] of Object.entries(AGENTS)) {
    const answer = await fetch(`${url}/e/${episode}/a/${agent}/v1/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'policy:team', stream: true, ...bodyOf(text) }),
    });
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8']);
    events += (await answer.text()).split('\n\n').length;
  }
  return events;
}

/** A stage as a worker runs it. */
async function stage<T>(kind: string, spec: Record<string, unknown>): Promise<T> {
  const { db } = fresh;
  await projectAll(db);
  const context: JobContext = { db, log: postgresLog(db), now: () => new Date() };
  const handlers = {
    ...storeHandlers(context, { datasets: join(home, 'datasets'), codeVersion: 'test' }),
    ...trainerHandlers(context, { checkpoints: join(home, 'checkpoints'), threads: 1, codeVersion: 'test' }),
  };
  const job: Job = { job_id: `job-${kind}`, kind, spec, token: 1 };
  await db.query(
    `insert into troupe.job_queue (job_id, kind, spec, state, worker, token) values ($1, $2, $3, 'running', 'test', 1)`,
    [job.job_id, kind, JSON.stringify(spec)],
  );
  const result = await handlers[kind]!(job, async () => {}, new AbortController().signal);
  await projectAll(db);
  return result as T;
}

it('a streamed team of three interfaces trains the next checkpoint of its policy, which then serves it', async () => {
  const recorder = createRecorder({ baseUrl: url, source: '/test/team' });
  const episodes: string[] = [];
  for (const task of ['a', 'b']) {
    recorder.task({ task_id: task, query: `solve ${task}` });
    for (const attempt of [0, 1, 2]) {
      const episode_id = `${task}-${attempt}`;
      episodes.push(episode_id);
      recorder.episode({ episode_id, task_id: task, group_id: task, group_size: 3, attempt });
      expect(await play(episode_id, `solve ${task}`)).toBeGreaterThan(20);
      const target = { kind: 'episode', id: episode_id } as const;
      recorder.feedback({ feedback_id: episode_id, target, kind: 'reward', name: 'reward', value: attempt % 2 });
      recorder.finish({ episode_id, outcome: 'unknown' });
    }
  }
  await recorder.flush();
  await stage('judge', { methods: [{ method: 'grpo_advantage' }], episodes });
  const { rows: steps } = await fresh.db.query(
    `select agent, count(*)::integer as steps, bool_and(trainable) as trainable, bool_and(cardinality(token_ids) = cardinality(logprobs)) as tokens
     from traj.steps group by 1 order by 1`,
  );
  expect(steps).toEqual(
    ['checker', 'planner', 'solver'].map((agent) => ({ agent, steps: 6, trainable: true, tokens: true })),
  );

  const recipe = { name: 'team', where: 'trainable = true', unit: 'step', credit: 'grpo_advantage' };
  const dataset = await stage<{ directory: string; rows: { train: number } }>('freeze', { recipe });
  expect(dataset.rows.train).toBe(18);
  const roles = Object.keys(AGENTS).map((role) => ({ role, groups: 2, learning_rate: 1e-3, entropy: 0 }));
  const trained = await stage<{ checkpoint_id: string; directory: string }>('rl', {
    policy: 'team',
    roles,
    base: model,
    dataset: dataset.directory,
    ...{ clip_low: 0.2, clip_high: 0.28, warmup: 0, seed: 5, reset_optimizer: true },
    keep: true,
  });

  await infer.load({ dir: trained.directory, name: 'team' });
  await play('after', 'solve a');
  await projectAll(fresh.db);
  const { rows } = await fresh.db.query(
    `select distinct checkpoint_id, policy from traj.steps where episode_id = 'after'`,
  );
  expect(rows).toEqual([{ checkpoint_id: trained.checkpoint_id, policy: 'team' }]);
  const { rows: lineage } = await fresh.db.query(
    `select parent_id is not null as parent, json_array_length(dataset_ids) as datasets from traj.checkpoints where checkpoint_id = $1`,
    [trained.checkpoint_id],
  );
  expect(lineage).toEqual([{ parent: true, datasets: 1 }]);
});
