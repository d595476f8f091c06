/** The setting `routes`: a client that asks for a model of somebody else is answered by a policy, and by that model while no process serves it. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fallbacksOf, readRoutes } from '../../api/gateway/model-routes.ts';
import { readUpstreams } from '../../api/gateway/upstream/settings.ts';
import { openUpstreams } from '../../api/gateway/upstream/upstreams.ts';
import { hostedWeights } from '../../store/loop/play/weights.ts';
import { freshDatabase } from '../support/database.ts';
import { post, type TestApp, testApp } from './support/app.ts';
import { openaiServer } from './support/openai-server.ts';
import { type ScriptedPolicy, scriptedPolicy } from './support/scripted-policy.ts';

const CHAT = '/v1/chat/completions';
const SETTING = {
  solver: { model: 'gpt-4o-mini', agent: 'sam', policy: 'team', fallback: 'main/echo' },
  checker: { model: 'gpt-*', role: 'checker', policy: 'team' },
};

let policy: ScriptedPolicy;
let at: TestApp;
const ends: (() => unknown)[] = [];
beforeAll(async () => {
  const server = await openaiServer();
  const servers = readUpstreams({ main: { base_url: server.baseUrl, models: ['gpt-4o-mini'] } }, {});
  const upstreams = openUpstreams(servers);
  const { db, close } = await freshDatabase();
  policy = await scriptedPolicy(db, { policy: 'team', say: () => 'by the policy' });
  at = await testApp({ policyServers: policy.policyServers, upstreams, routes: readRoutes(SETTING, servers) });
  ends.push(
    () => at.close(),
    policy.close,
    upstreams.close,
    () => server.close(),
    close,
  );
});
afterAll(async () => {
  for (const end of ends) await end();
});

const ask = (more: object = {}) => ({ model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'hello' }], ...more });
const call = (who: object, episode: string, more: object = {}) =>
  post(at.app, ask(more), { 'troupe-episode': episode, ...who }, CHAT);
// biome-ignore lint/suspicious/noExplicitAny: each test states what it looks at
type StoredEvent = { name: string; data: Record<string, any> };
const eventsOf = async (episode: string) =>
  (
    await at.db.query<StoredEvent>('select name, data from troupe.events where key = $1 order by position', [
      `e/${episode}`,
    ])
  ).rows;
const sam = { 'troupe-agent': 'sam' };

it('answers by the policy under the name that was asked for, and records both', async () => {
  const answer = await call(sam, 'routed');
  expect(answer.headers['troupe-route']).toBe('solver');
  expect(answer.json()).toMatchObject({
    model: 'gpt-4o-mini',
    choices: [{ message: { content: 'by the policy' } }],
    troupe: { checkpoint_id: policy.checkpoint },
  });
  const [requested, completed] = await eventsOf('routed');
  expect(requested!.data).toMatchObject({ model: 'gpt-4o-mini', params: { route: 'solver' } });
  expect(completed!.data).toMatchObject({ policy: 'team', checkpoint_id: policy.checkpoint });
  expect(completed!.data.choices[0].token_ids.length).toBeGreaterThan(0);
});

it('leaves calls of other agents, and of other models, where they were', async () => {
  for (const [who, more] of [
    [{ 'troupe-agent': 'ann' }, {}],
    [{}, {}],
    [sam, { model: 'main/echo' }],
  ] as const) {
    const answer = await call(who, 'others', more);
    expect([answer.headers['troupe-route'], answer.statusCode]).toEqual([undefined, 200]);
    expect(answer.json().choices[0].message.content).toContain('You said hello');
  }
});

it('knows an agent by the path, a role by its header, and models by their beginning, in every dialect', async () => {
  const byPath = await post(at.app, ask(), {}, `/e/path/a/sam${CHAT}`);
  expect(byPath.headers['troupe-route']).toBe('solver');
  const role = { 'troupe-role': 'checker' };
  const responses = await post(at.app, { model: 'gpt-9', input: 'hello' }, role, '/v1/responses');
  expect(responses.json().output[0].content[0].text).toBe('by the policy');
  const messages = { ...ask({ model: 'gpt-9' }), max_tokens: 99 };
  expect((await post(at.app, messages, role, '/v1/messages')).json().content[0].text).toBe('by the policy');
  const count = await post(at.app, ask({ model: 'gpt-9' }), role, '/v1/messages/count_tokens');
  expect(count.json().input_tokens).toBeGreaterThan(0);
});

it('asks the fallback in the episodes of a gate whose incumbent it is, whatever the policy serves, and records that it answered', async () => {
  const weights = { team: hostedWeights('main/echo') };
  const row = 'insert into troupe.job_queue (job_id, kind, spec) values ($1, $2, $3)';
  await at.db.query(row, ['n-1/1/gate/incumbent', 'rollout', JSON.stringify({ weights })]);
  const attempt = JSON.stringify({ rollout: 'n-1/1/gate/incumbent', task: 0, sample: 0, attempt: 0 });
  const episode = 'n-1/1/gate/incumbent/t/0';
  await at.db.query(row, [episode, 'attempt/team', attempt]);
  for (const more of [{}, { model: 'policy:team' }]) {
    const answer = await call(sam, episode, more);
    expect([answer.statusCode, answer.json().choices[0].message.content]).not.toEqual([200, 'by the policy']);
    expect(answer.statusCode).toBe(200);
  }
  expect(fallbacksOf(readRoutes(SETTING, readUpstreams({ main: { base_url: 'http://a/v1' } }, {})))).toEqual({
    team: 'main/echo',
  });
  const answered = (await eventsOf(episode)).filter(({ name }) => name === 'generation.completed');
  expect(answered.map(({ data }) => [data.checkpoint_id, data.policy, data.flags])).toEqual(
    Array(2).fill(['upstream:main/echo', undefined, ['route_fallback']]),
  );
});

it('is answered by the fallback while no process serves the policy, says so, and comes back', async () => {
  await policy.stop();
  const answer = await call(sam, 'away');
  expect(answer.headers).toMatchObject({ 'troupe-route': 'solver; fallback', 'troupe-recorded': 'true' });
  expect(answer.json().choices[0].message.content).toContain('You said hello');
  const events = await eventsOf('away');
  expect(events.filter(({ name }) => name.startsWith('generation.'))).toHaveLength(2);
  expect(events[0]!.data).toMatchObject({ model: 'gpt-4o-mini', flags: ['route_fallback'] });
  expect(events[1]!.data).toMatchObject({ response_model: 'echo', checkpoint_id: 'upstream:main/echo' });
  expect(events[1]!.data.unmapped).toMatchObject({ upstream: 'main', policy: 'team' });
  expect(events[1]!.data.policy).toBeUndefined();
  const none = await call({ 'troupe-role': 'checker' }, 'none', { model: 'gpt-9' });
  expect([none.statusCode, none.headers['troupe-route']]).toEqual([404, 'checker']);
  await policy.start();
  expect((await call(sam, 'back')).headers['troupe-route']).toBe('solver');
});

it('sends no request elsewhere that the policy refuses', async () => {
  const answer = await call(sam, 'refused', { response_format: { type: 'grammar' } });
  expect([answer.statusCode, answer.json().error.param]).toEqual([400, 'response_format']);
});

it('lists the models that are routed', async () => {
  const { data } = (await at.app.inject('/v1/models')).json();
  expect(data.filter(({ id }: { id: string }) => id === 'gpt-4o-mini')).toHaveLength(1);
});

describe('the setting routes', () => {
  const servers = readUpstreams({ main: { base_url: 'http://127.0.0.1:9/v1', models: ['echo'] } }, {});

  it.each([
    ['no map', [], 'routes'],
    ['a field that is none', { a: { model: 'm', policy: 'p', to: 'x' } }, 'routes.a'],
    ['no model', { a: { policy: 'p' } }, 'routes.a.model'],
    ['a model of ours', { a: { model: 'policy:x', policy: 'p' } }, 'routes.a.model'],
    ['no policy', { a: { model: 'm' } }, 'routes.a.policy'],
    ['an agent that is no name', { a: { model: 'm', policy: 'p', agent: 7 } }, 'routes.a.agent'],
    ['a fallback that nobody has', { a: { model: 'm', policy: 'p', fallback: 'gpt' } }, 'routes.a.fallback'],
  ])('is refused with %s', (_, setting, field) => {
    expect(() => readRoutes(setting, servers)).toThrow(expect.objectContaining({ code: 'config_invalid' }));
    expect(() => readRoutes(setting, servers)).toThrow(field);
  });

  it('may be left out', () => expect(readRoutes(null, servers)).toEqual([]));
});
