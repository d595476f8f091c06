import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { document, type Shell, warmShell } from './support/troupe.ts';

const PAGE = join(import.meta.dirname, '../../docs/schedules.md');
const blocks = [...readFileSync(PAGE, 'utf8').matchAll(/```(\w+)\n([\s\S]*?)```/g)].map(([, kind, text]) => ({
  kind: kind!,
  text: text!,
}));
const words = (line: string): string[] =>
  [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare ?? '');

describe('troupe schedule', () => {
  let database: TestDatabase;
  let at: Shell;
  beforeAll(async () => {
    database = await freshDatabase();
    at = warmShell({ DATABASE_URL: database.url });
  });
  afterAll(async () => {
    await at.remove();
    await database.close();
  });

  it('docs/schedules.md can be followed', async () => {
    let output = '';
    for (const { kind, text } of blocks) {
      if (kind === 'yaml')
        writeFileSync(join(at.folder, text.startsWith('# troupe.yaml') ? 'troupe.yaml' : 'job.yaml'), text);
      else if (kind === 'sh') {
        output = '';
        for (const line of text.trim().split('\n')) {
          const ended = await at.run(words(line.replace(/^npx troupe /, '')));
          expect([line, ended.code, ended.err]).toEqual([line, 0, '']);
          output += ended.out;
        }
      } else if (kind === 'text') for (const line of text.trim().split('\n')) expect(output).toContain(line);
    }
    const { job_id } = document(await at.run(['schedule', 'run', 'grown', '--json']));
    const ended = await at.run(['jobs', 'cancel', job_id, '--reason', 'wrong data', '--json']);
    expect(document(ended)).toEqual({ cancelled: [job_id] });
    const shown = document(await at.run(['schedule', 'show', 'grown', '--json']));
    expect(shown.runs).toMatchObject([{ job_id, state: 'finished', outcome: 'cancelled' }]);
    expect((await at.run(['jobs', 'cancel', job_id])).err).toContain('has ended already: cancelled');
    expect(new Set(blocks.map(({ kind }) => kind))).toEqual(new Set(['yaml', 'sh', 'text', 'bash', 'json']));
  }, 240_000);

  it('stores a plan with the values of --set, and says in its job what was set', async () => {
    const solver = {
      ...{ base: 'model', recipe: { unit: 'step' } },
      train: { method: 'sft', steps: 1, batch: 1, learning_rate: 1e-3 },
    };
    writeFileSync(
      join(at.folder, 'plan.yaml'),
      JSON.stringify({ name: 'swept', policies: { solver }, gate: { kind: 'manual' } }),
    );
    const set = ['--set', 'seed=2', '--set', 'policies.solver.train.steps=5', '--dry-run', '--json'];
    const add = ['schedule', 'add', 'swept', '--every', '1h'];
    const added = await at.run([...add, '--plan', join(at.folder, 'plan.yaml'), ...set]);
    expect(document(added).definition.job).toMatchObject({
      kind: 'plan',
      spec: {
        plan: { seed: 2, policies: { solver: { train: { steps: 5 } } } },
        set: { seed: 2, 'policies.solver.train.steps': 5 },
      },
    });
    writeFileSync(join(at.folder, 'any.yaml'), 'kind: freeze\nspec: { recipe: { name: all, unit: step } }\n');
    expect((await at.run([...add, '--job', join(at.folder, 'any.yaml'), ...set])).err).toContain(
      '--set sets values of a plan',
    );
  });

  it('starts the job of a tick in `run work`, and a judge does it', async () => {
    writeFileSync(join(at.folder, 'evaluate.json'), JSON.stringify({ kind: 'evaluate', spec: { sets: { all: {} } } }));
    const added = await at.run(['schedule', 'add', 'soon', '--every', '1m', '--job', 'evaluate.json', '--json']);
    expect(document(added).next).toHaveLength(5);
    // As if it had been added an hour ago.
    await database.db.query(
      `update troupe.job_queue set result = jsonb_build_object('since', now() - interval '1 hour', 'last', now() - interval '90 seconds', 'paused', null, 'pending', null)::json where job_id = 'schedule/soon'`,
    );
    const roles = ['project', 'judge', 'work'].map((role) => at.start(['run', role, '--json']));
    await expect
      .poll(async () => document(await at.run(['schedule', 'show', 'soon', '--json'])).runs, {
        timeout: 60_000,
        interval: 1000,
      })
      .toMatchObject([{ job_id: expect.stringMatching(/^schedule\/soon\/20/), state: 'finished', outcome: 'done' }]);
    // `ops` of docs/schedules.md is notified of a pause.
    const known = async () =>
      (await database.db.query(`select from troupe.job_queue where job_id = 'notify/ops'`)).rows.length;
    await expect.poll(known, { timeout: 60_000 }).toBe(1);
    expect((await at.run(['schedule', 'pause', 'soon', '--reason', 'labels are checked'])).code).toBe(0);
    const file = join(at.folder, 'notifications.jsonl');
    await expect.poll(() => readFileSync(file, 'utf8'), { timeout: 60_000 }).toContain('labels are checked');
    const messages = readFileSync(file, 'utf8').trim().split('\n');
    // Jobs that were requested above may fail meanwhile, of which it is notified too.
    const notifications = messages.map((line) => JSON.parse(line)).filter(({ event }) => event !== 'run_failed');
    expect(notifications).toMatchObject([
      { event: 'test' },
      { event: 'schedule_paused', schedule: 'soon', report: 'troupe schedule show soon' },
    ]);
    for (const { child } of roles) child.kill('SIGTERM');
    expect((await Promise.all(roles.map(({ ended }) => ended))).map(({ code }) => code)).toEqual([0, 0, 0]);
  }, 120_000);

  it.each([
    [['--every', '6'], /--every should be a time such as 90s/],
    [['--every', '59s'], /--every should be at least 1m, but it is "59s"/],
    [['--cron', '0 3 * * *', '--hours', '22-06'], /--hours should be a range such as 22:00-06:00/],
    [['--every', '6h', '--hours', '25:00-26:00'], /--hours should be a range such as 22:00-06:00/],
    [
      ['--cron', '0 12 * * *', '--hours', '22:00-06:00', '--dry-run'],
      /No tick of the schedule lies in its allowed hours/,
    ],
    [['--cron', '0 3 * *'], /five fields/],
  ])('refuses %j with a sentence', async (options, why) => {
    writeFileSync(join(at.folder, 'evaluate.json'), JSON.stringify({ kind: 'evaluate', spec: { sets: { all: {} } } }));
    const ended = await at.run(['schedule', 'add', 'wrong', '--job', 'evaluate.json', ...options]);
    expect(ended).toMatchObject({ code: 2, out: '' });
    expect(ended.err).toMatch(why);
  });

  it('says when its first jobs start, delays included, and shows a long job in part', async () => {
    const sets = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`set-${i}`, {}]));
    writeFileSync(join(at.folder, 'long.json'), JSON.stringify({ kind: 'evaluate', spec: { sets } }));
    const add = ['schedule', 'add', 'delayed', '--every', '1h', '--jitter', '30m', '--job', 'long.json', '--json'];
    const { next } = document(await at.run(add));
    expect(document(await at.run(['schedule', 'show', 'delayed', '--json'])).next).toEqual(next);
    const { out } = await at.run(['schedule', 'dry-run', 'delayed']);
    expect(out).toMatch(/Each requests a job of kind evaluate: \{"sets".{593}… \(\d+ characters; --json has all\)/);
    expect((await at.run(['schedule', 'show', 'delayed'])).out).toContain(
      'pauses after jobs in a row: 3 failed, 2 refused, 1 rolled back',
    );
    await database.db.query(
      `insert into troupe.job_queue (job_id, kind, spec, state, outcome, result)
       select 'schedule/delayed/2026-05-02T03:00:00Z' || part, kind, '{}', 'finished', 'done', '{"outcome":"fell"}'
       from (values ('', 'evaluate'), ('/1/watch', 'watch')) jobs (part, kind)`,
    );
    expect((await at.run(['schedule', 'dry-run', 'delayed'])).out).toContain(
      'The next tick would pause it: the live metric fell after the release of its last job',
    );
  });

  it('cancels a job with its parts, and names the first of many', async () => {
    await database.db.query(
      `insert into troupe.job_queue (job_id, kind, spec)
       select 'big' || case i when 0 then '' else '/' || i end, 'x', '{}' from generate_series(0, 7) i`,
    );
    const { out } = await at.run(['jobs', 'cancel', 'big']);
    expect(out).toBe('Cancelled: big, big/1, big/2, big/3, big/4 and 3 parts more; --json lists all\n');
  });

  it('says of the folder of a checkpoint that is to be released how to record it', async () => {
    mkdirSync(join(at.folder, 'weights'));
    const { err } = await at.run(['release', `solver=${join(at.folder, 'weights')}`]);
    expect(err).toContain(`troupe checkpoints add ${join(at.folder, 'weights')} --policy solver`);
  });

  it('stores a plan with the schedule, its paths as seen from the file and the tasks of its rollout', async () => {
    const policy = {
      base: './model',
      recipe: { where: { field: 'reward', op: '>=', value: 1 }, roles: ['solver'] },
      train: { method: 'sft', steps: 10, batch: 4, learning_rate: 0.001 },
    };
    const rollout = { runner: 'team', tasks: 'tasks.jsonl', samples: 2 };
    const plan = { name: 'retrain', rollout, policies: { solver: policy }, gate: { kind: 'manual' } };
    writeFileSync(join(at.folder, 'tasks.jsonl'), '{"task_id":"a"}\n{"task_id":"b"}\n');
    writeFileSync(join(at.folder, 'plan.yaml'), JSON.stringify(plan));
    const add = ['schedule', 'add', 'retrain', '--cron', '0 3 * * *'];
    const { definition } = document(await at.run([...add, '--plan', 'plan.yaml', '--dry-run', '--json']));
    const solver = { ...policy, base: join(at.folder, 'model') };
    // printf '[{"task_id":"a"},{"task_id":"b"}]' | sha256sum
    const tasks_sha256 = 'df54113dd2024fba4ff6a77eb56bd35a3a3ef5fc1331b84945e66beb3754a820';
    const played = { ...rollout, tasks: [{ task_id: 'a' }, { task_id: 'b' }], tasks_sha256 };
    expect(definition.job).toEqual({
      kind: 'plan',
      spec: { plan: { ...plan, rollout: played, policies: { solver } } },
    });
    const neither = await at.run(add);
    expect(neither).toMatchObject({ code: 2, err: expect.stringContaining('--plan FILE or --job FILE') });
  });

  it('refuses a job that could not start, before it is scheduled', async () => {
    writeFileSync(join(at.folder, 'wrong.json'), JSON.stringify({ kind: 'dream', spec: {} }));
    const ended = await at.run(['schedule', 'add', 'wrong', '--every', '6h', '--job', 'wrong.json']);
    expect(ended).toMatchObject({ code: 2, out: '' });
    expect(ended.err).toMatch(/There is no job of kind "dream"; the kinds are judge, freeze/);
  });
});
