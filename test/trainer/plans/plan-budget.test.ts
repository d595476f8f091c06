import { afterAll, beforeAll, expect, it } from 'vitest';
import { episodeId, groupId } from '../../../store/rollouts/ids.ts';
import { parsePlan } from '../../../trainer/plans/plan.ts';
import { rolloutBudget, runOver } from '../../../trainer/plans/plan-budget.ts';
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
  const over = (budget?: object) => runOver(database, plan(budget), 'nightly-1');
  expect(await over()).toBeNull();
  expect(await over({ tokens: 301, usd: 1.1 })).toBeNull();
  expect(await over({ tokens: 300 })).toBe('The budget of 300 tokens was used up: 300 recorded.');
  expect(await over({ tokens: 301, usd: 1 })).toBe('The budget of 1 USD was used up: 1 recorded.');
});

it('A rollout may use what is left of the budget of its plan, beside what it used itself, and never more than its own', async () => {
  const of = (budget: object, own?: object) =>
    rolloutBudget(database, plan(budget), { run: 'nightly-1', rollout: 'nightly-1/2/rollout', own });
  expect(await of({ tokens: 1000, usd: 3 })).toEqual({ budget: { tokens: 800, usd: 2.25 } });
  expect(await of({ tokens: 1000 }, { tokens: 50, seconds: 9 })).toEqual({ budget: { tokens: 50, seconds: 9 } });
  expect(await of({ usd: 3 }, { tokens: 50 })).toEqual({ budget: { tokens: 50, usd: 2.25 } });
  expect(await of({ minutes: 5 }, { tokens: 50 })).toEqual({ budget: { tokens: 50 } });
  expect(await of({ minutes: 5 })).toEqual({});
});

it('A budget of money ends where a call of a hosted model has no price: unknown is not 0', async () => {
  await call('nightly-2/1/rollout', 0, 'solver', null);
  expect(await runOver(database, plan({ usd: 100 }), 'nightly-2')).toBeNull();
  await call('nightly-2/1/rollout', 1, null, null);
  expect(await runOver(database, plan({ usd: 100 }), 'nightly-2')).toContain('cannot be held: 1 call without a price');
  expect(await runOver(database, plan({ tokens: 1000 }), 'nightly-2')).toBeNull();
});

it('An answer that a replay gave is no call without a count or a price', async () => {
  await call('nightly-3/1/rollout/branch-1', 0, null, { cost_usd: 0.5 });
  await database.db.query(
    `insert into facts.calls (episode_id, call_id, completed_flags, completed_version) values ($1, 'given', '["given_answer"]', '1')`,
    [episodeId(groupId('nightly-3/1/rollout/branch-1', 'a', 0), 0, 0)],
  );
  expect(await runOver(database, plan({ tokens: 1000, usd: 100 }), 'nightly-3')).toBeNull();
});

it('A budget names at least one limit', () => {
  expect(() => parsePlan({ ...plan(), budget: {} })).toThrow('budget');
});
