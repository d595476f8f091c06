import { afterAll, beforeAll, expect, it } from 'vitest';
import { fixedPolicyServers, post, type TestApp, testApp } from './support/app.ts';

const policyServers = fixedPolicyServers();
let at: TestApp;
beforeAll(async () => {
  at = await testApp({ policyServers });
  const weights = { solver: { checkpoint_id: 'c-1', directory: '/c-1' } };
  const row = 'insert into troupe.job_queue (job_id, kind, spec) values ($1, $2, $3)';
  await at.db.query(row, ['n-1/1/gate/candidate', 'rollout', JSON.stringify({ weights })]);
  const attempt = JSON.stringify({ rollout: 'n-1/1/gate/candidate', task: 0, sample: 0, attempt: 0 });
  await at.db.query(row, ['n-1/1/gate/candidate/t/0', 'attempt/team', attempt]);
});
afterAll(() => at.close());

const asked = async (episode: string, model = 'policy:solver') => {
  const body = { model, messages: [{ role: 'user', content: '2 + 2?' }] };
  const url = `/e/${encodeURIComponent(episode)}/a/agent/v1/chat/completions`;
  expect((await post(at.app, body, {}, url)).statusCode).toBe(200);
  return policyServers.asked.at(-1)!.who;
};

it('A policy answers an episode of a gate with the weights of its side, and every other one with what it serves', async () => {
  expect(await asked('n-1/1/gate/candidate/t/0')).toEqual({ kind: 'checkpoint', name: 'c-1' });
  for (const other of ['live', 'n-1/1/gate/candidate/t/1', 'n-1/1/gate/incumbent/t/0'])
    expect(await asked(other)).toEqual({ kind: 'policy', name: 'solver' });
});

it('Tokens of an episode of a gate are counted with the weights of its side too', async () => {
  const body = { model: 'policy:solver', messages: [{ role: 'user', content: '2 + 2?' }] };
  for (const [episode, who] of [
    ['n-1/1/gate/candidate/t/0', { kind: 'checkpoint', name: 'c-1' }],
    ['live', { kind: 'policy', name: 'solver' }],
  ] as const) {
    const headers = { 'troupe-episode': episode };
    expect((await post(at.app, body, headers, '/v1/messages/count_tokens')).json()).toEqual({ input_tokens: 3 });
    expect(policyServers.counted.at(-1)).toEqual(who);
  }
});

it('The call is recorded under the policy that was asked', async () => {
  await at.project();
  const { rows } = await at.db.query(
    `select policy, checkpoint_id, model from facts.calls where episode_id = 'n-1/1/gate/candidate/t/0'`,
  );
  expect(rows).toEqual([{ policy: 'solver', checkpoint_id: 'c-1', model: 'policy:solver' }]);
});
