/**
 * Learning from preferences: of two answers to one prompt the chosen one is to become likelier than the rejected one, by more than it is
 * under a reference (DPO, arXiv:2305.18290). The reference is what the run began with, or a model of its own; it is evaluated once, before the
 * first step. Kept: sums over an answer's tokens, label smoothing. Dropped: TRL's other loss types.
 */
import { TroupeError } from '../../errors.ts';
import { dpoLoss } from '../model/losses/dpo.ts';
import { preferenceSegments } from '../model/losses/preference-segments.ts';
import { sftLoss } from '../model/losses/sft.ts';
import type { Order } from './data/orders.ts';
import type { Row } from './data/row.ts';
import type { TokenRow } from './data/training-rows.ts';
import type { Schedule } from './optimizer.ts';
import type { Progress } from './run-state.ts';
import { evaluate, type TrainableModel } from './step.ts';
import { type Adam, trainingLoop, type Watch } from './training-loop.ts';

/** Two answers to one prompt, all of whose trained tokens are compared. */
export type PreferenceRow = {
  readonly promptIds: readonly number[];
  readonly chosen: PairAnswer;
  readonly rejected: PairAnswer;
  /** What the loss of the pair is multiplied by; 1 where it is left out. */
  readonly weight?: number;
};
type PairAnswer = Omit<TokenRow, 'promptIds' | 'weight'>;

/** Log-probability of the chosen and of the rejected answer under the reference, in nats. */
export type ReferenceScore = readonly [chosen: number, rejected: number];

export type PreferenceOptions = {
  readonly steps: number;
  readonly order: Order;
  /** How far the policy may leave the reference: the larger, the less. */
  readonly beta: number;
  /** Share of the labels taken to be the wrong way round. */
  readonly labelSmoothing: number;
  readonly schedule: Schedule;
  readonly adam: Adam;
  /** Of each row. */
  readonly reference: readonly ReferenceScore[];
  readonly heldOut?: { readonly rows: readonly PreferenceRow[]; readonly reference: readonly ReferenceScore[] };
};

/** Trains in place. @throws TroupeError `training_failed` where there is no pair. */
export async function preference(
  model: TrainableModel,
  rows: readonly PreferenceRow[],
  { beta, labelSmoothing, reference, order, heldOut, ...course }: PreferenceOptions,
  watch?: Watch,
  progress?: Progress,
): Promise<Progress> {
  if (rows.length === 0) throw new TroupeError('training_failed', 'No pair of answers is left to learn from.');
  return trainingLoop(
    model,
    {
      ...course,
      loss: dpoLoss({ beta, labelSmoothing }),
      rowsOf: (step) => {
        const taken = order(step);
        return preferenceBatch(
          taken.map((row) => rows[row]!),
          taken.map((row) => reference[row]!),
        );
      },
      heldOut: heldOut ? preferenceBatch(heldOut.rows, heldOut.reference) : [],
    },
    watch,
    progress,
  );
}

/** The log-probabilities of both answers of each row, before training. */
export async function referenceScores(
  model: TrainableModel,
  rows: readonly PreferenceRow[],
): Promise<ReferenceScore[]> {
  if (rows.length === 0) return [];
  const asked = rows.map(({ promptIds, chosen, rejected }) => ({
    promptIds,
    completions: [chosen, rejected].map(({ tokenIds, trained }) => ({ tokenIds, weights: trained.map(Number) })),
  }));
  const { logprobs } = await evaluate(model, asked, sftLoss);
  const sum = (tokens: readonly (number | null)[] = []) => tokens.reduce<number>((all, one) => all + (one ?? 0), 0);
  return logprobs.map(([chosen, rejected]) => [sum(chosen), sum(rejected)]);
}

export function preferenceBatch(rows: readonly PreferenceRow[], reference: readonly ReferenceScore[]): Row[] {
  return rows.map(({ promptIds, chosen, rejected, weight = 1 }, i) => {
    const { completions, segmentWeights } = preferenceSegments(chosen.trained, rejected.trained, rows.length);
    const sides = [chosen, rejected] as const;
    return {
      promptIds,
      segmentWeights: segmentWeights.map((share) => share * weight),
      completions: sides.map(({ tokenIds, trained }, side) => ({
        tokenIds,
        ...completions[side as 0 | 1],
        refLogprobs: spread(reference[i]![side as 0 | 1], trained),
      })),
    };
  });
}

/** The loss reads the sum over an answer alone, so each of its tokens gets the same part of it. */
function spread(total: number, trained: readonly boolean[]): number[] {
  const count = trained.filter(Boolean).length;
  return trained.map((on) => (on ? total / count : 0));
}
