/**
 * Supervised fine-tuning, role by role: each role has its own number of steps, and the steps of all roles are interleaved at random,
 * so that one model learns several roles at once. The loss is the mean over sequences of each sequence's mean over its tokens
 * (M1-32B, arXiv:2504.09772). Kept: role-wise sets, sequence mean. Dropped: packing and length buckets, which short rows do not need.
 */
import { TroupeError } from '../errors.ts';
import type { Row } from './batch.ts';
import { sftLoss } from './losses/sft.ts';
import { sftEntropyLoss } from './losses/sft-entropy.ts';
import { type Schedule, withWarmup } from './optimizer.ts';
import { randomStream } from './random.ts';
import { endless, shuffle } from './shuffle.ts';
import { type TrainableModel, trainStep } from './step.ts';
import type { TrainingRow } from './training-rows.ts';

export type SftOptions = {
  /** Optimizer steps by role; a role without rows is left out. */
  readonly steps: Readonly<Record<string, number>>;
  readonly batch: number;
  readonly learningRate: number;
  readonly warmup: number;
  /** Weight of the entropy bonus, 0 for none. */
  readonly entropy: number;
  readonly seed: number;
  readonly onStep?: (
    step: number,
    total: number,
    metrics: { readonly loss: number; readonly gradientNorm: number },
  ) => void | Promise<void>;
};

/** Trains in place. Returns the mean loss of each role over its last tenth of steps. */
export async function sft(
  model: TrainableModel,
  rows: readonly TrainingRow[],
  options: SftOptions,
): Promise<Record<string, number>> {
  const random = randomStream(options.seed);
  const sets = Object.entries(options.steps)
    .map(([role, steps]) => ({ role, steps, rows: rows.filter((row) => row.role === role) }))
    .filter(({ rows: mine }) => mine.length > 0)
    .map((set) => ({ ...set, draw: endless(set.rows, random) }));
  if (sets.length === 0) {
    const asked = Object.keys(options.steps).join(', ');
    throw new TroupeError(
      'training_failed',
      `No row of the dataset has one of the roles ${asked}; there is nothing to learn.`,
    );
  }
  const plan = shuffle(
    sets.flatMap((set) => Array.from({ length: set.steps }, () => set)),
    random,
  );
  // The last 30 % fall to a tenth: early steps find the region, late ones settle in it.
  const fall: Schedule = (step) =>
    options.learningRate * (step > plan.length * 0.7 ? Math.max(0.1, (plan.length - step) / (plan.length * 0.3)) : 1);
  const schedule = withWarmup(options.warmup, fall);
  const late = new Map<string, number[]>();
  for (const [step, set] of plan.entries()) {
    const batch = Array.from({ length: options.batch }, set.draw);
    const outcome = await trainStep(
      model,
      batch.map((row) => sequenceMeanRow(row, options.batch, options.entropy)),
      {
        loss: options.entropy > 0 ? sftEntropyLoss : sftLoss,
        learningRate: schedule(step),
      },
    );
    await options.onStep?.(step + 1, plan.length, outcome);
    if (step >= plan.length * 0.9) late.set(set.role, [...(late.get(set.role) ?? []), likelihood(outcome.logprobs)]);
  }
  return Object.fromEntries(
    [...late].map(([role, losses]) => [role, losses.reduce((a, b) => a + b, 0) / losses.length]),
  );
}

function sequenceMeanRow(row: TrainingRow, sequences: number, entropy: number): Row {
  const count = row.trained.filter(Boolean).length;
  const weights = row.trained.map((on) => (on ? 1 / (sequences * count) : 0));
  return {
    promptIds: row.promptIds,
    completions: [{ tokenIds: row.tokenIds, weights, entropyWeights: weights.map((weight) => weight * entropy) }],
  };
}

/** Mean over sequences of the mean negative log-likelihood of their tokens. */
function likelihood(logprobs: readonly (readonly (readonly number[])[])[]): number {
  const means = logprobs.flat().map((tokens) => -tokens.reduce((a, b) => a + b, 0) / tokens.length);
  return means.reduce((a, b) => a + b, 0) / means.length;
}
