/**
 * GRPO as TRL computes it, for one reward function or several.
 *
 * Source: TRL, trl/trainer/grpo_trainer.py. Verified (code).
 * A row's reward is a number, or one entry for each reward function; `weights` default to 1. By default the weighted sum comes first
 * (a null among others counts 0) and is then normalised: minus the mean of the group, divided by std (ddof 1) + eps of the group or
 * the batch, or not divided. `normalize_then_sum` normalises each reward function inside its group, sums, and then normalises the sum
 * over the whole batch. A group of one has advantage 0. Unlike everywhere else here, a row without any reward has advantage 0 too,
 * because that is TRL's rule; it still has no part in the statistics. TRL itself needs groups of equal size.
 * Kept: eps 1e-4 beside the std, both ways to combine rewards. Dropped: gathering over processes. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { refuseInput, requireRows } from '../refuse.ts';
import { Key, Reward } from '../shapes.ts';
import { type Groups, groupRows, groupStatistics, standardDeviation } from '../statistics.ts';

const Input = Type.Object({
  group: Type.Array(Key),
  reward: Type.Array(Type.Union([Reward, Type.Array(Reward, { minItems: 1 })])),
});
type Column = readonly (number | null)[];
type Params = {
  readonly scale: 'group' | 'batch' | 'none';
  readonly combine: 'sum_then_normalize' | 'normalize_then_sum';
  readonly weights: readonly number[] | null;
  readonly eps: number;
};
const params: Params = { scale: 'group', combine: 'sum_then_normalize', weights: null, eps: 1e-4 };

export const trlAdvantage: Method<Static<typeof Input>, Params, number[]> = {
  name: 'trl_advantage',
  kind: 'credit',
  source: 'GRPO: trl/trainer/grpo_trainer.py; verified (code)',
  version: 1,
  needs: 'rewards of a batch',
  summary: 'Reward minus the mean of its group, over the std of group or batch or not divided, as TRL does it.',
  params,
  limits: {
    scale: Type.Union([Type.Literal('group'), Type.Literal('batch'), Type.Literal('none')]),
    combine: Type.Union([Type.Literal('sum_then_normalize'), Type.Literal('normalize_then_sum')]),
    weights: Type.Union([Type.Array(Type.Number()), Type.Null()]),
    eps: Type.Number({ exclusiveMinimum: 0 }),
  },
  input: Input,
  run: ({ group, reward }, { scale, combine, weights, eps }) => {
    requireRows('reward', reward, group.length, 'group');
    const groups = groupRows(group);
    const functions = columnsOf(reward);
    if (weights !== null) requireRows('weights', weights, functions.length, 'the reward functions');
    const weightOf = (i: number) => weights?.[i] ?? 1;
    if (combine === 'sum_then_normalize') {
      return centred(groups, weightedSum(functions, weightOf), scale, eps).map((value) => value ?? 0);
    }
    const sums = weightedSum(
      functions.map((column) => centred(groups, column, 'group', eps)),
      weightOf,
    );
    const all = { numbers: new Int32Array(sums.length), count: 1 };
    return centred(all, sums, 'group', eps).map((value) => value ?? 0);
  },
};

/** One column for each reward function. */
function columnsOf(reward: Static<typeof Input>['reward']): Column[] {
  if (!reward.some(Array.isArray)) return [reward as Column];
  const rows = reward.map((one) => (Array.isArray(one) ? one : [one]));
  const width = rows[0]?.length ?? 1;
  const ragged = rows.findIndex((row) => row.length !== width);
  if (ragged >= 0) refuseInput(`reward[${ragged}]`, `${width} rewards, as in the first row`, reward[ragged]);
  return Array.from({ length: width }, (_, i) => rows.map((row) => row[i]!));
}

/** Null only where every function gave null. */
function weightedSum(columns: readonly Column[], weightOf: (i: number) => number): Column {
  const total: (number | null)[] = new Array(columns[0]?.length ?? 0).fill(null);
  for (const [i, column] of columns.entries()) {
    const weight = weightOf(i);
    for (let row = 0; row < total.length; row++) {
      const value = column[row];
      if (value !== null && value !== undefined) total[row] = (total[row] ?? 0) + weight * value;
    }
  }
  return total;
}

function centred(groups: Groups, values: Column, scale: Params['scale'], eps: number): Column {
  const { mean: centre, deviation } = groupStatistics(groups, values, 1);
  const batch =
    scale === 'batch'
      ? standardDeviation(
          values.filter((value) => value !== null),
          1,
        )
      : 0;
  return values.map((value, row) => {
    if (value === null) return null;
    const group = groups.numbers[row]!;
    const difference = value - centre[group]!;
    if (scale === 'none') return difference;
    return difference / ((scale === 'batch' ? batch : deviation[group]!) + eps);
  });
}
