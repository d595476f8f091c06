/** Wrong, then right: what counts as a correction, and after whose message. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { attempt, feedback, marked, record, rowsOf } from './attempts.ts';

let fresh: TestDatabase;
beforeEach(async () => {
  fresh = await freshDatabase();
});
afterEach(() => fresh.close());
const rows = (query: string) => rowsOf(fresh.db, query);

describe('a correction', () => {
  const changes = () =>
    rows(
      'select step_id, compared_with, before_step_id, change, after_agent, after_role from report.corrections order by episode_id, step_id',
    );

  it('is the same agent wrong, then right, and names who answered in between; spoiling is the reverse', async () => {
    await record(
      fresh.db,
      attempt('e', {
        says: [{ by: 'x' }, { by: 'critic', role: 'critic' }, { by: 'x' }, { by: 'x' }, { by: 'y' }, { by: 'x' }],
      }),
      [marked('e', 'c0/0', false), marked('e', 'c2/0', true), marked('e', 'c3/0', true), marked('e', 'c5/0', false)],
    );
    expect(await changes()).toEqual([
      {
        step_id: 'c2/0',
        compared_with: 'own',
        before_step_id: 'c0/0',
        change: 'corrected',
        after_agent: 'critic',
        after_role: 'critic',
      },
      {
        step_id: 'c3/0',
        compared_with: 'own',
        before_step_id: 'c2/0',
        change: 'stayed right',
        after_agent: null,
        after_role: null,
      },
      {
        step_id: 'c5/0',
        compared_with: 'own',
        before_step_id: 'c3/0',
        change: 'spoiled',
        after_agent: 'y',
        after_role: 'y',
      },
    ]);
  });

  it('goes by the step that is recorded as revised, else by the last answer of the team; unjudged and other candidates are passed over', async () => {
    await record(
      fresh.db,
      attempt('e', { says: [{ by: 'x' }, { by: 'y', candidates: 2 }, { by: 'z' }, { by: 'z', revises: 'c0/0' }] }),
      [
        marked('e', 'c0/0', false),
        marked('e', 'c1/0', true),
        marked('e', 'c1/1', false),
        feedback('e', { kind: 'step', id: 'c2/0' }, { kind: 'label', name: 'correct', label: 'no idea' }),
        marked('e', 'c3/0', false),
      ],
    );
    expect(await changes()).toEqual([
      {
        step_id: 'c1/0',
        compared_with: 'team',
        before_step_id: 'c0/0',
        change: 'corrected',
        after_agent: 'x',
        after_role: 'x',
      },
      {
        step_id: 'c3/0',
        compared_with: 'revision',
        before_step_id: 'c0/0',
        change: 'stayed wrong',
        after_agent: 'y',
        after_role: 'y',
      },
    ]);
  });

  it('takes the last word on a step, and never compares two measures', async () => {
    await record(fresh.db, attempt('e', { says: [{ by: 'x' }, { by: 'x' }] }), [
      marked('e', 'c0/0', true),
      marked('e', 'c0/0', false),
      feedback('e', { kind: 'step', id: 'c1/0' }, { kind: 'reward', name: 'other', value: 1 }),
      feedback('e', { kind: 'step', id: 'c1/0' }, { kind: 'label', name: 'correct', label: 'Right' }),
    ]);
    const found = await rows('select basis, name, was_right, is_right from report.corrections');
    expect(found).toEqual([{ basis: 'feedback', name: 'correct', was_right: false, is_right: true }]);
  });
});

it('programs of an execution matrix are right when they pass every ground-truth test, and one that was not run is unknown', async () => {
  const matrix = (pass: (0 | 1 | null)[][]) => ({
    programs: [{ step_id: 'c0/0' }, { step_id: 'c1/0' }, { step_id: 'c2/0' }],
    tests: [{ name: 'hidden', ground_truth: true }, { name: 'other', ground_truth: true }, { name: 'guess' }],
    pass,
  });
  await record(fresh.db, attempt('e', { says: [{ by: 'x' }, { by: 'x' }, { by: 'x' }] }), [
    feedback(
      'e',
      { kind: 'episode' },
      {
        kind: 'execution',
        name: 'tests',
        // The first fails one, the second was not run on one, the third fails a test that is no truth.
        matrix: matrix([
          [1, 0, 1],
          [1, null, 1],
          [1, 1, 0],
        ]),
      },
    ),
  ]);
  expect(await rows('select basis, name, before_step_id, step_id, change from report.corrections')).toEqual([
    { basis: 'execution', name: 'tests', before_step_id: 'c0/0', step_id: 'c2/0', change: 'corrected' },
  ]);
});

it.each(['report.corrections', 'traj.executions', 'report.execution_authors', 'traj.redactions'])(
  '%s of one episode read the rows of that episode alone',
  async (view) => {
    const plan = await fresh.db.transaction(async (tx) => {
      await tx.query('set local enable_seqscan = off');
      return (await tx.query<{ 'QUERY PLAN': string }>(`explain select * from ${view} where episode_id = 'e'`)).rows;
    });
    const whole = plan.filter((line) =>
      /Seq Scan on (calls|steps|feedback|verdicts|episodes|agents|stored_events)/.test(line['QUERY PLAN']),
    );
    expect(whole).toEqual([]);
  },
);
