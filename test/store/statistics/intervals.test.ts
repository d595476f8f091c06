import fc from 'fast-check';
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import { describe, expect, it } from 'vitest';
import { anytimeInterval, bettor } from '../../../store/evaluate/statistics/betting.ts';
import { meanInterval } from '../../../store/evaluate/statistics/bootstrap.ts';
import { mcnemar } from '../../../store/evaluate/statistics/mcnemar.ts';
import { outcomeOf } from '../../../store/evaluate/statistics/outcome.ts';
import { meanPassAtK, passAtK } from '../../../store/evaluate/statistics/pass-at-k.ts';
import { tasksNeeded } from '../../../store/evaluate/statistics/tasks-needed.ts';
import { blocksOf } from '../../../store/evaluate/statistics/two-arms.ts';
import { pairedLine } from '../../../store/explore/comparing/compare.ts';

/** A stream of numbers from 0 to 1. */
function uniform(seed: number): () => number {
  const random = xoroshiro128plus(seed);
  return () => uniformInt(random, 0, 2 ** 30 - 1) / 2 ** 30;
}

describe('McNemar', () => {
  // scipy.stats.binomtest(min(b, c), b + c).pvalue
  it.each([
    [5, 15, 0.04138946533203125],
    [0, 7, 0.015625],
    [10, 10, 1],
    [121, 59, 4.4344492637551645e-6],
    [0, 0, 1],
  ])('of %i and %i is exact as scipy has it', (first, second, wanted) => {
    expect(mcnemar(first, second).exact).toBeCloseTo(wanted, 12);
    expect(mcnemar(second, first).exact).toBeCloseTo(wanted, 12);
  });

  it('mid-p never exceeds the exact value', () => {
    fc.assert(
      fc.property(fc.nat(60), fc.nat(60), (first, second) => {
        const { exact, mid_p } = mcnemar(first, second);
        expect(mid_p).toBeLessThanOrEqual(exact + 1e-12);
      }),
    );
  });
});

describe('The bootstrap interval over tasks', () => {
  it('holds the true mean of small skewed samples in 93 to 97.5 of 100 cases', () => {
    const next = uniform(7);
    let held = 0;
    const cases = 600;
    for (let i = 0; i < cases; i++) {
      // Differences of two shares of 4 attempts: from −1 to 1, true mean 0.1.
      const values = Array.from({ length: 25 }, () => {
        const share = (p: number): number => [0, 0, 0, 0].filter(() => next() < p).length / 4;
        return share(0.55) - share(0.45);
      });
      const { low, high } = meanInterval(values, 0.95, i, 1000)!;
      if (low <= 0.1 && 0.1 <= high) held++;
    }
    expect(held / cases).toBeGreaterThan(0.93);
    expect(held / cases).toBeLessThan(0.985);
  });

  it('is the same for the same seed, and says nothing of one task', () => {
    const values = [0, 0.25, 1, 1, 0.5, 0];
    expect(meanInterval(values, 0.95, 3)).toEqual(meanInterval(values, 0.95, 3));
    expect(meanInterval([1], 0.95, 3)).toBeNull();
    expect(meanInterval([], 0.95, 3)).toBeNull();
  });

  it('of many tasks with few outcomes is that of drawing them one by one, and does not depend on their order', () => {
    const outcomes = [-1, -0.25, 0, 0, 0, 0, 0.25, 0.5, 1];
    const values = Array.from({ length: 900 }, (_, i) => outcomes[i % outcomes.length]!);
    // Values that all differ a little are drawn one by one.
    const apart = values.map((value, i) => value + i * 1e-9);
    for (const seed of [0, 1, 2]) {
      const { low, high } = meanInterval(values, 0.95, seed)!;
      const single = meanInterval(apart, 0.95, seed)!;
      expect(Math.abs(low - single.low)).toBeLessThan(0.03 * (high - low));
      expect(Math.abs(high - single.high)).toBeLessThan(0.03 * (high - low));
      expect(meanInterval(values.toReversed(), 0.95, seed)).toEqual({ low, high });
    }
  });

  it('holds the true mean of 400 tasks that are solved or not in 93 to 97 of 100 cases', () => {
    const next = uniform(8);
    const cases = 600;
    let held = 0;
    for (let i = 0; i < cases; i++) {
      const { low, high } = meanInterval(
        Array.from({ length: 400 }, () => (next() < 0.2 ? 1 : 0)),
        0.95,
        i,
        1000,
      )!;
      if (low <= 0.2 && 0.2 <= high) held++;
    }
    expect(held / cases).toBeGreaterThan(0.93);
    expect(held / cases).toBeLessThan(0.97);
  });

  it('of 12,500 tasks takes less than half a second of the processor', () => {
    const values = Array.from({ length: 12_500 }, (_, i) => (i % 7) - 3);
    const before = process.cpuUsage();
    meanInterval(values, 0.95, 0);
    const { user } = process.cpuUsage(before);
    expect(user / 1e6).toBeLessThan(0.5);
  });

  it('reaches to the end of the values where few tasks cannot bear the level', () => {
    // Wide and skewed enough that BCa's correction passes its pole; the interval was 0 to 0 there, or −1 to −1 turned round.
    for (const level of [0.995, 0.999, 0.9999]) {
      expect(meanInterval([0, 0, 1], level, 1)).toEqual({ low: 0, high: 1 });
      expect(meanInterval([0, 0, -1], level, 1)).toEqual({ low: -1, high: 0 });
    }
  });

  it('lies within the values and turns round with their sign', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -4, max: 4 }), { minLength: 2, maxLength: 30 }), (quarters) => {
        const values = quarters.map((quarter) => quarter / 4);
        const { low, high } = meanInterval(values, 0.9, 1, 500)!;
        expect(low).toBeLessThanOrEqual(high);
        expect(low).toBeGreaterThanOrEqual(Math.min(...values));
        expect(high).toBeLessThanOrEqual(Math.max(...values));
      }),
    );
  });
});

describe('Two candidates on the same tasks', () => {
  it('give the second less the first, and count tasks that only one solves', () => {
    const pairs = [
      { incumbent: 0, candidate: 1 },
      { incumbent: 0.25, candidate: 0.75 },
      { incumbent: 1, candidate: 1 },
      { incumbent: 0.5, candidate: 0 },
    ];
    const found = pairedLine(pairs, 0.95);
    expect(found).toMatchObject({ tasks: 4, first: 0.4375, second: 0.6875, difference: 0.25 });
    expect(found.mcnemar).toMatchObject({ only_first: 0, only_second: 2 });
  });

  it('of no task know nothing', () => {
    expect(pairedLine([], 0.95)).toMatchObject({ tasks: 0, first: null, difference: null, interval: null });
  });
});

describe('pass@k', () => {
  it('is the share of the draws of k attempts that hold a solved one, counted out', () => {
    const counted = (n: number, solved: number, k: number): number => {
      let [draws, hits] = [0, 0];
      for (let set = 0; set < 1 << n; set++) {
        if ([...set.toString(2)].filter((bit) => bit === '1').length !== k) continue;
        draws++;
        if ((set & ((1 << solved) - 1)) !== 0) hits++;
      }
      return hits / draws;
    };
    for (let n = 1; n <= 8; n++)
      for (let solved = 0; solved <= n; solved++)
        for (let k = 1; k <= n; k++) expect(passAtK({ n, solved }, k)).toBeCloseTo(counted(n, solved, k), 12);
  });

  it('is 1 where fewer than k attempts failed, however many there were', () => {
    expect(passAtK({ n: 3000, solved: 2493 }, 3000)).toBe(1);
    expect(passAtK({ n: 3000, solved: 2493 }, 508)).toBe(1);
    expect(passAtK({ n: 3000, solved: 0 }, 3000)).toBe(0);
  });

  it('leaves out tasks that were tried fewer times, and says so', () => {
    const found = meanPassAtK(
      [
        { n: 4, solved: 4 },
        { n: 1, solved: 0 },
        { n: 2, solved: 1 },
      ],
      2,
      0.95,
      1,
    );
    expect(found).toMatchObject({ tasks: 2, left_out: 1, value: 1 });
    expect(meanPassAtK([{ n: 1, solved: 1 }], 2, 0.95, 1)).toMatchObject({ tasks: 0, value: null, interval: null });
  });
});

describe('An outcome', () => {
  it.each([
    [{ low: 0.01, high: 0.1 }, 0.05, 'better'],
    [{ low: -0.04, high: 0.1 }, 0.05, 'not_worse'],
    [{ low: -0.2, high: -0.01 }, 0.05, 'worse'],
    [{ low: -0.2, high: 0.1 }, 0.05, 'inconclusive'],
    [{ low: 0, high: 0 }, 0, 'inconclusive'],
    [{ low: 0, high: 0 }, 0.01, 'not_worse'],
    [null, 0.05, 'no_data'],
  ] as const)('of %o with margin %f is %s', (interval, margin, wanted) =>
    expect(outcomeOf(interval, margin)).toBe(wanted),
  );
});

describe('The tasks that a comparison needs', () => {
  it('are those of the paired t test without its small-sample correction', () => {
    // statsmodels TTestPower().solve_power(0.2, alpha=0.05, power=0.8) = 198.15, which adds z²/2 for the estimated deviation
    expect(tasksNeeded(0.5, 0.1, 0.95, 0.8)).toBe(197);
  });
});

describe('A bettor', () => {
  it('whose game is fair reaches 20 in at most 5 of 100 games, looked at after every value', () => {
    const next = uniform(11);
    let reached = 0;
    const games = 1000;
    for (let game = 0; game < games; game++) {
      const one = bettor(0.5);
      for (let i = 0; i < 200; i++)
        if (one.see(next() < 0.5 ? 1 : 0) >= 20) {
          reached++;
          break;
        }
    }
    expect(reached / games).toBeLessThan(0.05);
  });

  it('finds a mean of 0.6 against 0.5 within 600 values in 80 of 100 games', () => {
    const next = uniform(12);
    let reached = 0;
    for (let game = 0; game < 200; game++) {
      const one = bettor(0.5);
      for (let i = 0; i < 600; i++)
        if (one.see(next() < 0.6 ? 1 : 0) >= 20) {
          reached++;
          break;
        }
    }
    expect(reached / 200).toBeGreaterThan(0.8);
  });

  it('never owes: the capital stays above 0', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(0, 0.5, 1), { maxLength: 100 }),
        fc.double({ min: 0.05, max: 0.95, noNaN: true }),
        (values, bound) => {
          const one = bettor(bound);
          for (const value of values) expect(one.see(value)).toBeGreaterThan(0);
        },
      ),
    );
  });
});

describe('An interval that holds at any time', () => {
  const unit = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 60 });

  it('only closes in as values come, and turns round with them', () => {
    fc.assert(
      fc.property(unit, (values) => {
        let before = { low: 0, high: 1 };
        for (let n = 1; n <= values.length; n++) {
          const now = anytimeInterval(values.slice(0, n), [0, 1], 0.95)!;
          expect(now.low).toBeGreaterThanOrEqual(before.low);
          expect(now.high).toBeLessThanOrEqual(before.high);
          before = now;
        }
        const turned = anytimeInterval(
          values.map((value) => -value),
          [-1, 0],
          0.95,
        )!;
        expect(turned.low).toBeCloseTo(-before.high, 5);
        expect(turned.high).toBeCloseTo(-before.low, 5);
      }),
      { numRuns: 20 },
    );
  });

  it('has its ends where the bettor of each bound reaches 2 / (1 − level)', () => {
    const next = uniform(5);
    const values = Array.from({ length: 300 }, () => next() ** 2);
    const { low, high } = anytimeInterval(values, [0, 1], 0.95)!;
    const greatest = (bound: number, of: readonly number[]): number => {
      const { see } = bettor(bound);
      return of.reduce((most, value) => Math.max(most, see(value)), 0);
    };
    const down = values.map((value) => 1 - value);
    expect(greatest(low, values)).toBeGreaterThanOrEqual(40);
    expect(greatest(low + 1e-5, values)).toBeLessThan(40);
    expect(greatest(1 - high, down)).toBeGreaterThanOrEqual(40);
    expect(greatest(1 - high + 1e-5, down)).toBeLessThan(40);
    expect(anytimeInterval([], [0, 1], 0.95)).toBeNull();
  });

  it('holds the mean at all of 400 looks in at least 95 of 100 runs', () => {
    const next = uniform(21);
    let missed = 0;
    for (let run = 0; run < 300; run++) {
      const values = Array.from({ length: 400 }, () => (next() < 0.3 ? 1 : 0));
      const { low, high } = anytimeInterval(values, [0, 1], 0.95)!;
      if (low > 0.3 || high < 0.3) missed++;
    }
    expect(missed / 300).toBeLessThanOrEqual(0.05);
  });
});

describe('Blocks of two streams', () => {
  type Value = { readonly arm: 'a' | 'b'; readonly value: number };
  const values = fc.array(
    fc.record({ arm: fc.constantFrom<'a' | 'b'>('a', 'b'), value: fc.double({ min: -1, max: 1, noNaN: true }) }),
  );

  it('are the means of what came since the block before, of both', () => {
    const of = (text: string): Value[] =>
      text.split(' ').map((one) => ({ arm: one[0] as 'a' | 'b', value: Number(one.slice(1)) }));
    expect(blocksOf(['a', 'b'], of('a1 a3 b10 b20 b30 a5 b1'))).toEqual([
      { a: 2, b: 10 },
      { a: 5, b: 25 },
    ]);
    expect(blocksOf(['a', 'b'], of('a1 a2'))).toEqual([]);
  });

  it('end where they end whatever the values are, and are the same for the streams the other way round', () => {
    fc.assert(
      fc.property(values, (all) => {
        const blocks = blocksOf(['a', 'b'], all);
        expect(blocksOf(['b', 'a'], all)).toEqual(blocks);
        expect(
          blocksOf(
            ['a', 'b'],
            all.map(({ arm }) => ({ arm, value: 0 })),
          ),
        ).toHaveLength(blocks.length);
        for (const { a, b } of blocks) for (const mean of [a, b]) expect(Math.abs(mean)).toBeLessThanOrEqual(1);
      }),
    );
  });
});
