/** Rows for a value head: what was generated, and the reward that it earned. */
import type { OpenModel } from '../models/model-directory.ts';
import { type RowModel, record, refuse, supervisedLine } from './training-files.ts';
import { type RewardedStep, supervisedRow, type TokenRow } from './training-rows.ts';

export type ValueRow = TokenRow & {
  readonly reward: number;
  /** The task, where it is known. */
  readonly problem?: string;
};

/** Rewards that a loss takes: any, or shares from 0 to 1. */
export type RewardRange = 'any' | 'share';

/** A line of supervised learning with `"reward"` beside it. @throws TroupeError `input_refused` naming the field. */
export const valueLine = (value: unknown, model: RowModel, range: RewardRange): ValueRow => ({
  ...unweighed(supervisedLine(value, model)),
  reward: rewardOf(record(value).reward, range),
});

/** A step of a dataset with the column `reward`. @throws TroupeError `input_refused` naming the field. */
export function valueRow(step: RewardedStep, model: OpenModel, range: RewardRange): ValueRow {
  const reward = rewardOf(step.reward, range);
  return { ...unweighed(supervisedRow(step, model)), reward };
}

/** The loss of a value head has no weights of rows. */
const unweighed = <R extends TokenRow>(row: R): R =>
  row.weight === undefined ? row : refuse('weight', 'left out, since a value head takes no weights', row.weight);

function rewardOf(value: unknown, range: RewardRange): number {
  const fits = typeof value === 'number' && Number.isFinite(value) && (range === 'any' || (value >= 0 && value <= 1));
  return fits ? value : refuse('reward', range === 'any' ? 'a number' : 'a number from 0 to 1', value);
}
