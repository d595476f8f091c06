import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { runProjector } from '../../../store/projecting/projector.ts';
import { WaitsFor } from '../../../store/queue/jobs/jobs.ts';
import { madeBy } from '../../../store/queue/jobs/run-of-plan.ts';
import { readEngines } from '../../../trainer/engines/engines.ts';
import { checkPlan } from '../../../trainer/loop/plan/check.ts';
import { parsePlan } from '../../../trainer/loop/plan/plan.ts';
import { planHandler } from '../../../trainer/loop/plan/plan-run.ts';
import { readRunners } from '../../../trainer/loop/play/runners.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

let database: TestDatabase;
const folder = mkdtempSync(join(tmpdir(), 'troupe-plan-run-'));
const stop = new AbortController();
let projecting: Promise<unknown>;
const plan = {
  name: 'nightly',
  policies: {
    solver: {
      base: 'no-such-model',
      recipe: { unit: 'step' },
      train: { method: 'sft', steps: 1, batch: 1, learning_rate: 1e-3 },
    },
  },
  gate: { kind: 'manual' },
};
const run = (spec: object) =>
  planHandler(
    { db: database.db, log: postgresLog(database.db), now: () => new Date() },
    { checking: { folder, codeVersion: '0', runners: [], engines: [], env: {} } },
  )({ job_id: 'nightly-1', kind: 'plan', spec: { plan, ...spec }, token: 1 }, async () => {}, stop.signal);

const checked = async (more: object) =>
  checkPlan(
    { db: database.db, folder, codeVersion: '0', runners: [], engines: [], env: {} },
    await parsePlan({ ...plan, ...more }),
  );

beforeAll(async () => {
  database = await freshDatabase();
  projecting = runProjector(database.db, { signal: stop.signal, onTrouble: () => {} });
});
afterAll(async () => {
  stop.abort();
  await projecting;
  rmSync(folder, { recursive: true });
  await database.close();
});

it('A run is checked before its first stage, once: not again where whoever requested it has just done so', async () => {
  await expect(run({})).rejects.toMatchObject({
    code: 'plan_blocked',
    message: expect.stringContaining('no-such-model'),
  });
  await expect(run({ checked: true })).rejects.toEqual(new WaitsFor('nightly-1/1/freeze-solver'));
});

it('A canary that the minutes of its plan end before it may release is a problem, and one that they may end is a note', async () => {
  const found = async (minutes: number) => {
    const { problems, notes } = await checked({
      gate: { kind: 'canary', share: 0.5, metric: 'reward', bake_hours: 2, hours: 48 },
      budget: { minutes },
    });
    return { problem: problems.join().includes('a canary ends'), note: notes.join().includes('a canary ends') };
  };
  expect(await found(119)).toEqual({ problem: true, note: false });
  expect(await found(120)).toEqual({ problem: false, note: true });
  expect(await found(48 * 60)).toEqual({ problem: false, note: false });
});

it('A budget of tokens says what a training program has to report', async () => {
  const policies = { solver: { ...plan.policies.solver, train: { engine: 'command', use: 'trl' } } };
  const notesOf = async (budget: object) => (await checked({ policies, budget })).notes.join();
  expect(await notesOf({ tokens: 1000 })).toContain('the program trl writes to TROUPE_METRICS');
  expect(await notesOf({ minutes: 10 })).not.toContain('TROUPE_METRICS');
});

it('An engine that is not configured is a problem, and one whose program is not found here is a note', async () => {
  const policies = { solver: { ...plan.policies.solver, train: { engine: 'command', use: 'trl' } } };
  const found = async (engines: object) => {
    const asked = { db: database.db, folder, codeVersion: '0', runners: [], engines: readEngines({ ...engines }) };
    const { problems, notes } = await checkPlan(
      { ...asked, env: { PATH: process.env.PATH } },
      await parsePlan({ ...plan, policies }),
    );
    return {
      problem: /no engine "trl"/.test(problems.join()),
      note: /of engines.trl is in no folder/.test(notes.join()),
    };
  };
  expect(await found({ other: { command: ['sh'] } })).toEqual({ problem: true, note: false });
  expect(await found({ trl: { command: ['no-such-trainer'] } })).toEqual({ problem: false, note: true });
  expect(await found({ trl: { command: ['sh'] } })).toEqual({ problem: false, note: false });
});

it('The weights that a training program would start from are looked at as those of the built-in trainer are', async () => {
  const policies = { solver: { ...plan.policies.solver, train: { engine: 'command', use: 'trl' } } };
  expect((await checked({ policies })).problems.join()).toContain('no model or checkpoint at no-such-model');
});

it('A program of a runner that is not found here is a note', async () => {
  const runners = readRunners({ team: { command: ['no-such-team'] } });
  const gate = { kind: 'play', runner: 'team', tasks: [{ task_id: 'a' }, { task_id: 'b' }], samples: 1 };
  const asked = { db: database.db, folder, codeVersion: '0', runners, engines: [], env: {} };
  const { notes } = await checkPlan(asked, await parsePlan({ ...plan, gate }));
  expect(notes.join()).toContain('"no-such-team" of runners.team is in no folder of PATH');
});

it('Where nothing is there that a method of the plan could choose from, no run of it learns anything: a problem', async () => {
  const recipe = { unit: 'step', where: 'verdict(well_formed_filter) and task.split = trane' };
  const more = {
    judge: [{ method: 'well_formed_filter' }],
    policies: { solver: { ...plan.policies.solver, recipe } },
  };
  expect((await checked(more)).problems.join()).toContain('recipe of solver has no rows');
});

it('plan show says how many rows a stage froze: to learn from one of 512 would otherwise go unseen', () => {
  expect(madeBy({ dataset_id: 'd', rows: { train: 1, held_out: 20 } })).toBe(
    'dataset d, 1 train row, 20 held_out rows',
  );
  expect(madeBy({ dataset_id: 'd' })).toBe('dataset d');
});
