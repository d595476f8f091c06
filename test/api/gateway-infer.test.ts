/** The gateway before a sampling process that runs: what is passed on is done, and a client that goes away gets nothing more. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { registeredPolicyServers } from '../../api/gateway/policy-servers.ts';
import { registerProcess } from '../../store/queue/jobs/processes.ts';
import { saveCheckpointAt } from '../../trainer/model/checkpoints/checkpoint.ts';
import { type InferServer, startInfer } from '../../trainer/sample/infer.ts';
import { connectInfer } from '../../trainer/sample/infer-client.ts';
import { Policy } from '../../trainer/sample/policy.ts';
import { freshDatabase } from '../support/database.ts';
import { tinyConfig, tinyContents } from '../trainer/tiny-checkpoint.ts';
import { post, type TestApp, testApp } from './support/app.ts';

/** Room for an answer of minutes. */
const LENGTH = 200_000;

let root: string;
let infer: InferServer;
let at: TestApp;
let url: string;
const ends: (() => unknown)[] = [];

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'troupe-gateway-'));
  const socket = join(root, 'infer.sock');
  const { dir } = await saveCheckpointAt(
    join(root, 'model'),
    tinyContents(1, { ...tinyConfig, max_position_embeddings: LENGTH }),
    { durable: false },
  );
  infer = await startInfer({ socket, threads: 1 }, Policy.load);
  await infer.load({ dir, name: 'team' });
  const { db, close } = await freshDatabase();
  const policyServers = registeredPolicyServers(db, connectInfer);
  const leave = await registerProcess(db, { processId: 'p', role: 'infer', policy: 'team', address: socket });
  at = await testApp({ policyServers });
  url = await at.app.listen({ host: '127.0.0.1', port: 0 });
  ends.push(
    () => at.close(),
    leave,
    policyServers.close,
    () => infer.close(),
    close,
  );
});
afterAll(async () => {
  for (const end of ends) await end();
  await rm(root, { recursive: true, force: true });
});

const asked = (more: object) => ({ model: 'policy:team', prompt: [2, 3, 4], ...more });

it('draws as it was asked to: among one token where top_k or top_p leave one, with the best beside it', async () => {
  const complete = async (more: object) => (await post(at.app, asked(more), {}, '/v1/completions')).json();
  const greedy = await complete({ temperature: 0, max_tokens: 8, logprobs: 2, raw_logprobs: true });
  for (const cut of [{ top_k: 1 }, { top_p: 1e-6 }, { min_p: 1 }]) {
    const { choices } = await complete({ ...cut, seed: 4, max_tokens: 8, logprobs: 0 });
    expect(choices[0].token_ids).toEqual(greedy.choices[0].token_ids);
    // The only token that can be drawn is certain.
    for (const logprob of choices[0].logprobs.token_logprobs) expect(logprob).toBeCloseTo(0, 6);
  }
  const { raw_logprobs, logprobs, text } = greedy.choices[0];
  expect(logprobs.tokens.join('').startsWith(text)).toBe(true);
  for (const [i, best] of logprobs.top_logprobs.entries()) {
    const [[first, most], [, second]] = Object.entries(best) as [[string, number], [string, number]];
    expect([first, most >= second]).toEqual([logprobs.tokens[i], true]);
    expect(raw_logprobs[i]).toBeCloseTo(most, 5);
  }
});

it('ends an answer whose reader has gone: the process is free again', async () => {
  const client = new AbortController();
  const answer = fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(asked({ temperature: 0, max_tokens: LENGTH })),
    signal: client.signal,
  });
  await expect.poll(() => infer.status().waiting, { timeout: 10_000 }).toBe(1);
  const { requests } = infer.status();
  client.abort();
  await expect(answer).rejects.toThrow();
  await expect.poll(() => infer.status().waiting, { timeout: 10_000 }).toBe(0);
  // It was withdrawn, not answered.
  expect(infer.status().requests).toBe(requests);
  const errorCodes = async () =>
    (
      await at.db.query<{ data: { error?: { code: string } } }>(
        "select data from troupe.events where name = 'generation.completed' and data::jsonb ? 'error'",
      )
    ).rows.map(({ data }) => data.error?.code);
  await expect.poll(errorCodes, { timeout: 10_000 }).toEqual(['interrupted']);
});
