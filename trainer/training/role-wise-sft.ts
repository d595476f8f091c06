/**
 * Supervised fine-tuning, role by role: each role has its own number of steps, and the steps of all roles are interleaved at random,
 * so that one model learns several roles at once. The loss is the mean over sequences of each sequence's mean over its tokens
 * (M1-32B, arXiv:2504.09772). Kept: role-wise sets, sequence mean.
 */
import { TroupeError } from '../../errors.ts';
import type { Row } from '../data/row.ts';
import { endless, shuffle } from '../data/shuffle.ts';
import type { TokenRow, TrainingRow } from '../data/training-rows.ts';
import { sftLoss } from '../losses/sft.ts';
import { sftEntropyLoss } from '../losses/sft-entropy.ts';
import { randomStream } from '../random.ts';
import { type Schedule, withWarmup } from './optimizer.ts';
import type { TrainableModel } from './step.ts';
import { type Adam, type StepDone, trainingLoop, type Watch } from './training-loop.ts';

export type RoleWiseOptions = {
  /** Optimizer steps by role; a role without rows is left out. */
  readonly steps: Readonly<Record<string, number>>;
  readonly batch: number;
  readonly learningRate: number;
  readonly warmup: number;
  /** Weight of the entropy bonus, 0 for none. */
  readonly entropy: number;
  readonly seed: number;
  readonly adam: Adam;
};

/** Trains in place. Returns of each role its mean loss over the last tenth of its steps. */
export async function roleWiseSft(
  model: TrainableModel,
  rows: readonly TrainingRow[],
  options: RoleWiseOptions,
  watch: Watch = {},
): Promise<Record<string, { readonly loss: number }>> {
  const plan = rolePlan(rows, options);
  const losses = new Map<string, number[]>();
  const onStep = async (done: StepDone) => {
    await watch.onStep?.(done);
    const { role } = plan[done.step - 1]!;
    const ofRole = losses.get(role) ?? [];
    losses.set(role, ofRole);
    ofRole.push(likelihood(done.logprobs));
  };
  // The last 30 % fall to a tenth: early steps find the region, late ones settle in it.
  const fall: Schedule = (step) =>
    options.learningRate * (step > plan.length * 0.7 ? Math.max(0.1, (plan.length - step) / (plan.length * 0.3)) : 1);
  await trainingLoop(
    model,
    {
      steps: plan.length,
      rowsOf: (step) => plan[step]!.rows.map((row) => sequenceMeanRow(row, options.batch, options.entropy)),
      loss: options.entropy > 0 ? sftEntropyLoss : sftLoss,
      schedule: withWarmup(options.warmup, fall),
      adam: options.adam,
    },
    { ...watch, onStep },
  );
  return Object.fromEntries(
    [...losses].map(([role, all]) => {
      const late = all.slice(-Math.ceil(all.length / 10));
      return [role, { loss: late.reduce((a, b) => a + b, 0) / late.length }];
    }),
  );
}

/**
 * The rows of every step, drawn from the seed: each row of a role is drawn once before any is drawn again.
 * @throws TroupeError `training_failed` where no row has one of the roles.
 */
export function rolePlan(
  rows: readonly TrainingRow[],
  { steps, batch, seed }: Pick<RoleWiseOptions, 'steps' | 'batch' | 'seed'>,
): { readonly role: string; readonly rows: readonly TrainingRow[] }[] {
  const random = randomStream(seed);
  const sets = Object.entries(steps)
    .map(([role, count]) => ({ role, count, rows: rows.filter((row) => row.role === role) }))
    .filter(({ rows: mine }) => mine.length > 0)
    .map((set) => ({ ...set, draw: endless(set.rows, random) }));
  if (sets.length === 0) {
    throw new TroupeError(
      'training_failed',
      `No row of the dataset has one of the roles ${Object.keys(steps).join(', ')}; there is nothing to learn.`,
    );
  }
  const order = shuffle(
    sets.flatMap((set) => Array.from({ length: set.count }, () => set)),
    random,
  );
  return order.map(({ role, draw }) => ({ role, rows: Array.from({ length: batch }, draw) }));
}

function sequenceMeanRow(row: TokenRow, sequences: number, entropy: number): Row {
  const count = row.trained.filter(Boolean).length;
  const weights = row.trained.map((on) => (on ? (row.weight ?? 1) / (sequences * count) : 0));
  const bonus = entropy > 0 ? { entropyWeights: weights.map((weight) => weight * entropy) } : {};
  return { promptIds: row.promptIds, completions: [{ tokenIds: row.tokenIds, weights, ...bonus }] };
}

/** Mean over sequences of the mean negative log-likelihood of their trained tokens. */
function likelihood(logprobs: StepDone['logprobs']): number {
  const means = logprobs
    .flat()
    .map((tokens) => tokens.filter((logprob) => logprob !== null))
    .filter((tokens) => tokens.length > 0)
    .map((tokens) => -tokens.reduce((a, b) => a + b, 0) / tokens.length);
  return means.reduce((a, b) => a + b, 0) / means.length;
}
