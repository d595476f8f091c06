/**
 * A critic: before each token of a row the value head is to output the reward that the row earned. The reward is that of the whole
 * answer and is not discounted, so every trained token has the same target; the loss of a step is the mean over its trained tokens.
 */
import { TroupeError } from '../../errors.ts';
import type { Loss } from '../model/losses/loss.ts';
import { tokenMeanWeights } from '../model/losses/sft.ts';
import { valueCrossEntropyLoss, valueHuberLoss, valueMseLoss } from '../model/losses/value-regression.ts';
import type { Order } from './data/orders.ts';
import type { Row } from './data/row.ts';
import type { ValueRow } from './data/value-rows.ts';
import type { Schedule } from './optimizer.ts';
import type { Progress } from './run-state.ts';
import type { TrainableModel } from './step.ts';
import { type Adam, trainingLoop, type Watch } from './training-loop.ts';

const LOSSES = {
  mse: valueMseLoss,
  huber: valueHuberLoss(),
  'cross-entropy': valueCrossEntropyLoss,
} as const satisfies Readonly<Record<string, Loss>>;
export type ValueLossName = keyof typeof LOSSES;
export const VALUE_LOSSES = Object.keys(LOSSES) as ValueLossName[];

export type ValueHeadOptions = {
  readonly steps: number;
  readonly order: Order;
  readonly loss: ValueLossName;
  readonly schedule: Schedule;
  readonly adam: Adam;
  readonly heldOut?: readonly ValueRow[];
};

/** Trains in place a model whose head is `value`. @throws TroupeError `training_failed` where there is no row. */
export async function trainValueHead(
  model: TrainableModel,
  rows: readonly ValueRow[],
  { loss, order, heldOut = [], ...course }: ValueHeadOptions,
  watch?: Watch,
  progress?: Progress,
): Promise<Progress> {
  if (rows.length === 0) throw new TroupeError('training_failed', 'No row with a reward is left to learn from.');
  return trainingLoop(
    model,
    {
      ...course,
      loss: LOSSES[loss],
      rowsOf: (step) => valueBatch(order(step).map((row) => rows[row]!)),
      heldOut: valueBatch(heldOut),
    },
    watch,
    progress,
  );
}

/** Rows with their targets, and weights that make the loss a mean over the trained tokens. */
export function valueBatch(rows: readonly ValueRow[]): Row[] {
  const weights = tokenMeanWeights(rows.map(({ trained }) => trained));
  return rows.map(({ promptIds, tokenIds, reward }, i) => ({
    promptIds,
    completions: [{ tokenIds, weights: weights[i]!, returns: tokenIds.map(() => reward) }],
  }));
}
