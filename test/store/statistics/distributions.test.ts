/** Against scipy 1.17.1 and statsmodels; the numbers were printed by them. */
import { describe, expect, it } from 'vitest';
import {
  binomialAt,
  binomialCdf,
  binomialPoint,
  incompleteBeta,
  logGamma,
  normalCdf,
  normalQuantile,
  studentCdf,
  studentQuantile,
} from '../../../store/evaluate/statistics/distributions.ts';

const near = (got: number, wanted: number, relative: number): void =>
  expect(Math.abs(got - wanted) / Math.max(Math.abs(wanted), 1e-300)).toBeLessThan(relative);

describe('Distributions agree with scipy', () => {
  it.each([
    [-8, 6.22096057427174e-16],
    [-3, 0.0013498980316300933],
    [-1, 0.15865525393145707],
    [0.3, 0.6179114221889526],
    [1.96, 0.9750021048517795],
    [4, 0.9999683287581669],
  ])('norm.cdf(%f) within 1e-12', (z, wanted) => near(normalCdf(z), wanted, 1e-12));

  it.each([
    [1e-10, -6.361340902404056],
    [0.025, -1.9599639845400545],
    [0.3, -0.5244005127080409],
    [0.8, 0.8416212335729143],
    [0.999, 3.090232306167813],
  ])('norm.ppf(%f) within 1e-12', (p, wanted) => near(normalQuantile(p), wanted, 1e-12));

  it.each([
    [0.975, 1, 12.706204736174694],
    [0.975, 4, 2.7764451051977934],
    [0.9, 30, 1.3104150253913955],
    [0.01, 200, -2.3451370822594684],
  ])('t.ppf(%f, %i) within 1e-10', (p, freedom, wanted) => near(studentQuantile(p, freedom), wanted, 1e-10));

  it.each([
    [-3, 2, 0.04773298313335456],
    [0.5, 7, 0.6837964321553578],
    [2, 100, 0.9758939106344332],
  ])('t.cdf(%f, %i) within 1e-12', (t, freedom, wanted) => near(studentCdf(t, freedom), wanted, 1e-12));

  it.each([
    [0.5, 0.5, 0.1, 0.20483276469913345],
    [2, 3, 0.7, 0.9163],
    [200, 150, 0.6, 0.8601906604801528],
    [0.01, 5, 0.3, 0.9991442234826969],
  ])('betainc(%f, %f, %f) within 1e-11', (a, b, x, wanted) => near(incompleteBeta(a, b, x), wanted, 1e-11));

  it.each([
    [3, 10, 0.5, 0.171875],
    [0, 7, 0.2, 0.20971519999999996],
    [450, 1000, 0.5, 0.0008652680424881513],
  ])('binom.cdf(%i, %i, %f) within 1e-10', (k, n, p, wanted) => near(binomialCdf(k, n, p), wanted, 1e-10));

  it.each([
    [0.5, 0.5723649429247],
    [3.7, 1.428072326665388],
    [1000.25, 5906.9472682711175],
  ])('gammaln(%f) within 1e-12', (x, wanted) => near(logGamma(x), wanted, 1e-12));
});

describe('A binomial number at a uniform one', () => {
  it.each([
    [1, 0.3],
    [7, 0.02],
    [25, 0.5],
    [40, 0.97],
    [300, 0.1],
  ])('of %i trials with chance %f takes as much of the range as its chance', (n, p) => {
    const grid = 200_000;
    const seen = new Map<number, number>();
    for (let i = 0; i < grid; i++) {
      const k = binomialAt((i + 0.5) / grid, n, p);
      seen.set(k, (seen.get(k) ?? 0) + 1);
    }
    for (let k = 0; k <= n; k++)
      expect(Math.abs((seen.get(k) ?? 0) / grid - binomialPoint(k, n, p))).toBeLessThan(2 / grid);
  });

  it('of no trials, of none that can succeed and of all that must is known', () => {
    expect([binomialAt(0.5, 0, 0.5), binomialAt(0.9, 9, 0), binomialAt(0.1, 9, 1)]).toEqual([0, 0, 9]);
    for (const u of [0, 1 - 2 ** -32])
      expect(binomialAt(u, 12_500, 0.4)).toSatisfy((k: number) => k >= 0 && k <= 12_500);
  });
});
