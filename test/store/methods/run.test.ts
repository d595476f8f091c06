import { describe, expect, test } from 'vitest';
import { TroupeError } from '../../../errors.ts';
import { findMethod } from '../../../store/evaluate/methods/find.ts';
import { methodParams, runMethod } from '../../../store/evaluate/methods/run.ts';

function errorOf(run: () => unknown): TroupeError {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(TroupeError);
    return error as TroupeError;
  }
  throw new Error('nothing was thrown');
}

const run = (name: string, input: unknown) => runMethod(findMethod(name), input);

test('a method found by its name has the types of its input, parameters and output', () => {
  const values: (number | null)[] = runMethod(findMethod('grpo_advantage'), {
    group: ['q', 'q'],
    reward: [1, null],
    scale_std: false,
  });
  expect(values).toEqual([1, null]);
  // @ts-expect-error a reward is a number or null
  expect(() => runMethod(findMethod('grpo_advantage'), { group: ['q'], reward: ['1'] })).toThrow(/reward\[0\]/);
  // @ts-expect-error a truth value is no number
  expect(() => runMethod(findMethod('grpo_advantage'), { group: [], reward: [], eps: true })).toThrow(/eps/);
});

describe('finding a method', () => {
  test('an unknown name is answered with the nearest one', () => {
    for (const wrong of ['grpo_advantag', 'grpo-advantage', 'GRPO_advantage']) {
      const error = errorOf(() => findMethod(wrong));
      expect(error.code).toBe('method_unknown');
      expect(error.message).toContain('Did you mean grpo_advantage?');
    }
  });

  test('a name near to nothing is answered with where the names are listed', () => {
    expect(errorOf(() => findMethod('horoscope')).message).toContain('troupe method list');
  });
});

describe('running a method on input from outside', () => {
  test('parameters are distinguished from data by their names, and those not given have their defaults', () => {
    const input = { group: ['q', 'q'], reward: [1, 0] };
    expect(run('grpo_advantage', { ...input, scale_std: false })).toEqual([0.5, -0.5]);
    expect(run('grpo_advantage', { ...input, scale_std: false })).not.toEqual(run('grpo_advantage', input));
  });

  test('a parameter the method does not know is refused with what was probably meant', () => {
    const error = errorOf(() => run('grpo_advantage', { group: ['q'], reward: [1], scale_sd: false }));
    expect(error.code).toBe('method_input');
    expect(error.message).toContain('Did you mean scale_std?');
    expect(error.detail).toMatchObject({ field: 'scale_sd' });
  });

  test('a parameter far from every name is refused with the names there are', () => {
    const error = errorOf(() => run('grpo_advantage', { group: ['q'], reward: [1], temperature: 1 }));
    expect(error.message).toContain('group, reward, scale_std, eps');
  });

  test('a parameter of another type, or out of its bounds, is refused', () => {
    const input = { group: ['q'], reward: [1] };
    expect(errorOf(() => run('grpo_advantage', { ...input, scale_std: 'no' })).detail).toMatchObject({
      field: 'scale_std',
      expected: 'a boolean',
      got: '"no"',
    });
    expect(errorOf(() => run('grpo_advantage', { ...input, eps: -1 })).detail).toMatchObject({
      field: 'eps',
      got: '-1',
    });
    expect(errorOf(() => run('m500_filter', { traces: [], min_tokens: 0.5 })).detail.field).toBe('min_tokens');
    expect(
      errorOf(() => run('cosigned_rewards', { programs: [], tests: [], pass: [], trust: Number.NaN })).detail.field,
    ).toBe('trust');
    expect(
      errorOf(() => run('cosigned_rewards', { programs: [], tests: [], pass: [], lambda_ver: Number.NaN })).detail,
    ).toMatchObject({ field: 'lambda_ver', expected: 'a finite number' });
  });

  test('a reward that is NaN or infinite is refused by its row', () => {
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      const error = errorOf(() => run('grpo_advantage', { group: ['q', 'q', 'q'], reward: [1, 0, bad] }));
      expect(error.code).toBe('method_input');
      expect(error.detail).toMatchObject({
        field: 'reward[2]',
        expected: 'number or null',
        got: JSON.stringify(String(bad)),
      });
      const step = { query: 'q', traj: 't', agent: 'a' };
      const steps = [
        { ...step, reward: 1 },
        { ...step, reward: bad },
      ];
      expect(errorOf(() => run('drmas_advantage', { steps })).detail.field).toBe('steps[1].reward');
    }
  });

  test('a missing field, a field of another type and an input that is no object are refused', () => {
    expect(errorOf(() => run('grpo_advantage', { group: ['q'] })).message).toContain('reward');
    expect(errorOf(() => run('critic_agrees', { text: 3 })).detail).toMatchObject({ field: 'text', got: '3' });
    for (const input of [null, [], 'text', 3, undefined]) {
      expect(errorOf(() => run('critic_agrees', input)).detail.field).toBe('input');
    }
  });

  test('columns of different lengths are refused', () => {
    expect(errorOf(() => run('grpo_advantage', { group: ['q', 'q'], reward: [1] })).detail.field).toBe('reward');
    expect(errorOf(() => run('cure_code_reward', { gt_pass: [[1, 0], [1]] })).detail.field).toBe('gt_pass[1]');
  });

  test('rewards too large to compute with are refused instead of giving a number that is none', () => {
    const error = errorOf(() =>
      run('grpo_advantage', { group: ['q', 'q', 'q'], reward: [1.7e308, 1.7e308, -1.7e308] }),
    );
    expect(error.code).toBe('method_input');
  });

  test('a null reference is refused, because nothing can be compared with it', () => {
    const error = errorOf(() => run('correctness_filter', { pairs: [{ answer: '1', reference: null }] }));
    expect(error.detail.field).toBe('pairs[0].reference');
  });

  test('parameters can be prepared once for many inputs', () => {
    const method = findMethod('grpo_advantage');
    expect(methodParams(method, {})).toEqual({ scale_std: true, eps: 1e-6 });
    expect(methodParams(method, { eps: 0 })).toEqual({ scale_std: true, eps: 0 });
    expect(errorOf(() => methodParams(method, { epsilon: 0 })).code).toBe('method_input');
  });
});
