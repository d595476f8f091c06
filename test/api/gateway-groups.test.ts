import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { judge, unjudged } from '../../store/evaluate/judging/judge.ts';
import { event } from '../store/support/events.ts';
import { fixedPolicyServers, post, type TestApp, testApp } from './support/app.ts';

const CHAT = '/v1/chat/completions';
const ask = { model: 'policy:solver', messages: [{ role: 'user', content: '2 + 2?' }] };

let at: TestApp;
beforeAll(async () => {
  at = await testApp({ policyServers: fixedPolicyServers() });
});
afterAll(() => at.close());

const call = (episode: string, headers: Record<string, string>) =>
  post(at.app, ask, { 'troupe-episode': episode, 'troupe-agent': 'sam', ...headers }, CHAT);
const say = async (...events: ReturnType<typeof event>[]) => {
  await postgresLog(at.db).append(events);
  await at.project();
};
const started = (episode_id: string, more: object = {}) =>
  event('episode.started', { episode_id, ...more }, { time: '2026-09-01T00:00:00.000000Z' });
const placeOf = async (episode: string) =>
  (await at.db.query('select task_id, group_id from traj.episodes where episode_id = $1', [episode])).rows[0];

describe('the headers Troupe-Task and Troupe-Group', () => {
  it('set task and group of the episode, whenever its program says that it started without them', async () => {
    const headers = { 'troupe-task': 'sum', 'troupe-group': 'g' };
    await say(started('before'));
    for (const episode of ['before', 'after']) await call(episode, headers);
    await at.project();
    await say(started('after'));
    for (const episode of ['before', 'after'])
      expect(await placeOf(episode)).toEqual({ task_id: 'sum', group_id: 'g' });
  });

  it('may come with different calls, and with calls that name neither', async () => {
    await call('parts', { 'troupe-task': 'sum' });
    await call('parts', {});
    await call('parts', { 'troupe-group': 'g' });
    await call('parts', {});
    await at.project();
    expect(await placeOf('parts')).toEqual({ task_id: 'sum', group_id: 'g' });
  });

  it('do not replace what the program itself says', async () => {
    await call('own', { 'troupe-task': 'sum', 'troupe-group': 'g' });
    await say(started('own', { task_id: 'product' }));
    expect(await placeOf('own')).toEqual({ task_id: 'product', group_id: 'g' });
  });

  it('make one group of the episodes that name it, so that credit compares them', async () => {
    for (const [i, episode] of ['m1', 'm2', 'm3'].entries()) {
      await call(episode, { 'troupe-task': 'members', 'troupe-group': 'members' });
      await say(
        event('feedback.recorded', {
          feedback_id: `${episode}-r`,
          target: { kind: 'episode', episode_id: episode, id: episode },
          kind: 'reward',
          name: 'reward',
          value: i === 0 ? 1 : 0,
        }),
        event('episode.finished', { episode_id: episode, outcome: 'success' }, { time: '2099-01-01T00:00:00.000000Z' }),
      );
    }
    const methods = [{ method: 'rloo_advantage' }];
    const episodes = await unjudged(at.db, methods, { now: new Date() });
    await judge(at.db, postgresLog(at.db), { methods, episodes, now: () => new Date() });
    const { rows } = await at.db.query(
      `select episode_id, value, reason from traj.credits where episode_id like 'm_' order by 1`,
    );
    expect(rows).toEqual([
      { episode_id: 'm1', value: 1, reason: null },
      { episode_id: 'm2', value: -0.5, reason: null },
      { episode_id: 'm3', value: -0.5, reason: null },
    ]);
  });
});

it('task and group that the gateway left beside its call in `unmapped` are those of the episode', async () => {
  await say(
    event(
      'generation.requested',
      { episode_id: 'was', call_id: 'was-1', unmapped: { task_id: 'sum', group_id: 'g' } },
      { source: '/gateway' },
    ),
  );
  expect(await placeOf('was')).toEqual({ task_id: 'sum', group_id: 'g' });
});
