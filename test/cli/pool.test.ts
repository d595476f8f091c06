import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { event } from '../store/support/events.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

describe('troupe pool and teams', () => {
  let database: TestDatabase;
  let at: Shell;
  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url });
    const team = (team_id: string, roles: readonly string[]) =>
      event('team.defined', { team_id, name: `The ${team_id}`, agents: roles.map((role) => ({ name: role, role })) });
    const played = (team_id: string, task_id: string, reward: number) => [
      event('episode.started', { episode_id: `${task_id}-${team_id}`, task_id, team_id }),
      event('feedback.recorded', {
        feedback_id: `reward-${task_id}-${team_id}`,
        target: { kind: 'episode', id: `${task_id}-${team_id}`, episode_id: `${task_id}-${team_id}` },
        kind: 'reward',
        name: 'reward',
        value: reward,
      }),
      event('episode.finished', { episode_id: `${task_id}-${team_id}`, outcome: 'success' }),
    ];
    await postgresLog(database.db).append([
      team('pair', ['solver', 'critic']),
      team('solo', ['solver']),
      event('task.defined', { task_id: 'sum', query: 'What is 3 plus 4?' }),
      ...played('pair', 'sum', 1),
      ...played('solo', 'sum', 0.25),
    ]);
  });
  afterAll(async () => {
    await at.remove();
    await database.close();
  });

  it('pool says which team a query gets, and writes the triplets to the given file', async () => {
    const file = join(at.folder, 'triplets.jsonl');
    const ended = await at.run(['pool', '--triplets', file, '--json']);
    expect(ended).toMatchObject({ code: 0, err: '' });
    const { clusters, triplets } = document(ended) as { clusters: object[]; triplets: object[] };
    expect(clusters).toMatchObject([{ cluster: 'sum', team: 'pair', total: 1, kept: ['sum'] }]);
    expect(triplets).toMatchObject([{ task_id: 'sum', query: 'What is 3 plus 4?', team_id: 'pair', score: 1 }]);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual(triplets[0]);
    expect((await at.run(['pool', '--embedding-model', 'nobody'])).code).toBe(1);
  });

  it('teams lists them with what they reached, and those that are like one', async () => {
    const { items } = document(await at.run(['teams', '--json'])) as { items: object[] };
    expect(items).toMatchObject([
      { team_id: 'pair', agents: 2, edges: null, episodes: 1, mean_reward: 1 },
      { team_id: 'solo', agents: 1, edges: null, episodes: 1, mean_reward: 0.25 },
    ]);
    const like = document(await at.run(['teams', 'like', 'pair', '--json'])) as { teams: object[] };
    expect(like.teams).toMatchObject([{ team_id: 'solo', roles: 0.5, score: 0.5, reason: 'no_wiring' }]);
    const shown = await at.run(['teams', 'like', 'solo']);
    expect(shown.out).toContain('pair');
  });
});
