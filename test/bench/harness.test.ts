/** How comparisons are made and reported: turns, quiet rounds, ratios, outputs before times. No time is measured here. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compared, interleave, oursOnly, type Side, unmeasured } from '../../bench/harness.ts';
import { operatorTimes } from '../../bench/profile.ts';
import { exitCode, type Machine, reportText } from '../../bench/report.ts';
import { furthestApart, type Measured, ratios, summary } from '../../bench/statistics.ts';

const took = (seconds: number, work = 100): Measured => ({ work, seconds, cpuSeconds: seconds / 2 });

describe('Statistics', () => {
  it('the median is the middle number, or the mean of the middle two, and the spread is the smallest and largest', () => {
    expect(summary([3, 1, 2])).toEqual({ median: 2, spread: [1, 3] });
    expect(summary([4, 1, 3, 2])).toEqual({ median: 2.5, spread: [1, 4] });
    expect(summary([7])).toEqual({ median: 7, spread: [7, 7] });
    expect(() => summary([])).toThrow(RangeError);
  });

  it('half of the numbers are at most the median, whatever they are', () => {
    const numbers = fc.array(fc.double({ noNaN: true, min: -1e6, max: 1e6 }), { minLength: 1 });
    fc.assert(
      fc.property(numbers, (values) => {
        const { median, spread } = summary(values);
        expect(values.filter((value) => value <= median).length * 2).toBeGreaterThanOrEqual(values.length);
        expect(values.filter((value) => value >= median).length * 2).toBeGreaterThanOrEqual(values.length);
        // Sorting does not tell 0 from -0.
        expect(spread.map((end) => end + 0)).toEqual([Math.min(...values) + 0, Math.max(...values) + 0]);
      }),
    );
  });

  it('the ratio is taken round by round: a slow round that slows both sides leaves it alone', () => {
    expect(ratios([took(1), took(10), took(2)], [took(2), took(20), took(4)])).toEqual({ median: 2, spread: [2, 2] });
    expect(() => ratios([took(1)], [])).toThrow(RangeError);
  });

  it('outputs are as far apart as their furthest pair, relative; a missing or endless number is infinitely far', () => {
    expect(furthestApart([1, 2], [1, 4])).toBe(0.5);
    expect(furthestApart([0, 3], [0, 3])).toBe(0);
    expect(furthestApart([1], [1, 2])).toBe(Number.POSITIVE_INFINITY);
    expect(furthestApart([Number.NaN], [1])).toBe(Number.POSITIVE_INFINITY);
    expect(furthestApart([1], [Number.NaN])).toBe(Number.POSITIVE_INFINITY);
  });
});

describe('Rounds', () => {
  /** Sides that take a second each, and a machine on which others use `noise` processors in a try. */
  const played = async (noise: (round: number) => number, rounds = 5) => {
    const order: string[] = [];
    let wall = 0;
    let busy = 0;
    const side = (name: string): Side => ({
      name,
      round: async (round) => {
        order.push(`${name}${round}`);
        wall += 1;
        busy += 1 + noise(round);
        return { work: round, seconds: 1, cpuSeconds: 0.75, checkingCpuSeconds: 0.25 };
      },
    });
    const options = { rounds, busySeconds: () => busy, wallSeconds: () => wall };
    const { measured, disturbed } = await interleave([side('a'), side('b')], options);
    return { order: order.join(' '), kept: measured.map((ofSide) => ofSide.map(({ work }) => work)), disturbed };
  };

  it('the sides take turns, and each begins as often as the other', async () => {
    const { order, kept, disturbed } = await played(() => 0, 6);
    expect(order).toBe('a0 b0 b1 a1 a2 b2 b3 a3 a4 b4 b5 a5');
    expect(kept).toEqual([
      [0, 1, 2, 3, 4, 5],
      [0, 1, 2, 3, 4, 5],
    ]);
    expect(disturbed).toBe(0);
  });

  it('a round that other programs disturbed is taken again, on both sides', async () => {
    const { kept, disturbed } = await played((round) => (round === 1 || round === 3 ? 0.9 : 0.1));
    expect(kept[0]).toEqual([0, 2, 4, 5, 6]);
    expect(kept[1]).toEqual(kept[0]);
    expect(disturbed).toBe(0);
  });

  it('where the machine stays busy it ends after twice the rounds, keeps the quietest and counts them as disturbed', async () => {
    const { order, kept, disturbed } = await played((round) => 1.5 - round / 10);
    expect(order.split(' ')).toHaveLength(20);
    expect(kept[0]).toEqual([5, 6, 7, 8, 9]);
    expect(disturbed).toBe(5);
  });

  it('a round is not taken again when the benchmark has lasted two minutes', async () => {
    const { order } = await played(() => 1, 70);
    expect(order.split(' ')).toHaveLength(140);
  });

  it('fewer than five rounds are refused', async () => {
    await expect(interleave([], { rounds: 4 })).rejects.toMatchObject({ code: 'usage' });
  });
});

describe('Results', () => {
  const about = { case: '4m', unit: 'tokens/s', disturbed: 0 };
  const ours = [took(1), took(2), took(1), took(1), took(1)];
  const other = { what: 'a peer', measured: [took(2), took(3), took(2), took(2), took(2)] };

  it('equal outputs give a ratio, with wall seconds and CPU seconds of both sides', () => {
    expect(compared(about, ours, other, { equal: true, how: 'all the same' })).toEqual({
      case: '4m',
      ours: { median: 100, spread: [50, 100], unit: 'tokens/s' },
      other: { what: 'a peer', median: 50, spread: [100 / 3, 50] },
      ratio: { median: 2, spread: [1.5, 2] },
      cpu_seconds: { ours: 0.5, other: 1 },
      seconds: { ours: 1, other: 2 },
      rounds: 5,
      disturbed: 0,
      outputs: 'all the same',
    });
  });

  it('outputs that differ give a failure and no number at all, and the exit code says so', () => {
    const result = compared(about, ours, other, { equal: false, how: '3 of 4 the same' });
    expect(result).toMatchObject({ ours: null, other: null, ratio: null, seconds: { ours: null, other: null } });
    expect(result.failed).toContain('3 of 4 the same');
    expect(exitCode([result])).toBe(1);
  });

  it('a side that is missing leaves ours alone and says how to get it; that is no failure', () => {
    const result = oursOnly(about, ours, 'no Python with torch; say: pip install torch');
    expect(result).toMatchObject({ ours: { median: 100 }, other: null, ratio: null, cpu_seconds: { other: null } });
    expect(result.skipped).toContain('pip install');
    expect(exitCode([result, unmeasured('5m', { skipped: 'no memory' })])).toBe(0);
  });

  it('people read each case, what it was compared with and what failed', () => {
    const machine: Machine = {
      cores: 2,
      processor: 'a processor',
      memory_gib: 8,
      load: 0.1,
      platform: 'linux-x64',
      node: 'v20.0.0',
      commit: 'abc',
      date: '2026-01-02',
    };
    const good = compared({ ...about, disturbed: 2, more: { share: 0.51234 } }, ours, other, {
      equal: true,
      how: 'same',
    });
    const bad = compared({ ...about, case: '5m' }, ours, other, { equal: false, how: 'far apart' });
    const text = reportText({ name: 'train', machine, results: [good, bad] });
    expect(text).toMatch(/^4m +tokens\/s +100 \[50–100\] +50 \[33\.3–50\] +2 \[1\.5–2\] +1 \/ 2 +0\.5 \/ 1$/m);
    expect(text).toMatch(/2 cores \(a processor\)/);
    expect(text).toMatch(/against a peer, 5 rounds/);
    expect(text).toMatch(/DISTURBED by other programs in 2 of 5 rounds/);
    expect(text).toMatch(/share: 0\.512/);
    expect(text).toMatch(/FAILED: .*far apart/);
  });
});

describe('The profile of a step', () => {
  it('sums what the kernels took by operation, in milliseconds of one step, the smallest together', () => {
    const kernel = (op_name: string, dur: number) => ({ cat: 'Node', name: 'n_kernel_time', dur, args: { op_name } });
    const events = [
      kernel('Gemm', 3000),
      kernel('Add', 500),
      kernel('Gemm', 1000),
      kernel('Exp', 100),
      kernel('Mul', 100),
      { cat: 'Session', name: 'model_run', dur: 9999 },
      { cat: 'Node', name: 'n_fence_before', dur: 77, args: { op_name: 'Gemm' } },
    ];
    expect(operatorTimes(events, 2, 2)).toEqual({ Gemm: 2, Add: 0.25, rest: 0.1 });
  });
});
