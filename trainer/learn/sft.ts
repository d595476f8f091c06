/**
 * Supervised fine-tuning: the model learns to generate the rows. Means over all trained tokens of a batch, or over its sequences of
 * each sequence's mean (M1-32B, arXiv:2504.09772, writes the second in its paper and trains with the first, its framework's default).
 * Kept of it: both means, all steps of a problem as one batch. Dropped: packing, which sequences laid end to end do not need.
 */
import { TroupeError } from '../../errors.ts';
import { sequenceMeanWeights, sftLoss, tokenMeanWeights } from '../model/losses/sft.ts';
import { sftEntropyLoss } from '../model/losses/sft-entropy.ts';
import { equalBeginnings } from './data/equal-beginnings.ts';
import type { Order } from './data/orders.ts';
import type { Row } from './data/row.ts';
import type { TokenRow } from './data/training-rows.ts';
import type { Schedule } from './optimizer.ts';
import type { Progress } from './run-state.ts';
import type { TrainableModel } from './step.ts';
import { type Adam, trainingLoop, type Watch } from './training-loop.ts';

/** How the tokens of a batch become one number, with the weights of each sequence's tokens. */
const MEANS = { 'token-mean': tokenMeanWeights, 'sequence-mean': sequenceMeanWeights } as const;
export type SftMean = keyof typeof MEANS;
export const SFT_MEANS = Object.keys(MEANS) as SftMean[];

export type SftOptions = {
  readonly steps: number;
  readonly order: Order;
  readonly mean: SftMean;
  /** Weight of the entropy bonus, 0 for none. */
  readonly entropy: number;
  readonly schedule: Schedule;
  readonly adam: Adam;
  readonly heldOut?: readonly TokenRow[];
};

/** Trains in place. @throws TroupeError `training_failed` where no row has a trained token. */
export async function sft(
  model: TrainableModel,
  rows: readonly TokenRow[],
  { mean, entropy, order, heldOut = [], ...course }: SftOptions,
  watch?: Watch,
  progress?: Progress,
): Promise<Progress> {
  if (!rows.some(hasTarget)) throw new TroupeError('training_failed', 'No row has a token to learn.');
  // Layers are computed again only where rows stand alone, and who asks for that lacks memory, not time.
  const laid = model.recompute ? (alone: Row[]) => alone : equalBeginnings;
  return trainingLoop(
    model,
    {
      ...course,
      loss: entropy > 0 ? sftEntropyLoss : sftLoss,
      rowsOf: (step) =>
        laid(
          supervisedBatch(
            order(step).map((row) => rows[row]!),
            mean,
            entropy,
          ),
        ),
      heldOut: heldOut.length > 0 ? equalBeginnings(supervisedBatch(heldOut, mean, entropy)) : [],
    },
    watch,
    progress,
  );
}

/** Rows whose weights make the loss of the batch the mean asked for, each row's part of it times the row's weight. */
export function supervisedBatch(rows: readonly TokenRow[], mean: SftMean, entropy: number): Row[] {
  const weights = MEANS[mean](rows.map((row) => row.trained));
  return rows.map(({ promptIds, tokenIds, weight: times = 1 }, i) => {
    const own = weights[i]!.map((weight) => weight * times);
    return {
      promptIds,
      completions: [
        { tokenIds, weights: own, ...(entropy > 0 ? { entropyWeights: own.map((weight) => weight * entropy) } : {}) },
      ],
    };
  });
}

const hasTarget = ({ trained }: TokenRow): boolean => trained.includes(true);
