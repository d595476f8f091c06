/** A reward model: of two answers to one prompt the chosen one is to score higher at its last token than the rejected one. */
import { TroupeError } from '../../errors.ts';
import { lastTokenPreference } from '../model/losses/preference-segments.ts';
import { bradleyTerryLoss } from '../model/losses/reward-head.ts';
import type { Order } from './data/orders.ts';
import type { Row } from './data/row.ts';
import type { Schedule } from './optimizer.ts';
import type { PreferenceRow } from './preference.ts';
import type { Progress } from './run-state.ts';
import type { TrainableModel } from './step.ts';
import { type Adam, trainingLoop, type Watch } from './training-loop.ts';

export type RewardHeadOptions = {
  readonly steps: number;
  readonly order: Order;
  readonly schedule: Schedule;
  readonly adam: Adam;
  readonly heldOut?: readonly PreferenceRow[];
};

/** Trains in place a model whose head is `reward`. @throws TroupeError `training_failed` where there is no pair. */
export async function trainRewardHead(
  model: TrainableModel,
  pairs: readonly PreferenceRow[],
  { order, heldOut = [], ...course }: RewardHeadOptions,
  watch?: Watch,
  progress?: Progress,
): Promise<Progress> {
  if (pairs.length === 0) throw new TroupeError('training_failed', 'No pair of answers is left to learn from.');
  return trainingLoop(
    model,
    {
      ...course,
      loss: bradleyTerryLoss,
      rowsOf: (step) => rewardBatch(order(step).map((row) => pairs[row]!)),
      heldOut: rewardBatch(heldOut),
    },
    watch,
    progress,
  );
}

/** Each pair as one row whose loss is the mean over the pairs. */
function rewardBatch(pairs: readonly PreferenceRow[]): Row[] {
  return pairs.map(({ promptIds, chosen, rejected, weight = 1 }) => {
    const sides = [chosen.tokenIds, rejected.tokenIds] as const;
    const { completions, segmentWeights } = lastTokenPreference(sides[0].length, sides[1].length, pairs.length);
    return {
      promptIds,
      segmentWeights: segmentWeights.map((share) => share * weight),
      completions: completions.map((weighed, side) => ({ tokenIds: sides[side as 0 | 1], ...weighed })),
    };
  });
}
