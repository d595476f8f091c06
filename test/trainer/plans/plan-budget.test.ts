import { afterAll, beforeAll, expect, it } from 'vitest';
import { spentBelow } from '../../../store/loop/play/budget.ts';
import { episodeId, groupId } from '../../../store/loop/play/ids.ts';
import { parsePlan } from '../../../trainer/loop/plan/plan.ts';
import { runOver, stageBudget } from '../../../trainer/loop/plan/plan-budget.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

let database: TestDatabase;
const plan = (budget?: object) =>
  parsePlan({
    name: 'nightly',
    policies: {
      solver: {
        base: 'model',
        recipe: { unit: 'step' },
        train: { method: 'sft', steps: 1, batch: 1, learning_rate: 1e-3 },
      },
    },
    gate: { kind: 'manual' },
    ...(budget === undefined ? {} : { budget }),
  });
/** A call of a sample of a rollout, which is a job. */
async function call(rollout: string, sample: number, policy: string | null, usage: object | null): Promise<void> {
  await database.db.query(`insert into facts.jobs (job_id, kind) values ($1, 'rollout') on conflict do nothing`, [
    rollout,
  ]);
  await database.db.query(
    `insert into facts.calls (episode_id, call_id, policy, input_tokens, output_tokens, usage, completed_version)
     values ($1, $1, $2, 60, 40, $3, '1')`,
    [episodeId(groupId(rollout, 'a', 0), sample, 0), policy, usage && JSON.stringify(usage)],
  );
}

beforeAll(async () => {
  database = await freshDatabase();
  // Two rounds, the gate of the first one, and what is no part of the run.
  await call('nightly-1/1/rollout', 0, null, { cost_usd: 0.5 });
  await call('nightly-1/1/gate/candidate', 0, null, { cost_usd: 0.25 });
  await call('nightly-1/2/rollout', 0, null, { cost_usd: 0.25 });
  await call('nightly-10/1/rollout', 0, null, { cost_usd: 7 });
});
afterAll(() => database.close());

it('The budget of a plan is over once all calls of the run, of every round and gate, have used it', async () => {
  const over = async (budget?: object) => runOver(database, await plan(budget), 'nightly-1');
  expect(await over()).toBeNull();
  expect(await over({ tokens: 301, usd: 1.1 })).toBeNull();
  expect(await over({ tokens: 300 })).toBe('The budget of 300 tokens was used up: 300 recorded.');
  expect(await over({ tokens: 301, usd: 1 })).toBe('The budget of 1 USD was used up: 1 recorded.');
});

it('A rollout may use what is left of the budget of its plan, beside what it used itself, and never more than its own', async () => {
  const of = async (budget: object, own?: object) =>
    stageBudget(database, await plan(budget), {
      run: 'nightly-1',
      job_id: 'nightly-1/2/rollout',
      kind: 'rollout',
      own,
    });
  expect(await of({ tokens: 1000, usd: 3 })).toEqual({ budget: { tokens: 800, usd: 2.25 } });
  expect(await of({ tokens: 1000 }, { tokens: 50, seconds: 9 })).toEqual({ budget: { tokens: 50, seconds: 9 } });
  expect(await of({ usd: 3 }, { tokens: 50 })).toEqual({ budget: { tokens: 50, usd: 2.25 } });
});

it('A gate has what is left of the budget, both sides together; where it plays nothing, the time alone; trainings have none', async () => {
  const of = async (kind: string, budget: object) =>
    stageBudget(database, await plan(budget), { run: 'nightly-1', job_id: 'nightly-1/1/gate', kind });
  expect(await of('play', { tokens: 1000, usd: 3 })).toEqual({ budget: { tokens: 800, usd: 2.25 } });
  for (const kind of ['gate', 'canary']) expect(await of(kind, { tokens: 1000, usd: 3 })).toEqual({});
  expect(await of('sft', { tokens: 1000, minutes: 1 })).toEqual({});
});

it('The minutes of a plan end its rollouts and gates too, by what is left of them', async () => {
  const request = `insert into troupe.job_queue (job_id, kind, spec, requested_at) values ($1, 'plan', '{}', clock_timestamp() - interval '90 seconds')`;
  await database.db.query(request, ['timed-1']);
  for (const kind of ['rollout', 'play', 'gate', 'canary'])
    for (const [minutes, seconds] of [
      [2, 30],
      [5, 210],
    ] as const) {
      const of = { run: 'timed-1', job_id: 'timed-1/1/gate', kind };
      const { budget } = await stageBudget(database, await plan({ minutes }), of);
      expect(budget!.seconds).toBeGreaterThan(seconds - 20);
      expect(budget!.seconds).toBeLessThanOrEqual(seconds);
    }
});

it('What a training program reported counts, the greatest number of each job; what it did not report ends the budget', async () => {
  const program = async (job: string, ended: boolean, ...reported: [name: string, step: number, value: number][]) => {
    const insert = `insert into facts.jobs (job_id, kind, started_at, finished_at) values ($1, 'program', '2026-01-01', $2)`;
    await database.db.query(insert, [job, ended ? '2026-01-02' : null]);
    for (const [name, step, value] of reported)
      await database.db.query(
        `insert into facts.job_metrics (job_id, step, name, value, version) values ($1, $2, $3, $4, '1')`,
        [job, step, name, value],
      );
  };
  const over = async (budget: object) => runOver(database, await plan(budget), 'trained-1');
  await call('trained-1/1/rollout', 0, null, { cost_usd: 0.5 });
  await program(
    'trained-1/1/train-solver',
    true,
    ['tokens', 1, 300],
    ['tokens', 2, 900],
    ['loss', 2, 1.5],
    ['usd', 1, 2],
  );
  expect(await over({ tokens: 1001, usd: 2.6 })).toBeNull();
  expect(await over({ tokens: 1000 })).toBe('The budget of 1000 tokens was used up: 1000 recorded.');
  expect(await over({ usd: 2.5 })).toBe('The budget of 2.5 USD was used up: 2.5 recorded.');
  await program('trained-1/2/train-solver', false);
  await program('trained-1/3/train-solver', true, ['tokens', 1, 0.5], ['usd', 1, 0]);
  const next = { run: 'trained-1', job_id: 'trained-1/3/rollout', kind: 'rollout' };
  expect(await stageBudget(database, await plan({ tokens: 1100 }), next)).toEqual({ budget: { tokens: 99 } });
  expect(await over({ tokens: 1001, usd: 2.6 })).toBeNull();
  await program('trained-1/1/train-judge', true, ['usd', 1, 0]);
  expect(await over({ usd: 2.6 })).toBeNull();
  expect(await over({ tokens: 5000 })).toBe(
    'The budget of 5000 tokens cannot be held: 1 training by a program that did not write `tokens` to TROUPE_METRICS.',
  );
  expect(await spentBelow(database.db, 'trained-1')).toMatchObject({ tokens: 1000.5, untold: { tokens: 1, usd: 0 } });
});

it('A budget of money ends where a call of a hosted model has no price: unknown is not 0', async () => {
  await call('nightly-2/1/rollout', 0, 'solver', null);
  expect(await runOver(database, await plan({ usd: 100 }), 'nightly-2')).toBeNull();
  await call('nightly-2/1/rollout', 1, null, null);
  expect(await runOver(database, await plan({ usd: 100 }), 'nightly-2')).toContain(
    'cannot be held: 1 call without a price',
  );
  expect(await runOver(database, await plan({ tokens: 1000 }), 'nightly-2')).toBeNull();
});

it('An answer that a replay gave is no call without a count or a price', async () => {
  await call('nightly-3/1/rollout/branch-1', 0, null, { cost_usd: 0.5 });
  await database.db.query(
    `insert into facts.calls (episode_id, call_id, completed_flags, completed_version) values ($1, 'given', '["given_answer"]', '1')`,
    [episodeId(groupId('nightly-3/1/rollout/branch-1', 'a', 0), 0, 0)],
  );
  expect(await runOver(database, await plan({ tokens: 1000, usd: 100 }), 'nightly-3')).toBeNull();
});

it('A budget names at least one limit', async () => {
  await expect(parsePlan({ ...(await plan()), budget: {} })).rejects.toThrow('budget');
});
