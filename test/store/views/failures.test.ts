/** Failures by mode, and blame beside what was noted. Expected numbers are worked out by hand. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MAST_CATEGORIES, MAST_MODES, type MastCode, mastCategory } from '../../../store/evaluate/methods/mast.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { attempt, feedback, record, rowsOf } from './attempts.ts';

let fresh: TestDatabase;
beforeEach(async () => {
  fresh = await freshDatabase();
});
afterEach(() => fresh.close());
const rows = (query: string) => rowsOf(fresh.db, query);

describe('failures', () => {
  it('are counted by mode and role; a mode that is labelled absent is none', async () => {
    const taxonomy = { name: 'MAST', version: '2' };
    await record(
      fresh.db,
      ...['a', 'b', 'c'].map((id) => attempt(id, { reward: id === 'c' ? 1 : 0, members: { x: { role: 'coder' } } })),
      [
        feedback('a', { kind: 'agent', id: 'x' }, { kind: 'failure', name: 'FM-1.3', taxonomy, by: 'human' }),
        feedback('a', { kind: 'agent', id: 'x' }, { kind: 'failure', name: 'FM-1.3', taxonomy, by: 'model' }),
        feedback('b', { kind: 'episode' }, { kind: 'label', name: '3.2', value: true, taxonomy }),
        feedback('c', { kind: 'agent', id: 'x' }, { kind: 'failure', name: 'FM-1.3', taxonomy }),
        feedback('c', { kind: 'episode' }, { kind: 'label', name: '2.1', value: false, taxonomy }),
        feedback('c', { kind: 'episode' }, { kind: 'failure', name: '1.3', label: 'odd', taxonomy: { name: 'ours' } }),
      ],
    );
    expect(
      await rows(
        'select taxonomy, taxonomy_version, mode, title, role, failures, episodes, share_of_episodes, in_solved from report.failure_modes order by taxonomy, mode',
      ),
    ).toEqual([
      {
        taxonomy: 'MAST',
        taxonomy_version: '2',
        mode: '1.3',
        title: 'Step repetition',
        role: 'coder',
        failures: 3,
        episodes: 2,
        share_of_episodes: 2 / 3,
        in_solved: 1,
      },
      {
        taxonomy: 'MAST',
        taxonomy_version: '2',
        mode: '3.2',
        title: 'No or incomplete verification',
        role: null,
        failures: 1,
        episodes: 1,
        share_of_episodes: 1 / 3,
        in_solved: 0,
      },
      {
        taxonomy: 'ours',
        taxonomy_version: null,
        mode: 'odd',
        title: null,
        role: null,
        failures: 1,
        episodes: 1,
        share_of_episodes: 1,
        in_solved: 1,
      },
    ]);
  });

  it('every code of the taxonomy has the title and category that the methods know', async () => {
    const codes = Object.keys(MAST_MODES) as MastCode[];
    await record(
      fresh.db,
      codes.map((code) => feedback('e', { kind: 'episode' }, { kind: 'failure', name: `FM-${code}` })),
    );
    const found = await rows('select mode, title, category_code, category from report.failures order by mode');
    expect(found).toEqual(
      codes.map((code) => ({
        mode: code,
        title: MAST_MODES[code],
        category_code: mastCategory(code),
        category: MAST_CATEGORIES[mastCategory(code)],
      })),
    );
  });
});

it('a failure on a call whose source orders by its clock has no entry, and blame on its step is checked by the step', async () => {
  const seq = 1_789_003_002_000_000;
  const says = [
    { by: 'x', seq },
    { by: 'y', seq: seq + 1000 },
  ];
  await record(fresh.db, attempt('clock', { outcome: 'failure', says }), [
    feedback('clock', { kind: 'step', id: 'c1/0' }, { kind: 'failure', name: 'mistake', by: 'human' }),
  ]);
  await fresh.db.query(`insert into facts.judged_methods values ('k', 'k', 1, 'blame', '{}')`);
  await fresh.db.query(
    `insert into facts.blames (episode_id, method_key, rank, agent_id, step_id) values ('clock', 'k', 0, 'y', 'c1/0')`,
  );
  expect(
    await rows(
      `select gold_step_id, gold_entry, blamed_entry, step_right, entries_off from report.blame_check where episode_id = 'clock'`,
    ),
  ).toEqual([{ gold_step_id: 'c1/0', gold_entry: null, blamed_entry: null, step_right: true, entries_off: null }]);
});

it('blame is checked against what was noted: agent, step, distance; no answer is neither right nor wrong', async () => {
  await record(
    fresh.db,
    ...['a', 'b', 'c'].map((id) => attempt(id, { outcome: 'failure', says: [{ by: 'x' }, { by: 'y' }, { by: 'x' }] })),
    ['a', 'b', 'c'].map((id) =>
      feedback(id, { kind: 'agent', id: 'y', entry: 1 }, { kind: 'failure', name: 'mistake', by: 'human' }),
    ),
  );
  await fresh.db.query(`insert into facts.judged_methods values ('m', 'm', 1, 'blame', '{}')`);
  await fresh.db.query(
    `insert into facts.blames (episode_id, method_key, rank, agent_id, step_id, entry, reason)
     values ('a', 'm', 0, 'y', 'c1/0', null, null), ('a', 'm', 1, 'x', null, 3, null), ('b', 'm', 0, null, null, null, 'undecided')`,
  );
  expect(
    await rows(
      'select episode_id, method, rank, blamed_agent, gold_entry, agent_right, step_right, entries_off, reason from report.blame_check order by episode_id, rank',
    ),
  ).toEqual([
    {
      episode_id: 'a',
      method: 'm',
      rank: 0,
      blamed_agent: 'y',
      gold_entry: 1,
      agent_right: true,
      step_right: true,
      entries_off: 0,
      reason: null,
    },
    {
      episode_id: 'a',
      method: 'm',
      rank: 1,
      blamed_agent: 'x',
      gold_entry: 1,
      agent_right: false,
      step_right: false,
      entries_off: 2,
      reason: null,
    },
    {
      episode_id: 'b',
      method: 'm',
      rank: 0,
      blamed_agent: null,
      gold_entry: 1,
      agent_right: null,
      step_right: null,
      entries_off: null,
      reason: 'undecided',
    },
    {
      episode_id: 'c',
      method: null,
      rank: null,
      blamed_agent: null,
      gold_entry: 1,
      agent_right: null,
      step_right: null,
      entries_off: null,
      reason: null,
    },
  ]);
});
