import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type FitCase, fitCoefficients } from '../../../store/evaluate/attribution/fit.ts';

const row = fc.array(
  fc.integer({ min: -12, max: 12 }).map((n) => n / 4),
  { minLength: 2, maxLength: 2 },
);
const run: fc.Arbitrary<FitCase> = fc
  .tuple(fc.array(row, { minLength: 2, maxLength: 5 }), fc.nat())
  .map(([rows, right]) => ({ rows, target: rows.map((_, k) => (k === right % rows.length ? 1 : 0)) }));

/** What is maximised, in units of the signs' spread. */
function objective(cases: readonly FitCase[], coefficients: readonly number[], l2: number): number {
  const all = cases.flatMap(({ rows }) => rows);
  const spread = coefficients.map((_, j) => {
    const mean = all.reduce((sum, one) => sum + one[j]!, 0) / all.length;
    return Math.sqrt(all.reduce((sum, one) => sum + (one[j]! - mean) ** 2, 0) / all.length);
  });
  const likelihood = cases.reduce((sum, { rows, target }) => {
    const scores = rows.map((one) => one.reduce((total, value, j) => total + value * coefficients[j]!, 0));
    const total = Math.log(scores.reduce((part, score) => part + Math.exp(score), 0));
    return sum + scores.reduce((part, score, k) => part + target[k]! * (score - total), 0);
  }, 0);
  return likelihood - (l2 / 2) * coefficients.reduce((sum, value, j) => sum + (value * spread[j]!) ** 2, 0);
}

describe('fitting coefficients', () => {
  it('finds the top: no small change of any coefficient is better', () => {
    fc.assert(
      fc.property(fc.array(run, { minLength: 2, maxLength: 6 }), (cases) => {
        const found = fitCoefficients(cases, 2, 1);
        const best = objective(cases, found, 1);
        for (const j of [0, 1]) {
          for (const change of [-1e-3, 1e-3]) {
            const other = found.map((value, k) => (k === j ? value + change : value));
            expect(objective(cases, other, 1)).toBeLessThanOrEqual(best + 1e-9);
          }
        }
      }),
      { numRuns: 50 },
    );
  });

  it('does not depend on the order of the runs', () => {
    fc.assert(
      fc.property(fc.array(run, { minLength: 2, maxLength: 6 }), (cases) => {
        const [there, back] = [fitCoefficients(cases, 2, 1), fitCoefficients([...cases].reverse(), 2, 1)];
        for (const [j, value] of there.entries()) expect(back[j]).toBeCloseTo(value, 6);
      }),
      { numRuns: 30 },
    );
  });

  it('gives 0 to a sign that never differs, and to all of them without runs', () => {
    const cases = [
      {
        rows: [
          [1, 0],
          [1, 2],
        ],
        target: [0, 1],
      },
    ];
    const [same, differing] = fitCoefficients(cases, 2, 1);
    expect(same).toBe(0);
    expect(differing).toBeGreaterThan(0);
    expect(fitCoefficients([], 2, 1)).toEqual([0, 0]);
  });
});
