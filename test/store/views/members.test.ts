/** Roles, pairs, shares, depth, budgets and rewards of members. Expected numbers are worked out by hand. */
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

/** What keeps rates apart, of episodes that say nothing of it. */
const UNTAGGED = { split: null, policy: null, checkpoint_id: null, weights: null };

it('a role is compared with the episodes of the same tasks that lack it, task by task', async () => {
  const critic = { c: { role: 'critic' } };
  await record(
    fresh.db,
    attempt('a', { task: 't1', reward: 1, members: critic }),
    attempt('b', { task: 't1', reward: 1, says: [{ by: 'x', role: 'critic' }] }),
    attempt('c', { task: 't1', reward: 0 }),
    attempt('d', { task: 't1', reward: 1 }),
    attempt('e', { task: 't2', reward: 0, members: critic }),
    attempt('f', { task: 't3', reward: 0 }),
    attempt('g', { task: 't1', members: critic }),
    attempt('h', { task: null, reward: 1, members: critic }),
  );
  // With: t1 2 of 2, t2 0 of 1, no task 1 of 1. Without, on those tasks: t1 1 of 2. Only t1 has both: 1 - 1/2.
  expect(await rows('select * from report.role_performance')).toEqual([
    {
      ...UNTAGGED,
      team_id: null,
      role: 'critic',
      episodes: 5,
      known: 4,
      solved: 3,
      solve_rate: 0.75,
      known_without: 2,
      solved_without: 1,
      solve_rate_without: 0.5,
      tasks_compared: 1,
      difference: 0.5,
      // Of the same split and weights, whatever the task: c, d and f, of which d is solved. 3/4 - 1/3.
      split_known_without: 3,
      split_solve_rate_without: expect.closeTo(1 / 3, 12),
      split_difference: expect.closeTo(5 / 12, 12),
    },
  ]);
});

describe('a pair', () => {
  it('dealt with each other by message, by hand-over or by turns, whoever began', async () => {
    await record(
      fresh.db,
      attempt('a', { reward: 1, members: { x: {}, y: {} } }),
      [
        event('message.sent', { episode_id: 'a', message_id: 'm1', from: 'y', to: ['x', 'all'], content: 'hello' }),
        event('message.sent', { episode_id: 'a', message_id: 'm2', from: 'user', to: ['x'], content: 'hello' }),
        event('control.transferred', { episode_id: 'a', from_agent: 'x', to_agent: 'y', kind: 'handoff' }),
      ],
      attempt('b', { reward: 0, says: [{ by: 'x' }, { by: 'x' }, { by: 'y' }, { by: 'z' }] }),
      attempt('c', { reward: 0, says: [{ by: 'x' }, {}, { by: 'z' }] }),
    );
    const found = await rows(
      'select agent, other_agent, episodes, by_message, by_handover, by_turns, solve_rate, solve_rate_without, difference from report.pair_performance order by 1, 2',
    );
    expect(found).toEqual([
      {
        agent: 'x',
        other_agent: 'y',
        episodes: 2,
        by_message: 1,
        by_handover: 1,
        by_turns: 1,
        solve_rate: 0.5,
        solve_rate_without: 0,
        difference: 0.5,
      },
      {
        agent: 'y',
        other_agent: 'z',
        episodes: 1,
        by_message: 0,
        by_handover: 0,
        by_turns: 1,
        solve_rate: 0,
        solve_rate_without: 0.5,
        difference: -0.5,
      },
    ]);
  });
});

it('shares are of all that was done in the episode, and a member without a call has none', async () => {
  await record(
    fresh.db,
    attempt('a', {
      members: { x: { role: 'solver' }, y: {}, z: {} },
      says: [
        { by: 'x', output_tokens: 6, candidates: 2 },
        { by: 'x', output_tokens: 6 },
        { by: 'y', output_tokens: 4 },
      ],
    }),
    [
      event('tool.called', { episode_id: 'a', tool_call_id: 't1', call_id: 'c2', name: 'calc' }),
      event('tool.called', { episode_id: 'a', tool_call_id: 't2', agent_id: 'x', name: 'calc' }),
    ],
    attempt('b', { says: [{ by: 'x', output_tokens: 5 }, {}] }),
  );
  const found = await rows(
    'select agent, role, members, calls, steps, tool_calls, share_of_steps, share_of_tool_calls, share_of_tokens, of_fair_share, influence from report.agent_shares order by episode_id, agent',
  );
  const none = { role: null, influence: null };
  expect(found).toEqual([
    {
      ...none,
      agent: 'x',
      role: 'solver',
      members: 3,
      calls: 2,
      steps: 3,
      tool_calls: 1,
      share_of_steps: 0.75,
      share_of_tool_calls: 0.5,
      share_of_tokens: 0.75,
      of_fair_share: 2.25,
    },
    {
      ...none,
      agent: 'y',
      role: 'y',
      members: 3,
      calls: 1,
      steps: 1,
      tool_calls: 1,
      share_of_steps: 0.25,
      share_of_tool_calls: 0.5,
      share_of_tokens: 0.25,
      of_fair_share: 0.75,
    },
    {
      ...none,
      agent: 'z',
      role: 'z',
      members: 3,
      calls: 0,
      steps: 0,
      tool_calls: 0,
      share_of_steps: 0,
      share_of_tool_calls: 0,
      share_of_tokens: 0,
      of_fair_share: 0,
    },
    {
      ...none,
      agent: 'x',
      role: 'x',
      members: 1,
      calls: 1,
      steps: 1,
      tool_calls: 0,
      share_of_steps: 0.5,
      share_of_tool_calls: null,
      share_of_tokens: null,
      of_fair_share: 0.5,
    },
    {
      ...none,
      agent: null,
      members: 1,
      calls: 1,
      steps: 1,
      tool_calls: 0,
      share_of_steps: 0.5,
      share_of_tool_calls: null,
      share_of_tokens: null,
      of_fair_share: 0.5,
    },
  ]);
});

it('depth and budgets group episodes; an episode that names none is not one of depth or budget 0', async () => {
  await record(
    fresh.db,
    attempt('a', { reward: 1, budgets: { tool_calls: 1, turns: 9 }, members: { x: { depth: 0 }, y: { depth: 2 } } }),
    [event('tool.called', { episode_id: 'a', tool_call_id: 't1', name: 'calc' })],
    attempt('b', { reward: 0, budgets: { tool_calls: 1 } }),
    attempt('c', { members: { x: {} } }),
  );
  expect(await rows('select depth, episodes, known, solve_rate from report.reward_by_depth order by 1')).toEqual([
    { depth: 2, episodes: 1, known: 1, solve_rate: 1 },
    { depth: null, episodes: 2, known: 1, solve_rate: 0 },
  ]);
  expect(
    await rows(
      'select budget, amount, episodes, solve_rate, mean_tool_calls, used_up from report.reward_by_budget order by 1',
    ),
  ).toEqual([
    { budget: 'tool_calls', amount: '1', episodes: 2, solve_rate: 0.5, mean_tool_calls: 0.5, used_up: 1 },
    { budget: 'turns', amount: '9', episodes: 1, solve_rate: 1, mean_tool_calls: 1, used_up: null },
  ]);
});

describe('local rewards', () => {
  it('stand beside the reward of the team, and one that is missing stays missing', async () => {
    const local = (episode: string, value: number | null) =>
      feedback(episode, { kind: 'step', id: 'c0/0' }, { kind: 'reward', name: 'tidy', value });
    await record(
      fresh.db,
      ...[1, 0, 1, 0].map((reward, i) => attempt(`e${i}`, { reward, says: [{ by: 'x', role: 'coder' }] })),
      // Praise goes against the team's reward: 2 and 3 in the episodes it lost, 0 and 1 in those it won.
      [local('e0', 0), local('e1', 2), local('e2', 1), local('e3', 3)],
      attempt('e4', { says: [{ by: 'x', role: 'coder' }] }),
      [local('e4', null), feedback('e4', { kind: 'agent', id: 'x' }, { kind: 'reward', name: 'polite', value: 0.5 })],
    );
    expect(
      await rows(
        `select agent, role, step_id, local_reward, team_reward from report.local_rewards where episode_id = 'e4' order by step_id`,
      ),
    ).toEqual([
      { agent: 'x', role: 'coder', step_id: 'c0/0', local_reward: null, team_reward: null },
      { agent: 'x', role: 'x', step_id: null, local_reward: 0.5, team_reward: null },
    ]);
    // Means 1.5 and 0.5; deviations (-1.5, .5)(.5, -.5)(-.5, .5)(1.5, -.5): -2 over the root of 5 times 1.
    expect(await rows(`select * from report.reward_alignment where name = 'tidy'`)).toEqual([
      {
        ...UNTAGGED,
        team_id: null,
        origin: 'recorded',
        name: 'tidy',
        method_key: null,
        role: 'coder',
        targets: 5,
        known: 4,
        mean_when_solved: 0.5,
        mean_when_not: 2.5,
        correlation: expect.closeTo(-2 / Math.sqrt(5), 12),
        praised_in_failure: 2,
        unpraised_in_success: 1,
      },
    ]);
  });

  it('have no correlation where all are equal', async () => {
    await record(
      fresh.db,
      ...[1, 0].flatMap((reward, i) => [
        attempt(`e${i}`, { reward }),
        [feedback(`e${i}`, { kind: 'agent', id: 'x' }, { kind: 'reward', name: 'polite', value: 1 })],
      ]),
    );
    expect(await rows('select known, correlation from report.reward_alignment')).toEqual([
      { known: 2, correlation: null },
    ]);
  });
});
