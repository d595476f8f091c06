/**
 * Dr. MAMR's credit for a step: the outcome, and a little of its influence and of its restart.
 *
 * Source: arXiv 2511.02303. Secondary; that each part is normalised over the steps given, all steps of a query's group, is the best
 * reading. ddof 1, eps 1e-6; a part that does not vary, or a single step, counts 0.
 * Kept: α = β = 0.1. Dropped: the change of the loss, that 1/turns is no divisor any more. Open: the scope of each
 * normalisation.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { mean, standardDeviation } from '../statistics.ts';

const Column = Type.Array(Type.Number());
const Input = Type.Object({ outcome: Column, influence: Column, restart: Column });
const params = { alpha: 0.1, beta: 0.1 };

export const mamrStepAdvantage: Method<Static<typeof Input>, typeof params, number[]> = {
  name: 'mamr_step_advantage',
  kind: 'credit',
  source: 'Dr. MAMR: arXiv 2511.02303; secondary',
  version: 1,
  needs: 'outcome, influence and restart',
  summary: 'Normalised outcome plus shares of normalised influence and restart reward.',
  params,
  input: Input,
  run: ({ outcome, influence, restart }, { alpha, beta }) => {
    requireRows('influence', influence, outcome.length, 'outcome');
    requireRows('restart', restart, outcome.length, 'outcome');
    const [a, b, c] = [normal(outcome), normal(influence), normal(restart)];
    return outcome.map((_, step) => a[step]! + alpha * b[step]! + beta * c[step]!);
  },
};

function normal(values: readonly number[]): number[] {
  const deviation = standardDeviation(values, 1);
  const centre = mean(values);
  return values.map((value) => (deviation === 0 ? 0 : (value - centre) / (deviation + 1e-6)));
}
