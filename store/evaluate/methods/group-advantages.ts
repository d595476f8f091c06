/** Advantages of rewards against the group that they belong to: GRPO and RLOO as in verl, GRPO as in TRL. */

import { type Static, Type } from 'typebox';
import { creditByGroup } from '../judging/reward-groups.ts';
import { VERL_PARAMS, verlAdvantage } from './group-relative.ts';
import { method } from './method.ts';
import { refuseInput, requireRows } from './refuse.ts';
import { type Immutable, Key, Reward } from './shapes.ts';
import { columnOf, type Groups, groupRows, groupStatistics } from './statistics.ts';

/**
 * GRPO: each sample against the other samples of its query; with `scale_std: false`, Dr. GRPO.
 *
 * Source: verl, verl/trainer/ppo/core_algos.py (compute_grpo_outcome_advantage). Verified (code).
 * Kept: ddof 1, eps added to the std, and a group of one measured against mean 0 and std 1, so that its reward comes through:
 * surprising, and therefore flagged by whoever stores it. A null reward has a null advantage and no part in the statistics.
 * Dropped: the spread over tokens; an advantage is one number a sample.
 * Open: nothing known.
 * Version 2 gives a candidate that the episode did not go on from no credit of the episode.
 */
export const grpoAdvantage = method({
  name: 'grpo_advantage',
  kind: 'credit',
  source: 'GRPO, Dr. GRPO: verl/trainer/ppo/core_algos.py; verified (code)',
  version: 2,
  summary: 'Reward minus the mean of its group, divided by the group’s std (Dr. GRPO: not divided).',
  params: VERL_PARAMS,
  limits: { eps: Type.Number({ minimum: 0 }) },
  input: Type.Object({ group: Type.Array(Key), reward: Type.Array(Reward) }),
  run: ({ group, reward }, params): (number | null)[] => {
    requireRows('reward', reward, group.length, 'group');
    return verlAdvantage(groupRows(group), reward, params);
  },
  judged: {
    reads: ['rewards'],
    rows: (facts, ask) => creditByGroup(facts, ask.run),
  },
});

/**
 * Each sample against the mean of the others in its group.
 *
 * Source: verl, verl/trainer/ppo/core_algos.py (RLOO). Verified (code). A group of one has nobody to compare with and keeps its reward.
 * A null reward has a null advantage.
 * Kept: no division. Dropped: the spread over tokens. Open: nothing known.
 * Version 2 gives a candidate that the episode did not go on from no credit of the episode.
 */
export const rlooAdvantage = method({
  name: 'rloo_advantage',
  kind: 'credit',
  source: 'RLOO: verl/trainer/ppo/core_algos.py; verified (code)',
  version: 2,
  summary: 'Reward minus the mean reward of the other samples of its group.',
  input: Type.Object({ group: Type.Array(Key), reward: Type.Array(Reward) }),
  run: ({ group, reward }): (number | null)[] => {
    requireRows('reward', reward, group.length, 'group');
    const groups = groupRows(group);
    const { size, mean } = groupStatistics(groups, reward, 0);
    return reward.map((one, row) => {
      if (one === null) return null;
      const at = groups.numbers[row]!;
      const n = size[at]!;
      // r − (n·mean − r)/(n − 1) = n/(n − 1)·(r − mean), which is exactly 0 where all are equal.
      return n === 1 ? one : ((one - mean[at]!) * n) / (n - 1);
    });
  },
  judged: {
    reads: ['rewards'],
    rows: (facts, ask) => creditByGroup(facts, ask.run),
  },
});

const Input = Type.Object({
  group: Type.Array(Key),
  reward: Type.Array(Type.Union([Reward, Type.Array(Reward, { minItems: 1 })])),
});
type Params = {
  readonly scale: 'group' | 'batch' | 'none';
  readonly combine: 'sum_then_normalize' | 'normalize_then_sum';
  readonly weights: readonly number[] | null;
  readonly eps: number;
};
const params: Params = { scale: 'group', combine: 'sum_then_normalize', weights: null, eps: 1e-4 };

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
 * Version 2 gives a candidate that the episode did not go on from no credit of the episode.
 */
export const trlAdvantage = method({
  name: 'trl_advantage',
  kind: 'credit',
  source: 'GRPO: trl/trainer/grpo_trainer.py; verified (code)',
  version: 2,
  summary: 'Reward minus the mean of its group, over the std of group or batch or not divided, as TRL does it.',
  params,
  limits: {
    scale: Type.Union([Type.Literal('group'), Type.Literal('batch'), Type.Literal('none')]),
    combine: Type.Union([Type.Literal('sum_then_normalize'), Type.Literal('normalize_then_sum')]),
    weights: Type.Union([Type.Array(Type.Number()), Type.Null()]),
    eps: Type.Number({ exclusiveMinimum: 0 }),
  },
  input: Input,
  run: ({ group, reward }, { scale, combine, weights, eps }): number[] => {
    requireRows('reward', reward, group.length, 'group');
    const groups = groupRows(group);
    const functions = columnsOf(reward);
    if (weights !== null) requireRows('weights', weights, functions.length, 'the reward functions');
    const weightOf = (i: number) => weights?.[i] ?? 1;
    const given = weightedSum(functions, weightOf);
    if (combine === 'sum_then_normalize') return counted(centred(groups, given, scale, eps), given);
    const sums = weightedSum(
      functions.map((column) => centred(groups, column, 'group', eps)),
      weightOf,
    );
    return counted(centred(oneGroup(sums.length), sums, 'group', eps), given);
  },
  judged: {
    reads: ['rewards'],
    // It can scale by the std of the whole batch, and normalise over it: its batch is everything that is judged together.
    scope: ({ scale, combine }) => (scale === 'group' && combine !== 'normalize_then_sum' ? 'group' : 'set'),
    rows: (facts, ask) => creditByGroup(facts, ask.run),
  },
});

/** One column for each reward function, NaN where it gave null. */
function columnsOf(reward: Immutable<Static<typeof Input>>['reward']): Float64Array[] {
  if (!reward.some(Array.isArray)) return [columnOf(reward as (number | null)[])];
  const rows = reward.map((one) => (Array.isArray(one) ? one : [one]));
  const width = rows[0]!.length;
  const ragged = rows.findIndex((row) => row.length !== width);
  if (ragged >= 0) refuseInput(`reward[${ragged}]`, `${width} rewards, as in the first row`, reward[ragged]);
  return Array.from({ length: width }, (_, i) => columnOf(rows.map((row) => row[i]!)));
}

/** NaN only where every function has NaN. */
function weightedSum(columns: readonly Float64Array[], weightOf: (i: number) => number): Float64Array {
  // One reward function is the usual case, and its sum is itself: a fifth of the time.
  if (columns.length === 1 && weightOf(0) === 1) return columns[0]!;
  const total = new Float64Array(columns[0]!.length).fill(Number.NaN);
  for (const [i, column] of columns.entries()) {
    const weight = weightOf(i);
    for (let row = 0; row < total.length; row++) {
      const value = column[row]!;
      if (Number.isNaN(value)) continue;
      const sum = total[row]!;
      total[row] = (Number.isNaN(sum) ? 0 : sum) + weight * value;
    }
  }
  return total;
}

const oneGroup = (rows: number): Groups => ({ numbers: new Int32Array(rows), count: 1 });

function centred({ numbers, count }: Groups, values: Float64Array, scale: Params['scale'], eps: number): Float64Array {
  const { mean, deviation } = groupStatistics({ numbers, count }, values, 1);
  const batch = scale === 'batch' ? groupStatistics(oneGroup(values.length), values, 1).deviation[0]! : 0;
  const divisor = deviation.map((own) => (scale === 'none' ? 1 : (scale === 'batch' ? batch : own) + eps));
  const result = new Float64Array(values.length);
  for (let row = 0; row < result.length; row++) {
    const group = numbers[row]!;
    result[row] = (values[row]! - mean[group]!) / divisor[group]!;
  }
  return result;
}

/** TRL's `nan_to_num`: what has no reward has advantage 0. */
function counted(advantages: Float64Array, given: Float64Array): number[] {
  const counts: number[] = new Array(advantages.length);
  for (let row = 0; row < counts.length; row++) {
    counts[row] = Number.isNaN(given[row]!) ? 0 : advantages[row]!;
  }
  return counts;
}
