import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { document, warmShell } from '../../cli/support/troupe.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { expectNumber } from './support/judged.ts';

const data = process.env.TROUPE_DATA ?? '';

describe.skipIf(!data)('published conversations of a service desk (TROUPE_DATA names their folder)', () => {
  const at = warmShell();
  let database: TestDatabase | undefined;
  afterAll(async () => {
    await at.remove();
    await database?.close();
  });

  it('have a signal in the tasks that were solved sometimes, and by name none in the others, whoever estimates', async () => {
    database = await freshDatabase();
    const { url, db } = database;
    await at.run(['import', join(data, 'data/tau-bench/gpt-4o-airline.json'), '--json', '--database-url', url]);
    const methods = [
      'grpo_advantage',
      'grpo_advantage{"scale_std":false}',
      'drmas_advantage',
      'rloo_advantage',
      'magrpo_returns',
    ];
    const judged = document(await at.run(['judge', '--methods', methods.join(), '--json', '--database-url', url]));
    const { rows: tasks } = await db.query<{ task_id: string; rewards: number[]; episodes: string[]; steps: number }>(
      `select task_id, json_agg(reward order by episode_id) as rewards, json_agg(episode_id order by episode_id) as episodes, sum(steps)::integer as steps
       from traj.episodes group by 1`,
    );
    const mixed = tasks.filter(({ rewards }) => new Set(rewards).size > 1);
    expect([tasks.length, mixed.length]).toEqual([35, 17]);
    const steps = tasks.reduce((sum, task) => sum + task.steps, 0);
    expect(judged.rows).toEqual({ credits: methods.length * steps });
    const { rows: silent } = await db.query<{ method_key: string; tasks: number; steps: number }>(
      `select c.method_key, count(distinct e.task_id)::integer as tasks, count(*)::integer as steps
       from traj.credits c join traj.episodes e using (episode_id) where c.value = 0 and c.reason = 'zero_variance' group by 1`,
    );
    const { rows: graded } = await db.query<{ method_key: string; tasks: number; steps: number }>(
      `select c.method_key, count(distinct e.task_id)::integer as tasks, count(*)::integer as steps
       from traj.credits c join traj.episodes e using (episode_id) where c.value <> 0 and c.reason is null group by 1`,
    );
    const inMixed = mixed.reduce((sum, task) => sum + task.steps, 0);
    expect(graded.map(({ tasks, steps }) => [tasks, steps])).toEqual(methods.map(() => [17, inMixed]));
    expect(silent.map(({ tasks, steps }) => [tasks, steps])).toEqual(methods.map(() => [18, steps - inMixed]));

    const { rows: credits } = await db.query<{ episode_id: string; value: number }>(
      `select distinct episode_id, value from traj.credits where method = 'magrpo_returns'`,
    );
    const byEpisode = new Map(credits.map(({ episode_id, value }) => [episode_id, value]));
    for (const { rewards, episodes } of tasks) {
      // One joint action an episode: its reward less the mean of its task.
      const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
      for (const [i, episode] of episodes.entries()) expectNumber(byEpisode.get(episode)!, rewards[i]! - mean, episode);
    }
  }, 240_000);
});
