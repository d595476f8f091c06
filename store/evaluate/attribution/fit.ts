/**
 * Fits the coefficients of failure signs: a conditional logit over the entries of each run (McFadden 1974), with an L2 penalty on
 * coefficients of signs in units of their spread. The penalised likelihood has one top; Newton's steps look for it from zero, so
 * nothing depends on the order of the runs.
 */
import { softmax } from '../methods/transcript-signs.ts';

/** One run: a row of signs for each candidate, and how much of the blame each has (sums to 1). */
export type FitCase = { readonly rows: readonly (readonly number[])[]; readonly target: readonly number[] };

const MOST_STEPS = 50;
const SMALLEST_STEP = 1e-9;

/** Coefficients in the units of the signs, one a column. Zero for a sign that never differs, and everywhere without cases. */
export function fitCoefficients(cases: readonly FitCase[], columns: number, l2: number): number[] {
  const spread = spreads(cases, columns);
  const scaled = cases.map(({ rows, target }) => ({
    rows: rows.map((row) => row.map((value, j) => (spread[j] === 0 ? 0 : value / spread[j]!))),
    target,
  }));
  let coefficients: number[] = new Array(columns).fill(0);
  for (let step = 0; step < MOST_STEPS; step++) {
    const move = newtonStep(scaled, coefficients, l2);
    coefficients = coefficients.map((value, j) => value + move[j]!);
    if (Math.max(0, ...move.map(Math.abs)) < SMALLEST_STEP) break;
  }
  return coefficients.map((value, j) => (spread[j] === 0 ? 0 : value / spread[j]!));
}

function spreads(cases: readonly FitCase[], columns: number): number[] {
  const rows = cases.flatMap((one) => one.rows);
  return Array.from({ length: columns }, (_, j) => {
    const mean = rows.reduce((sum, row) => sum + row[j]!, 0) / rows.length;
    return Math.sqrt(rows.reduce((sum, row) => sum + (row[j]! - mean) ** 2, 0) / rows.length) || 0;
  });
}

function newtonStep(cases: readonly FitCase[], at: readonly number[], l2: number): number[] {
  const n = at.length;
  const gradient = at.map((value) => -l2 * value);
  const curvature = Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) => (i === j ? l2 : 0)));
  for (const { rows, target } of cases) {
    const shares = softmax(rows.map((row) => dot(row, at)));
    const mean = at.map((_, j) => rows.reduce((sum, row, k) => sum + shares[k]! * row[j]!, 0));
    for (const [k, row] of rows.entries()) {
      const rest = target[k]! - shares[k]!;
      for (let i = 0; i < n; i++) {
        gradient[i]! += rest * row[i]!;
        const off = shares[k]! * (row[i]! - mean[i]!);
        for (let j = 0; j <= i; j++) curvature[i]![j]! += off * (row[j]! - mean[j]!);
      }
    }
  }
  return solve(curvature, gradient);
}

/** Cholesky; the lower half of a positive definite matrix is enough. */
function solve(matrix: readonly (readonly number[])[], right: readonly number[]): number[] {
  const n = right.length;
  const lower = matrix.map((row) => [...row]);
  const x = [...right];
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let rest = lower[i]![j]!;
      for (let k = 0; k < j; k++) rest -= lower[i]![k]! * lower[j]![k]!;
      lower[i]![j] = i === j ? Math.sqrt(rest) : rest / lower[j]![j]!;
    }
    for (let k = 0; k < i; k++) x[i]! -= lower[i]![k]! * x[k]!;
    x[i]! /= lower[i]![i]!;
  }
  for (let i = n - 1; i >= 0; i--) {
    for (let k = i + 1; k < n; k++) x[i]! -= lower[k]![i]! * x[k]!;
    x[i]! /= lower[i]![i]!;
  }
  return x;
}

const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((sum, value, j) => sum + value * b[j]!, 0);
