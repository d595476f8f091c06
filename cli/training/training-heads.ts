/** What `train value` and `train reward` do with their flags. */
import { readRows } from '../../trainer/learn/data/training-files.ts';
import type { RewardedStep } from '../../trainer/learn/data/training-rows.ts';
import { type RewardRange, type ValueRow, valueLine, valueRow } from '../../trainer/learn/data/value-rows.ts';
import { courseOf } from '../../trainer/learn/numbers.ts';
import { trainRewardHead } from '../../trainer/learn/reward-head.ts';
import { trainValueHead, type ValueLossName } from '../../trainer/learn/value-head.ts';
import type { Flags } from '../command.ts';
import { numbersOf, prepared, runTraining } from './training.ts';
import { fitted, planOf, preparedPairs, requirePairMemory, requireRowMemory, requireUnit } from './training-methods.ts';

export async function trainValue(flags: Flags): Promise<number> {
  const loss = flags.loss as ValueLossName;
  const range: RewardRange = loss === 'cross-entropy' ? 'share' : 'any';
  const problem = (row: ValueRow, i: number) => row.problem ?? String(i);
  const ready = await prepared<ValueRow>(
    flags,
    'value',
    (start, longest) => ({
      ofLine: (value) => valueLine(value, start, range),
      ofDataset: (dataset, split) => {
        requireUnit(dataset.manifest.recipe.unit);
        return readRows(dataset.rows(split) as Iterable<unknown>, (row) => valueRow(row as RewardedStep, start, range));
      },
      fit: (row) => fitted(row, longest),
      problem,
    }),
    'value',
  );
  const { rows, heldOut } = ready;
  const plan = planOf(flags, rows.map(problem));
  requireRowMemory(flags, ready, plan);
  const course = { ...courseOf('value', plan, numbersOf(flags)), loss, heldOut };
  return runTraining(flags, ready, { ...plan.settings, loss }, plan.steps, {
    train: async ({ learner, progress }, watch) => ({
      progress: await trainValueHead(learner.model, rows, course, watch, progress),
    }),
  });
}

export async function trainReward(flags: Flags): Promise<number> {
  const ready = await preparedPairs(flags, 'reward', 'reward');
  const { rows, heldOut, plan } = ready;
  requirePairMemory(flags, ready, plan);
  const course = { ...courseOf('reward', plan, numbersOf(flags)), heldOut };
  return runTraining(flags, ready, plan.settings, plan.steps, {
    train: async ({ learner, progress }, watch) => ({
      progress: await trainRewardHead(learner.model, rows, course, watch, progress),
    }),
  });
}
