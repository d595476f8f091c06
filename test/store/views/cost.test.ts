/** Length, cost and size of teams. Expected numbers are worked out by hand. */
import { afterEach, beforeEach, expect, it } from 'vitest';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { attempt, record, rowsOf } from './attempts.ts';

let fresh: TestDatabase;
beforeEach(async () => {
  fresh = await freshDatabase();
});
afterEach(() => fresh.close());
const rows = (query: string) => rowsOf(fresh.db, query);

it('lengths fall into buckets that double, and what was not counted has a bucket of its own', async () => {
  const calls = (n: number, tokens?: number) =>
    Array.from({ length: n }, () => ({ by: 'a', ...(tokens === undefined ? {} : { output_tokens: tokens }) }));
  await record(
    fresh.db,
    attempt('a', { reward: 1, says: calls(4, 1) }),
    attempt('b', { reward: 0, says: calls(7) }),
    attempt('c', { reward: null, says: calls(8) }),
    attempt('d', { reward: 1 }),
  );
  expect(
    await rows(
      `select at_least, below, episodes, known, solve_rate from report.reward_by_length where measure = 'calls' order by 1`,
    ),
  ).toEqual([
    { at_least: 0, below: 1, episodes: 1, known: 1, solve_rate: 1 },
    { at_least: 4, below: 8, episodes: 2, known: 2, solve_rate: 0.5 },
    { at_least: 8, below: 16, episodes: 1, known: 0, solve_rate: null },
  ]);
  expect(
    await rows(`select at_least, episodes from report.reward_by_length where measure = 'output_tokens' order by 1`),
  ).toEqual([
    { at_least: 4, episodes: 1 },
    { at_least: null, episodes: 3 },
  ]);
});

it('a team is dominated by one that solves as much for less, and cost counts failed episodes too', async () => {
  const says = (n: number) => Array.from({ length: n }, () => ({ by: 'a', output_tokens: 10 }));
  await record(
    fresh.db,
    attempt('a1', { team: 'a', reward: 1, says: says(2) }),
    attempt('a2', { team: 'a', reward: 0, says: says(4) }),
    attempt('b1', { team: 'b', reward: 1, says: says(5) }),
    attempt('b2', { team: 'b', reward: 0, says: says(5) }),
    attempt('c1', { team: 'c', reward: 1, says: says(9) }),
    attempt('d1', { team: 'd', reward: 0, says: says(1) }),
    attempt('d2', { team: 'd', outcome: 'error', says: says(50) }),
  );
  // Tokens: 10 in and 10 out a call.
  expect(
    await rows(
      'select team_id, known, solve_rate, calls_per_solved, tokens_per_solved, dominated_on_calls, dominated_on_tokens from report.cost_per_solved order by 1',
    ),
  ).toEqual([
    {
      team_id: 'a',
      known: 2,
      solve_rate: 0.5,
      calls_per_solved: 6,
      tokens_per_solved: 120,
      dominated_on_calls: false,
      dominated_on_tokens: false,
    },
    {
      team_id: 'b',
      known: 2,
      solve_rate: 0.5,
      calls_per_solved: 10,
      tokens_per_solved: 200,
      dominated_on_calls: true,
      dominated_on_tokens: true,
    },
    {
      team_id: 'c',
      known: 1,
      solve_rate: 1,
      calls_per_solved: 9,
      tokens_per_solved: 180,
      dominated_on_calls: false,
      dominated_on_tokens: false,
    },
    {
      team_id: 'd',
      known: 1,
      solve_rate: 0,
      calls_per_solved: null,
      tokens_per_solved: null,
      dominated_on_calls: false,
      dominated_on_tokens: false,
    },
  ]);
});

it('teams and single agents are compared on the tasks that both tried', async () => {
  const one = [{ by: 'a' }];
  const two = [{ by: 'a' }, { by: 'b' }];
  await record(
    fresh.db,
    attempt('a', { task: 't1', reward: 1, says: two }),
    attempt('b', { task: 't1', reward: 1, says: two }),
    attempt('c', { task: 't1', reward: 1, says: one }),
    attempt('d', { task: 't1', reward: 0, says: one }),
    attempt('e', { task: 't2', reward: 1, says: one }),
    attempt('f', { task: 't2', reward: 1 }),
  );
  expect(
    await rows(
      'select task_id, single_rate, team_rate, difference, team_calls, unknown_size from report.team_vs_single order by 1',
    ),
  ).toEqual([
    { task_id: 't1', single_rate: 0.5, team_rate: 1, difference: 0.5, team_calls: 2, unknown_size: 0 },
    { task_id: 't2', single_rate: 1, team_rate: null, difference: null, team_calls: null, unknown_size: 1 },
  ]);
});

it('dollars are those of every call, small ones too, and unknown where a call has none', async () => {
  const says = (...costs: (number | undefined)[]) =>
    costs.map((cost_usd) => ({ by: 'a', output_tokens: 10, ...(cost_usd === undefined ? {} : { cost_usd }) }));
  await record(
    fresh.db,
    attempt('a1', { team: 'a', reward: 1, says: says(0.000002, 0.000003) }),
    attempt('a2', { team: 'a', reward: 0, says: says(0.000004) }),
    attempt('b1', { team: 'b', reward: 1, says: says(1, undefined) }),
  );
  expect(await rows('select episode_id, cost_usd from report.outcomes order by 1')).toEqual([
    { episode_id: 'a1', cost_usd: expect.closeTo(0.000005, 12) },
    { episode_id: 'a2', cost_usd: 0.000004 },
    { episode_id: 'b1', cost_usd: null },
  ]);
  expect(await rows('select team_id, cost_usd, cost_usd_per_solved from report.cost_per_solved order by 1')).toEqual([
    { team_id: 'a', cost_usd: expect.closeTo(0.000009, 12), cost_usd_per_solved: expect.closeTo(0.000009, 12) },
    { team_id: 'b', cost_usd: null, cost_usd_per_solved: null },
  ]);
  expect(await rows(`select step_id, cost_usd from traj.steps where episode_id = 'b1' order by 1`)).toEqual([
    { step_id: 'c0/0', cost_usd: 1 },
    { step_id: 'c1/0', cost_usd: null },
  ]);
});
