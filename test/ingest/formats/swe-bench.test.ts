import { describe, expect, it } from 'vitest';
import { known, read } from './support/convert.ts';

const INSTANCE = {
  repo: 'o/r',
  instance_id: 'o__r-1',
  base_commit: 'abc',
  patch: 'diff',
  test_patch: 'diff t',
  problem_statement: 'Fix it.',
  hints_text: 'h',
  version: '1',
  FAIL_TO_PASS: '["t::a"]',
  PASS_TO_PASS: ['t::b'],
};
const guess = (model: string, patch: unknown = 'diff --git') => ({
  instance_id: 'o__r-1',
  model_name_or_path: model,
  model_patch: patch,
});
const REPORT = {
  'o__r-1': {
    patch_exists: true,
    resolved: true,
    tests_status: {
      FAIL_TO_PASS: { success: ['t::a'], failure: [] },
      PASS_TO_PASS: { success: [], failure: ['t::b'] },
    },
  },
};

describe('SWE-bench', () => {
  it('states a task, its lists of tests in a text or as they are', () => {
    expect(known(INSTANCE)).toBe('swe-bench');
    const [task] = read('swe-bench', [[INSTANCE]]).of('task.defined');
    expect(task).toMatchObject({
      task_id: 'o__r-1',
      reference: 'diff',
      tests: { fail_to_pass: ['t::a'], pass_to_pass: ['t::b'], test_patch: 'diff t' },
      unmapped: { hints_text: 'h' },
    });
  });

  it('takes a prediction as an episode of a model without steps, the patch an artifact', () => {
    const { of, bodies } = read('swe-bench', [[guess('m1'), guess('m1'), guess('m1', null)]]);
    expect(of('episode.started').map(({ task_id, flags }) => [task_id, flags])).toEqual([
      ['o__r-1', []],
      ['o__r-1', ['no_patch']],
    ]);
    expect(of('agent.defined')[0]).toMatchObject({ agent_id: 'm1', model: 'm1' });
    expect(of('artifact.attached').map(({ role }) => role)).toEqual(['raw-record', 'patch', 'raw-record']);
    expect(bodies).toContain('diff --git');
    expect(of('generation.completed')).toEqual([]);
  });

  it('takes predictions by their instance too, as the same ones', () => {
    const { instance_id: id, ...rest } = guess('m1');
    expect(known({ [id]: rest })).toBe('swe-bench');
    expect(read('swe-bench', [[{ [id]: rest }]]).drafts).toEqual(read('swe-bench', [[guess('m1')]]).drafts);
  });

  it('puts a report on the one prediction of its instance, and on the task where that is not one', () => {
    expect(known(REPORT)).toBe('swe-bench');
    const one = read('swe-bench', [[guess('m1')], [REPORT]]);
    const [verdict] = one.of('feedback.recorded');
    expect(verdict).toMatchObject({
      kind: 'execution',
      name: 'resolved',
      value: true,
      target: { kind: 'episode', id: one.of('episode.started')[0]!.episode_id },
      matrix: { tests: [{ name: 't::a' }, { name: 't::b' }], pass: [[1, 0]] },
    });
    for (const lists of [[[REPORT]], [[guess('m1'), guess('m2')], [REPORT]]]) {
      const [feedback] = read('swe-bench', lists).of('feedback.recorded');
      expect(feedback).toMatchObject({ target: { kind: 'task', id: 'o__r-1' }, flags: ['prediction_unknown'] });
    }
  });

  it('says the same in any order of its files', () => {
    const ids = (lists: unknown[][]) =>
      read('swe-bench', lists)
        .drafts.map(({ id }) => id)
        .sort();
    const lists = [[INSTANCE], [guess('m1')], [REPORT]];
    expect(ids(lists.toReversed())).toEqual(ids(lists));
  });

  it('refuses by record and field what has wrong keys or types', () => {
    const bad = [
      { instance: 'x', patch: 'y' },
      guess('m1', ['a']),
      { ...INSTANCE, problem_statement: null },
      { ...REPORT, other: { resolved: 'yes' } },
    ];
    const { refusals, of } = read('swe-bench', [bad]);
    expect(refusals.map(({ at, field }) => [at, field])).toEqual([
      [0, 'instance_id'],
      [1, 'model_patch'],
      [2, 'problem_statement'],
      [3, 'other.resolved'],
    ]);
    expect(of('feedback.recorded')).toHaveLength(1);
  });
});
