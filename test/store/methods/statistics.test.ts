import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { findMethod } from '../../../store/evaluate/methods/find.ts';
import { grpoAdvantage } from '../../../store/evaluate/methods/group-advantages.ts';
import { runMethod } from '../../../store/evaluate/methods/run.ts';
import {
  groupRows,
  groupStatistics,
  mean,
  median,
  roundHalfEven,
  stableOrder,
  standardDeviation,
} from '../../../store/evaluate/methods/statistics.ts';
import { expectClose } from './close.ts';

describe('rounding', () => {
  test('an exact half goes to the even neighbour', () => {
    for (const [x, expected] of [
      [0.5, 0],
      [1.5, 2],
      [2.5, 2],
      [3.5, 4],
      [-0.5, 0],
      [-1.5, -2],
      [2.4999, 2],
      [2.5001, 3],
      [7, 7],
    ] as const) {
      expect(Math.abs(roundHalfEven(x) - expected), `${x}`).toBe(0);
    }
  });
});

describe('mean and deviation', () => {
  test('equal values have exactly their own mean and no deviation', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, min: -1e6, max: 1e6 }), fc.integer({ min: 1, max: 50 }), (value, n) => {
        const values = new Array<number>(n).fill(value);
        expect(mean(values)).toBe(value);
        expect(standardDeviation(values, 0)).toBe(0);
        expect(standardDeviation(values, 1)).toBe(0);
      }),
    );
  });

  test('the divisor is n − ddof', () => {
    expectClose(standardDeviation([1, 3], 0), 1, 1e-15);
    expectClose(standardDeviation([1, 3], 1), Math.SQRT2, 1e-15);
    expect(standardDeviation([5], 1)).toBe(0);
  });

  test('values whose squares or sums are no doubles have their deviation, not one that makes every advantage 0', () => {
    expectClose(standardDeviation([3e200, 1e200], 1) / 1e200, Math.SQRT2);
    expectClose(standardDeviation([1.5e308, 1e308], 0) / 1e308, 0.25);
    const values = [3e200, 1e200, 3, 1, 1.5e308, null, 1e308];
    const { mean, deviation } = groupStatistics(groupRows(['a', 'a', 'b', 'b', 'c', 'd', 'c']), values, 1);
    expectClose(mean[2]! / 1e308, 1.25);
    expectClose(deviation[0]! / 1e200, Math.SQRT2);
    expect(deviation[1]).toBe(Math.SQRT2);
    expectClose(deviation[2]! / 1e308, Math.SQRT1_2 / 2);
    for (const [name, of] of [
      ['grpo_advantage', {}],
      ['trl_advantage', {}],
      ['trl_advantage', { scale: 'batch' }],
      ['trl_advantage', { combine: 'normalize_then_sum' }],
    ] as [string, object][])
      expect(() => runMethod(findMethod(name), { group: ['q', 'q'], reward: [1.7e308, -1.7e308], ...of })).toThrow(
        'too large',
      );
    const reward = [1e200, 0, 1, 0];
    expectClose(
      runMethod(grpoAdvantage, { group: ['q', 'q', 'p', 'p'], reward, eps: 0 }),
      [1, -1, 1, -1].map((sign) => sign * Math.SQRT1_2),
    );
  });

  test('nothing has no mean, and the median of an even count lies between', () => {
    expect(mean([])).toBeNaN();
    expect(median([4, 1])).toBe(2.5);
    expect(median([9, 1, 2])).toBe(2);
    expect(median([])).toBeNaN();
  });
});

describe('grouping', () => {
  test('groups stand in order of first appearance, rows in theirs', () => {
    expect([...groupBy(['b1', 'a1', 'b2'], (row) => row[0])]).toEqual([
      ['b', ['b1', 'b2']],
      ['a', ['a1']],
    ]);
    expect([...groupRows(['x', 'y', 'x', 'x'], [1, 1, 2, 1]).numbers]).toEqual([0, 1, 2, 0]);
  });

  test('rows are together exactly when they agree in every column', () => {
    const key = fc.constantFrom<string | number>('a', 'b', 1, '1', 0, '');
    fc.assert(
      fc.property(fc.array(fc.tuple(key, key, key), { maxLength: 20 }), (rows) => {
        const { numbers, count } = groupRows(
          rows.map((row) => row[0]),
          rows.map((row) => row[1]),
          rows.map((row) => row[2]),
        );
        rows.forEach((one, i) => {
          rows.forEach((other, k) => {
            expect(numbers[i] === numbers[k]).toBe(one.every((value, column) => value === other[column]));
          });
        });
        expect(new Set(numbers).size).toBe(count);
      }),
    );
  });

  test('statistics by group are those of each group alone, nulls left out', () => {
    const row = fc.record({
      group: fc.constantFrom('a', 'b'),
      value: fc.option(fc.integer({ min: -9, max: 9 }), { nil: null }),
    });
    fc.assert(
      fc.property(fc.array(row, { maxLength: 20 }), fc.constantFrom<(0 | 1)[]>(0, 1), (rows, ddof) => {
        const groups = groupRows(rows.map(({ group }) => group));
        const found = groupStatistics(
          groups,
          rows.map(({ value }) => value),
          ddof,
        );
        [...groupBy(rows, ({ group }) => group).values()].forEach((members, i) => {
          const values = members.map(({ value }) => value).filter((value) => value !== null);
          expect(found.size[i]).toBe(values.length);
          expectClose(found.deviation[i], standardDeviation(values, ddof), 1e-12);
          if (values.length > 0) expectClose(found.mean[i], mean(values), 1e-12);
        });
      }),
    );
  });

  test('equal keys stay in their order, in both directions', () => {
    const rows = ['b1', 'a1', 'b2', 'a2'];
    const key = (row: string) => row.charCodeAt(0);
    expect(stableOrder(rows, key, 'ascending')).toEqual([1, 3, 0, 2]);
    expect(stableOrder(rows, key, 'descending')).toEqual([0, 2, 1, 3]);
  });
});
