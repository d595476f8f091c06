import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { migrate, readMigrations } from '../../migrations/migrate.ts';
import { type Db, openPool } from '../../store/db/pool.ts';
import { judge, unjudged } from '../../store/evaluate/judging/judge.ts';
import { event } from '../store/support/events.ts';
import { testServerUrl } from '../support/database.ts';
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

describe('a database of an earlier release', () => {
  const name = `old_${randomBytes(6).toString('hex')}`;
  let db: Db;
  beforeAll(async () => {
    await at.db.query(`create database ${name} template template0`);
    db = openPool(await testServerUrl(name));
  });
  afterAll(async () => {
    await db.close();
    await at.db.query(`drop database ${name} with (force)`);
  });

  it('has task and group of its gateway calls, and its ends in whole seconds, after migration', async () => {
    const files = readMigrations();
    await migrate(
      db,
      files.slice(
        0,
        files.findIndex(({ name }) => name === 'task and group of calls'),
      ),
    );
    await db.query(`
      insert into facts.episodes (episode_id, task_id, started_version, touched_position) values ('a', null, 'v', 4), ('b', 'own', 'v', 4), ('c', 'c', 'v', 4);
      insert into facts.calls (episode_id, call_id, requested_version, requested_unmapped)
      select id, '1', ' |x' || chr(1) || '/gateway', '{"task_id":"sum","group_id":"g"}'::json from unnest(array['a', 'b']) id;
      insert into facts.calls (episode_id, call_id, requested_version, requested_unmapped)
      values ('c', '1', ' |x' || chr(1) || '/import/x', '{"task_id":"sum","group_id":"g"}'::json)`);
    await db.query(`
      insert into facts.episodes (episode_id, closed, finished_at, last_at, touched_position)
      values ('d', false, '2026-09-10T10:00:05Z', '2026-09-10T10:00:05.4Z', 1), ('e', false, '2026-09-10T10:00:05Z', '2026-09-10T10:00:06Z', 1)`);
    await migrate(db, files);
    const { rows: closed } = await db.query(
      `select episode_id, closed, revision::integer as revision from facts.episodes where closed is not null order by 1`,
    );
    expect(closed).toEqual([
      { episode_id: 'd', closed: true, revision: 2 },
      { episode_id: 'e', closed: false, revision: 1 },
    ]);
    const { rows } = await db.query(
      'select episode_id, task_id, group_id, revision::integer as revision from facts.episodes where closed is null order by 1',
    );
    expect(rows).toEqual([
      { episode_id: 'a', task_id: 'sum', group_id: 'g', revision: 5 },
      { episode_id: 'b', task_id: 'own', group_id: 'g', revision: 5 },
      { episode_id: 'c', task_id: 'c', group_id: null, revision: 4 },
    ]);
  });

  it('has them after a rebuild too', async () => {
    await say(
      event(
        'generation.requested',
        { episode_id: 'was', call_id: 'was-1', unmapped: { task_id: 'sum', group_id: 'g' } },
        { source: '/gateway' },
      ),
    );
    expect(await placeOf('was')).toEqual({ task_id: 'sum', group_id: 'g' });
  });
});
