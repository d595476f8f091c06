import { describe, expect, it } from 'vitest';
import { known, read } from './support/convert.ts';

const TASK = {
  package_name: 'demo',
  PRD: 'Write f.',
  test_file: 'tests/t.py',
  file_code: {},
  GT_file_code: { 'x.py': 'def f(): 1' },
};
const RESULT = {
  query: 'Write f.',
  file_code: {},
  generated_output: { 'x.py': 'def f(): 2', 'b.txt': 'b' },
  token_stats: { m1: { num_llm_calls: 2 } },
};
const COUNTS = { passed: 3, failed: 1, warnings: 4, errors: 0, total_tests: 8, output: '…' };

describe('SWE-Dev', () => {
  it('states a task that its results meet in the text', () => {
    expect([known(TASK), known(RESULT), known(COUNTS)]).toEqual(['swe-dev', 'swe-dev', 'swe-dev']);
    const [task] = read('swe-dev', TASK).of('task.defined');
    expect(task).toMatchObject({
      query: 'Write f.',
      reference: { 'x.py': 'def f(): 1' },
      tests: 'tests/t.py',
      unmapped: { package_name: 'demo' },
    });
    expect(read('swe-dev', RESULT).of('episode.started')[0]!.task_id).toBe(task!.task_id);
    expect(read('swe-dev', RESULT).of('task.defined')).toEqual([]);
  });

  it('keeps each file that was written as an artifact of the episode', () => {
    const { of, bodies } = read('swe-dev', RESULT);
    expect(
      of('artifact.attached')
        .slice(1)
        .map(({ role, name }) => [role, name]),
    ).toEqual([
      ['code', 'x.py'],
      ['code', 'b.txt'],
    ]);
    expect(bodies).toEqual(['def f(): 2', 'b']);
    expect(of('agent.defined')).toMatchObject([{ agent_id: 'm1' }]);
    expect(of('episode.finished')).toMatchObject([
      { outcome: 'unknown', totals: { token_stats: { m1: { num_llm_calls: 2 } } } },
    ]);
  });

  it('takes an error as an episode with outcome error', () => {
    const { of } = read('swe-dev', { query: 'Write f.', error: 'boom', token_stats: {} });
    expect([of('episode.finished')[0]!.outcome, of('environment.observed')[0]!.content]).toEqual(['error', 'boom']);
  });

  it('counts passed tests among those that ran, not among warnings', () => {
    expect(read('swe-dev', COUNTS).of('feedback.recorded')).toMatchObject([
      { name: 'pass_rate', value: 0.75, target: { kind: 'foreign' }, unmapped: COUNTS },
    ]);
    const [none] = read('swe-dev', { ...COUNTS, passed: 0, failed: 0 }).of('feedback.recorded');
    expect(none).toMatchObject({ value: null, flags: ['no_tests_ran'] });
  });

  it('is refused by the field that is wrong', () => {
    expect(read('swe-dev', { query: '', generated_output: [] }).refused).toEqual(['bad_type query']);
    expect(read('swe-dev', { query: 'q', generated_output: [] }).refused).toEqual(['bad_type generated_output']);
    expect(read('swe-dev', { query: 'q', file_code: {} }).refused).toEqual(['bad_shape generated_output']);
    expect(read('swe-dev', { PRD: 3 }).refused).toEqual(['bad_type PRD']);
    expect(read('swe-dev', { ...COUNTS, failed: -1 }).refused).toEqual(['bad_number failed']);
  });
});
