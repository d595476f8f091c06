/** Solved or not, and what follows from it by task, team and group. Expected numbers are worked out by hand. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { event } from '../support/events.ts';
import { attempt, record, rowsOf, VIEWS } from './attempts.ts';

let fresh: TestDatabase;
beforeEach(async () => {
  fresh = await freshDatabase();
});
afterEach(() => fresh.close());
const rows = (query: string) => rowsOf(fresh.db, query);

it('without episodes every view is empty', async () => {
  for (const view of VIEWS) expect(await rows(`select * from report.${view}`), view).toEqual([]);
});

it('an episode of which nothing is known breaks no view and is not counted as a failure', async () => {
  await record(fresh.db, [event('episode.started', { episode_id: 'e' })]);
  for (const view of VIEWS) await rows(`select * from report.${view}`);
  expect(await rows('select solved, solved_by, group_id, members from report.outcomes')).toEqual([
    { solved: null, solved_by: null, group_id: 'e', members: null },
  ]);
  expect(
    await rows('select known, solved, solve_rate, calls_per_solved, dominated_on_calls from report.cost_per_solved'),
  ).toEqual([{ known: 0, solved: 0, solve_rate: null, calls_per_solved: null, dominated_on_calls: null }]);
});

it('a reward decides whether an episode is solved, where there is none the outcome, and an error says neither', async () => {
  await record(
    fresh.db,
    attempt('a', { reward: 1, outcome: 'failure' }),
    attempt('b', { reward: 0.5, outcome: 'success' }),
    attempt('c', { outcome: 'success' }),
    attempt('d', { outcome: 'timeout' }),
    attempt('e', { outcome: 'error' }),
    attempt('f', { outcome: null }),
  );
  const solved = await rows('select solved, solved_by from report.outcomes order by episode_id');
  expect(solved).toEqual([
    { solved: true, solved_by: 'reward' },
    { solved: false, solved_by: 'reward' },
    { solved: true, solved_by: 'outcome' },
    { solved: false, solved_by: 'outcome' },
    { solved: null, solved_by: null },
    { solved: null, solved_by: null },
  ]);
});

describe('pass@k', () => {
  it('is 1 - C(n-c,k)/C(n,k) over the known episodes of a task and team, with the unknown ones beside it', async () => {
    // n = 4, c = 2: 1 - 2/4, 1 - 1/6, 1 - 0/4, 1 - 0/1; all k: 2/4, 1/6, 0, 0.
    await record(fresh.db, ...[1, 0, 1, 0, null].map((reward, i) => attempt(`e${i}`, { team: 'm', reward })));
    const found = await rows('select k, n, c, unknown, pass_at_k, pass_all_k from report.pass_at_k order by k');
    const near = (x: number) => expect.closeTo(x, 12) as number;
    expect(found).toEqual([
      { k: 1, n: 4, c: 2, unknown: 1, pass_at_k: near(1 / 2), pass_all_k: near(1 / 2) },
      { k: 2, n: 4, c: 2, unknown: 1, pass_at_k: near(5 / 6), pass_all_k: near(1 / 6) },
      { k: 3, n: 4, c: 2, unknown: 1, pass_at_k: 1, pass_all_k: 0 },
      { k: 4, n: 4, c: 2, unknown: 1, pass_at_k: 1, pass_all_k: 0 },
    ]);
  });

  it('keeps teams apart, also one without a name, and has no chance where nothing is known', async () => {
    await record(
      fresh.db,
      attempt('a', { team: 'm', reward: 1 }),
      attempt('b', { reward: 0 }),
      attempt('c', { task: 'task-2', outcome: 'error' }),
      attempt('d', { task: null, reward: 1 }),
    );
    expect(
      await rows('select task_id, team_id, k, n, unknown, pass_at_k from report.pass_at_k order by task_id, team_id'),
    ).toEqual([
      { task_id: 'task-1', team_id: 'm', k: 1, n: 1, unknown: 0, pass_at_k: 1 },
      { task_id: 'task-1', team_id: null, k: 1, n: 1, unknown: 0, pass_at_k: 0 },
      { task_id: 'task-2', team_id: null, k: null, n: 0, unknown: 1, pass_at_k: null },
    ]);
  });

  it('stays exact where factorials overflow: one solved of 400, 200 draws', async () => {
    // C(399,200)/C(400,200) = 200/400.
    await record(fresh.db, ...Array.from({ length: 400 }, (_, i) => attempt(`e${i}`, { reward: i === 0 ? 1 : 0 })));
    expect(await rows('select pass_at_k from report.pass_at_k where k = 200')).toEqual([
      { pass_at_k: expect.closeTo(0.5, 10) },
    ]);
  });
});

describe('agreement', () => {
  it('is the share of the most frequent answer among all, and says whether it is the right one', async () => {
    await record(
      fresh.db,
      [event('task.defined', { task_id: 'task-1', ground_truth: '42' })],
      attempt('a', { answer: ' 42. ', reward: 1 }),
      attempt('b', { answer: '$42$', reward: 0 }),
      attempt('c', { answer: '7' }),
      attempt('d'),
      attempt('open', { outcome: null }),
    );
    expect(await rows('select * from report.agreement')).toEqual([
      {
        split: null,
        policy: null,
        checkpoint_id: null,
        weights: null,
        task_id: 'task-1',
        team_id: null,
        episodes: 4,
        answered: 3,
        distinct_answers: 2,
        majority: '42',
        votes: 2,
        agreement: 0.5,
        tied: false,
        majority_right: true,
        majority_solve_rate: 0.5,
        rollout: null,
      },
    ]);
  });

  it('names a tie, compares numbers as numbers, and is silent where nobody answered or no truth is known', async () => {
    await record(
      fresh.db,
      [event('task.defined', { task_id: 'task-1', ground_truth: 0.5 })],
      attempt('a', { answer: '.50' }),
      attempt('b', { answer: '3' }),
      attempt('c', { task: 'task-2', answer: 'x' }),
      attempt('d', { task: 'task-3' }),
    );
    const found = await rows(
      'select majority, agreement, tied, majority_right, majority_solve_rate from report.agreement order by task_id',
    );
    expect(found).toEqual([
      { majority: '.50', agreement: 0.5, tied: true, majority_right: true, majority_solve_rate: null },
      { majority: 'x', agreement: 1, tied: false, majority_right: null, majority_solve_rate: null },
      { majority: null, agreement: null, tied: false, majority_right: null, majority_solve_rate: null },
    ]);
  });
});

it('a group says why it has no signal: one member, equal rewards, none at all', async () => {
  await record(
    fresh.db,
    attempt('a', { group: 'mixed', reward: 1 }),
    attempt('b', { group: 'mixed', reward: 0 }),
    attempt('c', { group: 'mixed' }),
    attempt('d', { group: 'one', reward: 1 }),
    attempt('e', { group: 'one' }),
    attempt('f', { group: 'equal', reward: 0 }),
    attempt('g', { group: 'equal', reward: 0 }),
    attempt('h', { task: 'none' }),
  );
  expect(
    await rows(
      'select group_id, rewarded, missing, signal, reason, deviation from report.group_signals order by group_id',
    ),
  ).toEqual([
    { group_id: 'equal', rewarded: 2, missing: 0, signal: false, reason: 'zero_variance', deviation: 0 },
    {
      group_id: 'mixed',
      rewarded: 2,
      missing: 1,
      signal: true,
      reason: null,
      deviation: expect.closeTo(Math.SQRT1_2, 12),
    },
    { group_id: 'none', rewarded: 0, missing: 1, signal: false, reason: 'missing_reward', deviation: null },
    { group_id: 'one', rewarded: 1, missing: 1, signal: false, reason: 'group_of_one', deviation: null },
  ]);
});
