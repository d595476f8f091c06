import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';
import { lines } from './support/chats.ts';
import { document, type Shell, shell } from './support/troupe.ts';

/** Each test starts several processes, and a program in Python for each episode. */
const SLOW = 300_000;
const TEAM = join(import.meta.dirname, '../../examples/python-team');

/** Tickets whose answers the scripted model server knows. */
const TICKETS = ['red', 'blue', 'black', 'white'].flatMap((colour) =>
  ['lamp', 'chair', 'desk', 'radio'].map((thing, i) => ({
    task_id: `${colour}-${thing}`,
    prompt: `my ${colour} ${thing} is late ${i % 2 === 0 ? 'please hurry' : 'thanks a lot'}`,
    answer: `shipping ${i % 2 === 0 ? 'urgent' : 'normal'}`,
  })),
);

describe('a plan that repairs failures, with the team in Python', () => {
  let database: TestDatabase;
  let at: Shell;
  let server: ChildProcess;
  const path = (name: string) => join(at.folder, name);
  const troupe = async (...args: string[]) => document(await at.run([...args, '--json']));
  const rows = async (query: string) => (await database.db.query<Record<string, unknown>>(query)).rows;
  const written = (name: string, change: object) => {
    const plan = parse(readFileSync(join(TEAM, 'plans/sirius-repair.yaml'), 'utf8'));
    plan.policies.desk = { ...plan.policies.desk, base: 'desk-model' };
    plan.policies.desk.train.steps = 10;
    const rollout = { ...plan.rollout, tasks: 'tickets.jsonl', ...change };
    writeFileSync(path(`${name}.yaml`), stringify({ ...plan, name, rollout, gate: { kind: 'manual' } }));
    return path(`${name}.yaml`);
  };

  beforeAll(async () => {
    database = await freshDatabase();
    const port = await freePort();
    at = shell({ DATABASE_URL: database.url, PYTHONDONTWRITEBYTECODE: '1' });
    cpSync(TEAM, path('examples/python-team'), { recursive: true });
    writeFileSync(path('troupe.yaml'), readFileSync(join(TEAM, 'troupe.yaml'), 'utf8').replace('9917', String(port)));
    writeFileSync(path('tickets.jsonl'), lines(TICKETS));
    await troupe('model', 'new', '--dir', path('desk-model'), '--config', join(TEAM, 'model.json'));
    const env = { ...process.env, PYTHONDONTWRITEBYTECODE: '1' };
    server = spawn('python3', [join(TEAM, 'upstream.py'), '--port', String(port)], { env, stdio: 'ignore' });
    await at.start(['run', 'serve', '--port', '0', '--json']).waitForOutput(/^\{"role"/m);
  }, SLOW);
  afterAll(async () => {
    server?.kill();
    at.remove();
    await database.close();
  });

  it(
    'has a critic tell the solver of each failure what is wrong, and learns from what is right then, at the prompt that it had',
    async () => {
      const file = written('repaired', {});
      const { stages } = await troupe('plan', 'check', file);
      expect(stages.slice(1, 4)).toEqual(['rollout', 'rollout/branch-1-repair', 'rollout/branch-1']);
      expect(await troupe('plan', 'run', file)).toMatchObject({ run: 'repaired-1', state: 'undecided' });
      const [played] = await rows(
        `select count(*) filter (where tags ->> 'rollout' = 'repaired-1/1/rollout' and reward = 0)::int as failed,
           count(*) filter (where tags ->> 'rollout' = 'repaired-1/1/rollout/branch-1-repair')::int as criticised,
           count(*) filter (where tags ->> 'rollout' = 'repaired-1/1/rollout/branch-1' and reward = 1)::int as repaired
         from traj.episodes`,
      );
      expect(played).toMatchObject({ criticised: played!.failed });
      expect(played!.repaired).toBeGreaterThan(0);
      const learnt = await rows(
        `select e.episode_id, e.reward, string_agg(m.text, ' ') as prompt
         from traj.dataset_rows r join traj.episodes e using (episode_id)
         join traj.steps s on s.episode_id = r.episode_id and s.step_id = r.call_id || '/' || r.candidate
         join traj.messages m on m.episode_id = r.episode_id and m.call_id = r.call_id
         where e.tags ->> 'rollout' = 'repaired-1/1/rollout/branch-1' and s.role = 'solver' group by 1, 2`,
      );
      // A row of each repaired episode, in which nothing of the critic stands.
      expect(learnt).toHaveLength(Number(played!.repaired));
      for (const { reward, prompt } of learnt) {
        expect(reward).toBe(1);
        expect(prompt).toMatch(/name the queue/);
        expect(prompt).not.toMatch(/is not right/);
      }
    },
    SLOW,
  );

  it(
    'plays on without the branch where nothing failed',
    async () => {
      const branches = [{ where: 'reward < 0', repair: { runner: 'desk-repair' }, samples: 1 }];
      expect(await troupe('plan', 'run', written('fine', { branches }))).toMatchObject({ state: 'undecided' });
      const { stages } = await troupe('plan', 'show', 'fine-1');
      expect(stages.map(({ job_id }: { job_id: string }) => job_id.slice('fine-1/1/'.length))).toEqual([
        ...['serving', 'rollout', 'judge', 'freeze-desk', 'train-desk', 'gate'],
      ]);
    },
    SLOW,
  );
});
