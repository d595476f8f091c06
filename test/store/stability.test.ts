import { describe, expect, it } from 'vitest';
import { stabilityIndex, tenths } from '../../store/evaluate/statistics/stability.ts';

const times = (n: number, name: string): string[] => Array(n).fill(name);

describe('The population stability index', () => {
  it('is the sum over classes, with half a unit in each, less what chance gives', () => {
    // 100.5/201, 160.5/201 and 40.5/201: (0.7985 - 0.5) ln(1.597) + (0.2015 - 0.5) ln(0.403) = 0.4110, less 1/200 + 1/200.
    const { index, most } = stabilityIndex(
      [...times(100, 'a'), ...times(100, 'b')],
      [...times(160, 'a'), ...times(40, 'b')],
    );
    expect(index).toBeCloseTo(0.4011, 3);
    expect(most.name).toBe('b');
    expect([most.before, most.after]).toEqual([0.5, 40.5 / 201]);
  });

  it('counts a class that is new, and is finite', () => {
    const { index, most } = stabilityIndex(times(200, 'a'), [...times(100, 'a'), ...times(100, 'new')]);
    expect(most.name).toBe('other');
    expect(index).toBeGreaterThan(1);
    expect(index).toBeLessThan(10);
  });

  it('is above 0.2 in less than one of 100 looks where 200 and 200 episodes in ten classes come from the same place', () => {
    let state = 7;
    const random = () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return state / 2 ** 32;
    };
    const drawn = () => Array.from({ length: 200 }, () => `c${Math.floor(10 * random())}`);
    const high = Array.from({ length: 2000 }, () => stabilityIndex(drawn(), drawn()).index).filter((one) => one > 0.2);
    expect(high.length).toBeLessThan(20);
  });
});

it('Numbers fall into tenths of the reference; equal limits are one', () => {
  const of = tenths(Array.from({ length: 100 }, (_, i) => i));
  expect([of(-5), of(9), of(10), of(99), of(500)]).toEqual(['below 10', 'below 10', '10 to 20', 'from 90', 'from 90']);
  expect(tenths(Array(50).fill(3))(3)).toBe('from 3');
});
