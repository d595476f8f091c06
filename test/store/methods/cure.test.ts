import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { findMethod } from '../../../store/evaluate/methods/find.ts';
import { runMethod } from '../../../store/evaluate/methods/run.ts';
import { expectClose } from './close.ts';

const run = (name: string, input: unknown) => runMethod(findMethod(name), input);

const bit = fc.constantFrom(0, 1);
const matrix = (rows: number, columns: number) =>
  fc.array(fc.array(bit, { minLength: columns, maxLength: columns }), { minLength: rows, maxLength: rows });
const matrices = fc
  .tuple(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 6 }))
  .chain(([rows, truths, tests]) => fc.record({ gt_pass: matrix(rows, truths), generated_pass: matrix(rows, tests) }));

function expectStandard(values: readonly number[] | null): void {
  if (values === null) return;
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  expectClose(mean, 0, 1e-9);
  expectClose(values.reduce((a, b) => a + (b - mean) ** 2, 0) / values.length, 1, 1e-9);
}

describe('CURE rewards', () => {
  test('have mean 0 and population std 1, or drop the task', () => {
    fc.assert(
      fc.property(matrices, ({ gt_pass, generated_pass }) => {
        expectStandard(run('cure_code_reward', { gt_pass }) as number[] | null);
        const tests = run('cure_test_reward', { gt_pass, generated_pass }) as { reward: number[] | null } | null;
        expectStandard(tests?.reward ?? null);
      }),
    );
  });

  test('equal programs drop the task, also where their mean is not exact', () => {
    expect(
      run('cure_code_reward', {
        gt_pass: [
          [1, 0, 0],
          [0, 1, 0],
          [0, 0, 1],
        ],
      }),
    ).toBeNull();
    expect(run('cure_code_reward', { gt_pass: [[1]] })).toBeNull();
    expect(run('cure_code_reward', { gt_pass: [[1], [1]], efficient: true })).toEqual([1, 1]);
    expect(run('cure_code_reward', { gt_pass: [] })).toBeNull();
  });

  test('the value of a test is its count form: right programs that pass minus wrong ones that do', () => {
    fc.assert(
      fc.property(matrices, ({ gt_pass, generated_pass }) => {
        const out = run('cure_test_reward', { gt_pass, generated_pass }) as { raw: number[] } | null;
        const right = gt_pass.map((row) => !row.includes(0));
        const wrong = right.filter((one) => !one).length;
        expect(out === null).toBe(!right.includes(true));
        if (out === null || wrong === 0) return;
        out.raw.forEach((raw, test) => {
          const upheld = generated_pass.every((row, i) => !right[i] || row[test] === 1) ? 1 : 0;
          const fooled = generated_pass.filter((row, i) => !right[i] && row[test] === 1).length;
          expectClose(wrong * raw, upheld * wrong - fooled, 1e-9);
        });
      }),
    );
  });

  test('without wrong programs a test is worth its sign', () => {
    expectClose(
      run('cure_test_reward', {
        gt_pass: [[1], [1]],
        generated_pass: [
          [1, 1],
          [1, 0],
        ],
      }),
      {
        raw: [1, -1],
        reward: [1, -1],
      },
    );
  });

  test('equal raw values have no reward', () => {
    expect(run('cure_test_reward', { gt_pass: [[1], [0]], generated_pass: [[1], [0]] })).toEqual({
      raw: [1],
      reward: null,
    });
    expect(run('cure_test_reward', { gt_pass: [[1], [0]], generated_pass: [[1], [0]], efficient: true })).toEqual({
      raw: [1],
      reward: [1],
    });
  });

  test('in the later stage a test must fool none of the wrong programs', () => {
    const gt_pass = [[1], [0], [0]];
    const generated_pass = [
      [1, 1, 0, 0],
      [0, 1, 1, 0],
      [0, 0, 0, 0],
    ];
    const out = run('cure_test_reward', { gt_pass, generated_pass, post_stage: true }) as { raw: number[] };
    expect(out.raw).toEqual([1, 0, -1, 0]);
  });
});

describe('CURE balance', () => {
  test('both sides weigh the same', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -9, max: 9 }), { maxLength: 12 }), (x) => {
        const out = run('cure_balance', { x }) as number[] | null;
        const bothSides = x.some((value) => value > 0) && x.some((value) => value < 0);
        expect(out !== null).toBe(bothSides);
        if (out === null) return;
        const mass = (sign: number) => out.filter((v) => v * sign > 0).reduce((a, b) => a + Math.abs(b), 0);
        expectClose(mass(1), mass(-1), 1e-9);
        expect(out.map(Math.sign)).toEqual(x.map(Math.sign));
      }),
    );
  });

  test('by length: equal lengths fall back to signs, no positive gives null, and 0 belongs to neither side', () => {
    expectClose(
      run('cure_length_regularize', { reward: [0.9, 0.1, -3, 0], length: [5, 5, 9, 1] }),
      [0.816497, 0.816497, -1.632993, 0],
    );
    expect(run('cure_length_regularize', { reward: [-1, 0], length: [5, 5] })).toBeNull();
    expect(run('cure_length_regularize', { reward: [], length: [] })).toBeNull();
  });

  test('by length: a reward of 0 keeps the value 0, also where negatives get the least', () => {
    expectClose(
      run('cure_length_regularize', { reward: [1, 1, -1, 0], length: [2000, 4000, 9, 9] }),
      [1.632993, -0.816497, -0.816497, 0],
    );
  });

  test('by length: the target is clamped, so that all right samples may come out too long', () => {
    expect(run('cure_length_regularize', { reward: [1, 1], length: [20000, 30000] })).toBeNull();
  });
});

describe('best of N', () => {
  test('the first program wins a tie, and without ground truth nothing is known about it', () => {
    const generated_pass = [
      [1, 0],
      [0, 1],
      [0, 0],
    ];
    expect(run('bon_select', { generated_pass, gt_pass: [[0], [1], [1]] })).toEqual({
      index: 0,
      generated_passes: 1,
      gt_all: false,
      gt_rate: 0,
    });
    expect(run('bon_select', { generated_pass, gt_pass: [[], [], []] })).toEqual({
      index: 0,
      generated_passes: 1,
      gt_all: null,
      gt_rate: null,
    });
  });

  test('no programs and a matrix for other programs are refused', () => {
    expect(() => run('bon_select', { generated_pass: [], gt_pass: [] })).toThrow('at least one program');
    expect(() => run('bon_select', { generated_pass: [[1]], gt_pass: [] })).toThrow('gt_pass');
  });
});
