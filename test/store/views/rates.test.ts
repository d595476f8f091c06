/** Rates that pooling turns round: by team, split, policy and weights. Expected numbers are worked out by hand. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { event } from '../support/events.ts';
import { attempt, feedback, record, rowsOf } from './attempts.ts';

let fresh: TestDatabase;
beforeEach(async () => {
  fresh = await freshDatabase();
});
afterEach(() => fresh.close());
const rows = (query: string) => rowsOf(fresh.db, query);

/** What every view of rates carries beside its own columns. */
const CARRIED = ['team_id', 'split', 'policy', 'checkpoint_id', 'weights'];
const RATES = [
  'pass_at_k',
  'agreement',
  'role_performance',
  'pair_performance',
  'reward_alignment',
  'reward_by_length',
  'cost_per_solved',
  'reward_by_budget',
  'reward_by_depth',
  'group_signals',
  'failure_modes',
  'team_vs_single',
];

/** `solved` of `of` attempts at a task, each spoken by these weights. */
const attempts = (
  name: string,
  {
    solved,
    of,
    roles,
    checkpoint,
    ...more
  }: { solved: number; of: number; roles: readonly string[]; checkpoint: string; task?: string; team?: string },
) =>
  Array.from({ length: of }, (_, i) =>
    attempt(`${name}-${i}`, {
      ...more,
      reward: i < solved ? 1 : 0,
      says: roles.map((role) => ({ by: role, role, checkpoint, policy: 'p' })),
    }),
  );

/** Early, weak weights play mostly with the verifier, late and strong ones mostly without; with each of them the verifier helps. */
const paradox = () => [
  ...attempts('early-with', { solved: 4, of: 8, roles: ['coder', 'verifier'], checkpoint: 'early' }),
  ...attempts('early-without', { solved: 0, of: 2, roles: ['coder'], checkpoint: 'early' }),
  ...attempts('late-with', { solved: 2, of: 2, roles: ['coder', 'verifier'], checkpoint: 'late' }),
  ...attempts('late-without', { solved: 7, of: 8, roles: ['coder'], checkpoint: 'late' }),
];

it('every view of rates carries team, split, policy, checkpoint and weights, and says what a row pools', async () => {
  const found = await rows(
    `select c.relname as view, obj_description(c.oid) as comment, array_agg(a.attname::text) as columns
     from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 where c.relnamespace = 'traj'::regnamespace group by c.oid, c.relname`,
  );
  const views = new Map(found.map((row) => [row.view as string, row]));
  for (const view of RATES) {
    expect(views.get(view)?.columns, view).toEqual(expect.arrayContaining(CARRIED));
    expect(views.get(view)?.comment, view).toMatch(/Pools: ./);
  }
});

describe('a role', () => {
  it('that helps each of two weights is seen to help, though over both together it seems to hurt', async () => {
    await record(fresh.db, ...paradox());
    // Pooled: 6 of 10 with the verifier, 7 of 10 without.
    const [pooled] = await rows(
      `select avg((reward >= 1)::integer) filter (where steps = 2)::float8 - avg((reward >= 1)::integer) filter (where steps = 1)::float8 as difference from traj.episodes`,
    );
    expect(pooled!.difference).toBeCloseTo(-0.1, 9);
    expect(
      await rows(
        `select policy, checkpoint_id, weights, solved, known, solved_without, known_without, difference from traj.role_performance where role = 'verifier' order by checkpoint_id`,
      ),
    ).toEqual([
      {
        policy: 'p',
        checkpoint_id: 'early',
        weights: 'early',
        solved: 4,
        known: 8,
        solved_without: 0,
        known_without: 2,
        difference: 0.5,
      },
      {
        policy: 'p',
        checkpoint_id: 'late',
        weights: 'late',
        solved: 2,
        known: 2,
        solved_without: 7,
        known_without: 8,
        difference: 0.125,
      },
    ]);
  });

  it('with weights of its own is compared with episodes in which the others spoke with the same weights', async () => {
    const pair = [
      { by: 'c', role: 'coder', checkpoint: 'a' },
      { by: 'v', role: 'verifier', model: 'judge-1' },
    ];
    await record(
      fresh.db,
      attempt('with', { reward: 1, says: pair }),
      attempt('same', { reward: 0, says: pair.slice(0, 1) }),
      attempt('other', { reward: 1, says: [{ by: 'c', role: 'coder', checkpoint: 'b' }] }),
    );
    expect(
      await rows(
        `select checkpoint_id, weights, known_without, difference from traj.role_performance where role = 'verifier'`,
      ),
    ).toEqual([{ checkpoint_id: 'a', weights: 'a + judge-1', known_without: 1, difference: 1 }]);
  });

  it('is not compared where the same task was tried with other weights only', async () => {
    await record(
      fresh.db,
      ...attempts('with', { solved: 1, of: 1, roles: ['coder', 'verifier'], checkpoint: 'late' }),
      ...attempts('without', { solved: 0, of: 1, roles: ['coder'], checkpoint: 'early' }),
    );
    expect(await rows(`select tasks_compared, difference from traj.role_performance where role = 'verifier'`)).toEqual([
      { tasks_compared: 0, difference: null },
    ]);
  });
});

it('a pair that helps each of two weights is seen to help, though over both together it seems to hurt', async () => {
  const members = { coder: {}, verifier: {} };
  await record(
    fresh.db,
    ...paradox(),
    ...['early', 'late'].map((checkpoint) => attempt(`named-${checkpoint}`, { members })),
  );
  await record(
    fresh.db,
    paradox()
      .flat()
      .filter((one) => one.name === 'episode.started')
      .flatMap((one) =>
        Object.keys(members).map((agent_id) =>
          event('agent.defined', {
            episode_id: (one.data as { episode_id: string }).episode_id,
            agent_id,
            name: agent_id,
          }),
        ),
      ),
  );
  expect(
    await rows(
      `select agent, other_agent, weights, episodes, difference from traj.pair_performance where by_turns > 0 order by weights`,
    ),
  ).toEqual([
    { agent: 'coder', other_agent: 'verifier', weights: 'early', episodes: 8, difference: 0.5 },
    { agent: 'coder', other_agent: 'verifier', weights: 'late', episodes: 2, difference: 0.125 },
  ]);
});

it('a team that is better than one agent with each weights is not called worse for having played with the weak ones', async () => {
  await record(fresh.db, ...paradox());
  expect(
    await rows(
      'select weights, single_weights, single_rate, team_rate, difference from traj.team_vs_single order by weights',
    ),
  ).toEqual([
    { weights: 'early', single_weights: 'early', single_rate: 0, team_rate: 0.5, difference: 0.5 },
    { weights: 'late', single_weights: 'late', single_rate: 0.875, team_rate: 1, difference: 0.125 },
  ]);
});

it('two teams and two splits are never one row of a rate, and a team is dominated only by one with its weights and split', async () => {
  const says = (n: number) => Array.from({ length: n }, () => ({ by: 'a', model: 'm' }));
  await record(
    fresh.db,
    [event('task.defined', { task_id: 't1', split: 'train' }), event('task.defined', { task_id: 't2', split: 'test' })],
    attempt('a', { task: 't1', team: 'x', reward: 1, says: says(5) }),
    attempt('b', { task: 't1', team: 'y', reward: 1, says: says(2) }),
    attempt('c', { task: 't2', team: 'x', reward: 0, says: says(5) }),
    attempt('d', { task: 't1', team: 'z', reward: 1, says: [{ by: 'a', model: 'cheap' }] }),
  );
  expect(
    await rows(
      'select team_id, split, weights, known, solved, dominated_on_calls from traj.cost_per_solved order by team_id, split',
    ),
  ).toEqual([
    { team_id: 'x', split: 'test', weights: 'm', known: 1, solved: 0, dominated_on_calls: false },
    { team_id: 'x', split: 'train', weights: 'm', known: 1, solved: 1, dominated_on_calls: true },
    { team_id: 'y', split: 'train', weights: 'm', known: 1, solved: 1, dominated_on_calls: false },
    { team_id: 'z', split: 'train', weights: 'cheap', known: 1, solved: 1, dominated_on_calls: false },
  ]);
});

it('pass@k and agreement keep the checkpoints of one task apart', async () => {
  const said = (checkpoint: string, answer: string, reward: number) => ({
    reward,
    answer,
    says: [{ by: 'a', checkpoint }],
  });
  await record(
    fresh.db,
    attempt('a', said('early', '1', 0)),
    attempt('b', said('early', '1', 0)),
    attempt('c', said('late', '2', 1)),
  );
  expect(await rows('select checkpoint_id, k, n, pass_at_k from traj.pass_at_k where k = 1 order by 1')).toEqual([
    { checkpoint_id: 'early', k: 1, n: 2, pass_at_k: 0 },
    { checkpoint_id: 'late', k: 1, n: 1, pass_at_k: 1 },
  ]);
  expect(await rows('select checkpoint_id, majority, agreement from traj.agreement order by 1')).toEqual([
    { checkpoint_id: 'early', majority: '1', agreement: 1 },
    { checkpoint_id: 'late', majority: '2', agreement: 1 },
  ]);
});

describe('a group', () => {
  it('of candidates has a signal of its own where its episodes have none', async () => {
    const score = (step: string, value: number) =>
      feedback('a', { kind: 'step', id: step }, { kind: 'reward', name: 'passes', value });
    await record(
      fresh.db,
      attempt('a', {
        group: 'g',
        reward: 1,
        says: [
          { by: 'coder', candidates: 3 },
          { by: 'tester', candidates: 2 },
        ],
      }),
      [score('c0/0', 1), score('c0/1', 0), score('c1/0', 0), score('c1/1', 0)],
    );
    expect(
      await rows(
        'select kind, agent, name, episodes, members, rewarded, solved, signal, reason from traj.group_signals order by kind desc, agent',
      ),
    ).toEqual([
      {
        kind: 'episodes',
        agent: null,
        name: null,
        episodes: 1,
        members: 1,
        rewarded: 1,
        solved: 1,
        signal: false,
        reason: 'group_of_one',
      },
      {
        kind: 'candidates',
        agent: 'coder',
        name: 'passes',
        episodes: 1,
        members: 2,
        rewarded: 2,
        solved: 1,
        signal: true,
        reason: null,
      },
      {
        kind: 'candidates',
        agent: 'tester',
        name: 'passes',
        episodes: 1,
        members: 2,
        rewarded: 2,
        solved: 0,
        signal: false,
        reason: 'zero_variance',
      },
    ]);
  });

  it('says where several weights or teams played it, and names neither then', async () => {
    const by = (checkpoint: string) => ({ reward: 1, team: 'm', says: [{ by: 'a', checkpoint }] });
    await record(
      fresh.db,
      attempt('a', { group: 'one', ...by('early') }),
      attempt('b', { group: 'one', ...by('early') }),
      attempt('c', { group: 'two', ...by('early') }),
      attempt('d', { group: 'two', ...by('late') }),
    );
    expect(await rows('select group_id, team_id, checkpoint_id, mixed from traj.group_signals order by 1')).toEqual([
      { group_id: 'one', team_id: 'm', checkpoint_id: 'early', mixed: false },
      { group_id: 'two', team_id: 'm', checkpoint_id: null, mixed: true },
    ]);
  });
});
