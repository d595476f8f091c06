/** Estimators side by side and execution matrices. Expected numbers are worked out by hand. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { judge } from '../../../store/evaluate/judging/judge.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { anExecution } from '../support/events.ts';
import { attempt, feedback, record, rowsOf } from './attempts.ts';

let fresh: TestDatabase;
beforeEach(async () => {
  fresh = await freshDatabase();
});
afterEach(() => fresh.close());
const rows = (query: string) => rowsOf(fresh.db, query);
const judged = (methods: Parameters<typeof judge>[2]['methods'], episodes: readonly string[]) =>
  judge(fresh.db, postgresLog(fresh.db), { methods, episodes, now: () => new Date(Date.UTC(2026, 9, 1)) });

describe('estimators side by side', () => {
  const METHODS = [{ method: 'grpo_advantage' }, { method: 'grpo_advantage', params: { scale_std: false } }];

  it('scaled and unscaled GRPO agree in sign and order, and differ in size', async () => {
    await record(fresh.db, ...[1, 0, 0].map((reward, i) => attempt(`e${i}`, { reward, says: [{ by: 'x' }] })));
    await judged(METHODS, ['e0', 'e1', 'e2']);
    // Rewards 1 0 0: unscaled 2/3 -1/3 -1/3, mean size 4/9; divided by their deviation, the root of 1/3: mean size 4/9 times the root of 3.
    const [pair] = await rows(
      `select group_id, steps, same_sign, opposite_sign, zero_in_one, correlation, least(size, other_size) as smaller, greatest(size, other_size) as larger from report.credit_pairs`,
    );
    expect(pair).toEqual({
      group_id: 'task-1',
      steps: 3,
      same_sign: 3,
      opposite_sign: 0,
      zero_in_one: 0,
      correlation: expect.closeTo(1, 9),
      smaller: expect.closeTo(4 / 9, 9),
      larger: expect.closeTo((4 / 9) * Math.sqrt(3), 4),
    });
    expect(
      await rows(
        'select episode_id, methods, silent, positive, negative, signs_differ, spread from report.credit_spread order by 1',
      ),
    ).toEqual([
      {
        episode_id: 'e0',
        methods: 2,
        silent: 0,
        positive: 2,
        negative: 0,
        signs_differ: false,
        spread: expect.closeTo(0, 5),
      },
      {
        episode_id: 'e1',
        methods: 2,
        silent: 0,
        positive: 0,
        negative: 2,
        signs_differ: false,
        spread: expect.closeTo(0, 5),
      },
      {
        episode_id: 'e2',
        methods: 2,
        silent: 0,
        positive: 0,
        negative: 2,
        signs_differ: false,
        spread: expect.closeTo(0, 5),
      },
    ]);
    // Two equal credits share the places 1 and 2.
    expect(await rows('select distinct episode_id, place from report.credit_ranks order by 1')).toEqual([
      { episode_id: 'e0', place: 3 },
      { episode_id: 'e1', place: 1.5 },
      { episode_id: 'e2', place: 1.5 },
    ]);
  });

  it('opposite signs differ from a zero, and a missing number from both', async () => {
    await record(fresh.db, attempt('e', { says: [{ by: 'x' }, { by: 'x' }, { by: 'x' }] }));
    await fresh.db.query(
      `insert into facts.judged_methods values ('a', 'a', 1, 'credit', '{}'), ('b', 'b', 1, 'credit', '{}')`,
    );
    await fresh.db.query(
      `insert into facts.credits (episode_id, step_id, method_key, value) values ('e', 'c0/0', 'a', 1), ('e', 'c0/0', 'b', -2), ('e', 'c1/0', 'a', 1), ('e', 'c1/0', 'b', 0), ('e', 'c2/0', 'a', 1), ('e', 'c2/0', 'b', null)`,
    );
    // Mean sizes 1 and 1: a is 1 everywhere, b is -2 and 0.
    expect(
      await rows('select step_id, methods, silent, signs_differ, spread from report.credit_spread order by 1'),
    ).toEqual([
      { step_id: 'c0/0', methods: 2, silent: 0, signs_differ: true, spread: 3 },
      { step_id: 'c1/0', methods: 2, silent: 0, signs_differ: false, spread: 1 },
      { step_id: 'c2/0', methods: 1, silent: 1, signs_differ: false, spread: 0 },
    ]);
    expect(
      await rows('select steps, same_sign, opposite_sign, zero_in_one, correlation from report.credit_pairs'),
    ).toEqual([{ steps: 2, same_sign: 0, opposite_sign: 1, zero_in_one: 1, correlation: null }]);
  });
});

it('each cell of an execution matrix says who wrote program and test, and the verdict of a filter on both', async () => {
  await record(fresh.db, anExecution('e'));
  await judged([{ method: 'well_formed_filter' }], ['e']);
  const cells = await rows(
    `select program, test, pass, program_role, test_role, program_right, program_verdicts is not null as filtered, reference, ground_truth
     from report.execution_authors where test <> 1 order by program, test`,
  );
  const cell = (program: number, test: number, pass: boolean, right: boolean) => ({
    program,
    test,
    pass,
    program_role: program === 2 ? null : 'coder',
    test_role: test === 2 ? null : 'verifier',
    program_right: right,
    filtered: program !== 2,
    reference: program === 2,
    ground_truth: test === 2,
  });
  expect(cells).toEqual([
    cell(0, 0, true, true),
    cell(0, 2, true, true),
    cell(1, 0, false, false),
    cell(1, 2, false, false),
    cell(2, 0, true, true),
    cell(2, 2, true, true),
  ]);
});

it('a program that was not run on a ground-truth test and failed none is neither right nor wrong', async () => {
  const matrix = {
    programs: ['c0/0', 'c1/0', 'c2/0', 'c3/0'].map((step_id, i) => ({ step_id, ...(i === 3 ? { valid: false } : {}) })),
    tests: [{ name: 'hidden', ground_truth: true }, { name: 'guess' }, { name: 'other', ground_truth: true }],
    pass: [
      [1, 0, null],
      [0, 1, null],
      [1, 0, 1],
      [1, 1, 1],
    ],
  };
  await record(fresh.db, attempt('e', { says: [{ by: 'x' }, { by: 'x' }, { by: 'x' }, { by: 'x' }] }), [
    feedback('e', { kind: 'episode' }, { kind: 'execution', name: 'tests', matrix } as never),
  ]);
  expect(
    await rows(
      'select program, program_right, program_agent, array_agg(pass order by test) as passes from report.execution_authors group by 1, 2, 3 order by 1',
    ),
  ).toEqual([
    { program: 0, program_right: null, program_agent: 'x', passes: [true, false, null] },
    { program: 1, program_right: false, program_agent: 'x', passes: [false, true, null] },
    { program: 2, program_right: true, program_agent: 'x', passes: [true, false, true] },
    { program: 3, program_right: false, program_agent: 'x', passes: [true, true, true] },
  ]);
});
