import { expect, it } from 'vitest';
import { parseFilter, showSql } from '../../../store/filter/select.ts';
import {
  branchAsked,
  completeGroupsOf,
  paramsOfGate,
  requireCompleteGroup,
  rolloutAsked,
  rolloutText,
  roundRollout,
  tasksOfRound,
  wholeRollout,
} from '../../../trainer/loop/plan/plan-rollout.ts';
import { freshDatabase } from '../../support/database.ts';

const tasks = Array.from({ length: 40 }, (_, i) => ({ task_id: `t${i}` }));
const rollout = { runner: 'team', tasks, samples: 2, per_round: 10 };

it('The tasks of a round are as many as asked, the same for the same seed, and others for another', () => {
  const drawn = [1, 1, 2].map((seed) => tasksOfRound(rollout, tasks, seed).map(({ task_id }) => task_id));
  expect(drawn[0]).toHaveLength(10);
  expect(new Set(drawn[0]).size).toBe(10);
  expect(drawn[1]).toEqual(drawn[0]);
  expect(drawn[2]).not.toEqual(drawn[0]);
  expect(tasksOfRound({}, tasks, 1)).toEqual(tasks);
});

it('Each task is drawn about as often as the others over many rounds', () => {
  const times = new Map<string, number>();
  for (let seed = 0; seed < 400; seed++)
    for (const { task_id } of tasksOfRound(rollout, tasks, seed)) times.set(task_id, (times.get(task_id) ?? 0) + 1);
  // 400 draws with a chance of a quarter: 100, give or take 8.7; five deviations.
  for (const { task_id } of tasks) expect(Math.abs((times.get(task_id) ?? 0) - 100)).toBeLessThan(44);
});

it('A rollout of a round records the checkpoints that answer, and leaves out those that nobody knows', () => {
  expect(
    rolloutAsked(
      { ...rollout, per_round: 1 },
      [{ task_id: 'a' }],
      { round: 1, seed: 7 },
      { solver: 'c-1', other: null },
    ),
  ).toEqual({
    runner: 'team',
    tasks: [{ task_id: 'a' }],
    samples: 2,
    seed: 7,
    policies: { solver: 'c-1' },
  });
});

it('A rollout of a round has the budget, the bound and the filter of the plan', () => {
  const limits = { budget: { tokens: 100 }, max_staleness: 0 };
  const where = { where: 'task.split = train' };
  expect(
    rolloutAsked({ ...rollout, ...limits, tasks: where }, [{ task_id: 'a' }], { round: 1, seed: 7 }, {}),
  ).toMatchObject({
    tasks: [{ task_id: 'a' }],
    tasks_where: 'task.split = train',
    ...limits,
  });
});

it('Settings of the team hold in all rounds; a list has one value for each, and the last one stays', () => {
  const params = { turns: [2, 4, 8], style: 'brief' };
  const turns = [1, 2, 3, 9].map((round) => rolloutAsked({ ...rollout, params }, tasks, { round, seed: 7 }, {}).params);
  expect(turns).toEqual([2, 4, 8, 8].map((turns) => ({ turns, style: 'brief' })));
});

it('A gate is played with the settings of the round, its own before those, and by another runner with its own alone', () => {
  const plan = { rollout: { ...rollout, params: { turns: [2, 4] } } };
  const gate = { kind: 'play' as const, runner: 'team', tasks, samples: 1 };
  expect([1, 2, 3].map((round) => paramsOfGate(plan, gate, round))).toEqual(
    [2, 4, 4].map((turns) => ({ params: { turns } })),
  );
  expect(paramsOfGate(plan, { ...gate, params: { turns: 1 } }, 2)).toEqual({ params: { turns: 1 } });
  expect(paramsOfGate(plan, { ...gate, runner: 'other' }, 2)).toEqual({});
  expect(paramsOfGate({}, gate, 1)).toEqual({});
});

it('The weights of an episode are known by any policy that names them, and stale by those alone that learn in the plan', async () => {
  const database = await freshDatabase();
  const call = (episode: string, policy: string | null, checkpoint: string | null) =>
    database.db.query(
      `insert into facts.calls (episode_id, call_id, policy, checkpoint_id) values ('r/1/rollout/' || $1, $2, $2, $3)`,
      [episode, policy ?? 'hosted', checkpoint],
    );
  try {
    await call('a', 'solver', 's-1');
    await call('b', 'solver', 's-0');
    await call('c', 'answerer', 'x-1');
    await call('d', null, null);
    await database.db.query(`update facts.calls set policy = null where call_id = 'hosted'`);
    const result = {
      ...{ rollout_id: 'r/1/rollout', episodes: ['a', 'b', 'c', 'd'].map((id) => `r/1/rollout/${id}`) },
      ...{ groups: { complete: 4, partial: 0 }, partial: [], tokens: null, usd: null, without_reward: 0 },
      ...{ attempts: { done: 4, failed: 0, late: 0, retried: 0 }, equal_rewards: 0, seconds: 1 },
      staleness: { behind: {}, withheld: [] },
    };
    expect(await roundRollout(database.db, result, { solver: 's-1' })).toMatchObject({ stale: 1, unknown: 1 });
    // A plan that trains a judge, which the team does not ask: its answerer is known, and nothing is off-policy.
    expect(await roundRollout(database.db, result, { judge: 'j-1' })).toMatchObject({ stale: 0, unknown: 1 });
  } finally {
    await database.close();
  }
});

const staleness = { behind: {}, withheld: [] };
const why = (samples: number) => [{ code: 'exit' as const, message: 'Exit code 4.', samples }];
const partial = [
  { group_id: 'r/1/rollout/b', task_id: 'b', done: 1, of: 2, why: why(1) },
  { group_id: 'r/1/rollout/c', task_id: 'c', done: 0, of: 2, why: why(2) },
];

it('Recipes take the episodes of the rollout that are members of its complete groups', () => {
  const text = showSql(completeGroupsOf({ rollout_id: 'r/1/rollout', partial, staleness }));
  for (const part of ['r/1/rollout', 'group_id is null', 'r/1/rollout/b', 'r/1/rollout/c'])
    expect(text).toContain(part);
  const withheld = { behind: {}, withheld: ['r/1/rollout/d/0'] };
  expect(showSql(completeGroupsOf({ rollout_id: 'r/1/rollout', partial: [], staleness: withheld }))).toContain(
    'r/1/rollout/d/0',
  );
  expect(showSql(completeGroupsOf({ rollout_id: 'r/1/rollout', partial: [], staleness }))).not.toContain('any');
});

it('A branch goes on from the steps that fit it, in complete groups of what was played before', () => {
  const played = ['r/1/rollout', 'r/1/rollout/branch-1'].map((rollout_id) => ({ rollout_id, partial, staleness }));
  const { where, ...atPlace } = branchAsked({ where: 'role = verifier', samples: 2, skip: true }, [
    played[0]!,
    played[1]!,
  ]);
  expect(atPlace).toEqual({ skip: true });
  const text = showSql(parseFilter(where));
  for (const part of ['r/1/rollout/branch-1', 'r/1/rollout/b', 'verifier']) expect(text).toContain(part);
});

it('A round without a complete group is refused with what its samples failed at', () => {
  const result = {
    rollout_id: 'r/1/rollout',
    ...{ episodes: [], groups: { complete: 0, partial: 2 }, partial },
    ...{ attempts: { done: 1, failed: 3, late: 0, retried: 0 }, tokens: null, usd: null, staleness },
    ...{ without_reward: 0, equal_rewards: 0, seconds: 1 },
  };
  expect(() => requireCompleteGroup(1, result)).toThrow(
    'Round 1 has nothing to learn from: of 2 groups of rollout r/1/rollout none is complete. 3 samples exit: Exit code 4.',
  );
  const groups = { complete: 1, partial: 2 };
  expect(() => requireCompleteGroup(1, { ...result, episodes: ['a'], groups })).not.toThrow();
  const stale = { behind: { 1: 1 }, withheld: ['a'] };
  expect(() => requireCompleteGroup(1, { ...result, groups, staleness: stale })).toThrow(
    'rollout r/1/rollout withholds all it has (1 episode)',
  );
});

it('The report of a round says what was left out, what is stale and what is unknown', () => {
  const report = { rollout_id: 'r/1/rollout', episodes: 8, groups: { complete: 4, partial: 1 }, left_out: why(1) };
  expect(rolloutText({ ...report, stale: 2, unknown: 3 })).toBe(
    'Rollout r/1/rollout: 4 groups complete; 1 partial and left out (1 sample exit: Exit code 4.); stale: 2 of 8 episodes; unknown which weights answered: 3 of 8.',
  );
});

it('The iterations of a round are added up, and what is withheld in any of them is counted', () => {
  const part = {
    rollout_id: 'r/1/rollout',
    episodes: 4,
    groups: { complete: 2, partial: 1 },
    left_out: why(1),
    stale: 1,
    unknown: 2,
  };
  expect(wholeRollout([part, { ...part, withheld: 3 }])).toMatchObject({
    episodes: 8,
    groups: { complete: 4, partial: 2 },
    left_out: why(2),
    withheld: 3,
    stale: 2,
    unknown: 4,
  });
});
