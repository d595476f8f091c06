/**
 * Policy gradient over a frozen dataset, role by role: passes over its groups in an order of the seed's, a step for every few groups.
 * Advantages come from the dataset: whoever judged them is named there. Groups whose advantages are all zero carry no signal and are
 * left out. Dropped: training on rows whose advantage is unknown.
 */
import { TroupeError } from '../../errors.ts';
import { sftLoss } from '../model/losses/sft.ts';
import { randomStream } from '../tensor/random.ts';
import { shuffle } from './data/shuffle.ts';
import type { TrainingRow } from './data/training-rows.ts';
import type { Schedule } from './optimizer.ts';
import { type PolicyLossName, type PolicyLossOptions, type PolicyRow, policyLoss } from './policy-losses.ts';
import { beginning, type Progress } from './run-state.ts';
import { evaluate, type TrainableModel } from './step.ts';
import { type Adam, type FinishedStep, trainingLoop, type Watch } from './training-loop.ts';

export type RlOptions = {
  readonly roles: readonly {
    readonly role: string;
    /** Groups in one optimizer step. */
    readonly groups: number;
    readonly learningRate: number;
    readonly entropy: number;
  }[];
  readonly loss: PolicyLossName;
  readonly clip: Pick<PolicyLossOptions, 'clipLow' | 'clipHigh'>;
  /** Coefficient of the divergence to the reference; above 0 each row needs its log-probabilities under it. */
  readonly kl?: number;
  readonly epochs?: number;
  /** Factor of the roles' learning rates at each step. */
  readonly schedule: (steps: number) => Schedule;
  readonly adam: Adam;
  readonly seed: number;
};

type RoleMetrics = {
  readonly steps: number;
  /** Share of the groups that carried a signal. */
  readonly signal: number;
  readonly gradientNorm: number;
  readonly entropy: number;
  readonly clipShare: number;
  readonly tokens: number;
};

export type RlOutcome = { readonly progress: Progress; readonly roles: Record<string, RoleMetrics> };

/** Advantages below this are no signal. */
export const NO_SIGNAL = 1e-3;

/** Trains in place. Returns what each role's steps looked like; those before `progress` are not among them. */
export async function rlPass(
  model: TrainableModel,
  rows: readonly PolicyRow[],
  options: RlOptions,
  watch: Watch = {},
  progress: Progress = beginning(),
): Promise<RlOutcome> {
  const { kl = 0 } = options;
  if (kl > 0 && rows.some((row) => row.reference === undefined)) {
    throw new TroupeError('training_failed', 'A divergence needs the log-probabilities of a reference for each row.');
  }
  const plan = policyPlan(rows, options);
  const seen = new Map<string, FinishedStep[]>();
  const onStep = async (done: FinishedStep) => {
    const { role } = plan.steps[done.step - 1]!;
    seen.set(role, [...(seen.get(role) ?? []), done]);
    await watch.onStep?.(done);
  };
  const factor = options.schedule(plan.steps.length);
  // One graph for all roles: what differs in them, the bonus, is in the weights.
  const bonus = Math.max(0, ...options.roles.map((role) => role.entropy));
  const lossOf = (entropy: number) => policyLoss(options.loss, { ...options.clip, entropy, kl });
  const reached = await trainingLoop(
    model,
    {
      steps: plan.steps.length,
      rowsOf: (step) => lossOf(plan.steps[step]!.entropy).rowsOf(plan.steps[step]!.rows),
      loss: lossOf(bonus).loss,
      schedule: (step) => plan.steps[step]!.learningRate * factor(step),
      adam: options.adam,
    },
    { ...watch, onStep },
    progress,
  );
  const roles = options.roles.map(({ role }) => [role, roleMetrics(seen.get(role) ?? [], plan.signal[role] ?? 0)]);
  return { progress: reached, roles: Object.fromEntries(roles) };
}

export type PolicyPlan = {
  readonly steps: readonly {
    readonly role: string;
    readonly rows: readonly PolicyRow[];
    readonly entropy: number;
    readonly learningRate: number;
  }[];
  /** By role, the share of groups that carry a signal. */
  readonly signal: Readonly<Record<string, number>>;
};

/** The rows of every step, drawn from the seed: role by role, each useful group once in a pass. */
export function policyPlan(
  rows: readonly PolicyRow[],
  { roles, epochs = 1, seed }: Pick<RlOptions, 'roles' | 'epochs' | 'seed'>,
): PolicyPlan {
  const random = randomStream(seed);
  const sets = roles.map((options) => {
    const groups = groupsOf(rows.filter((row) => row.role === options.role));
    const useful = groups.filter((group) => group.some((row) => Math.abs(row.advantage ?? 0) > NO_SIGNAL));
    return { ...options, useful, signal: groups.length === 0 ? 0 : useful.length / groups.length };
  });
  const steps: PolicyPlan['steps'][number][] = [];
  for (let epoch = 0; epoch < epochs; epoch++) {
    for (const { role, groups: perStep, learningRate, entropy, useful } of sets) {
      shuffle(useful, random);
      for (let i = 0; i < useful.length; i += perStep) {
        const part = useful.slice(i, i + perStep);
        // A small remainder would be a noisy step of its own.
        if (part.length < perStep / 4 && i > 0) break;
        const share = Math.min(1, part.length / perStep);
        steps.push({ role, rows: part.flat(), entropy, learningRate: learningRate * share });
      }
    }
  }
  return { steps, signal: Object.fromEntries(sets.map(({ role, signal }) => [role, signal])) };
}

/** The rows with their log-probabilities under a model, which is not trained by it; 0 where a token is not trained. */
export async function withReference(model: TrainableModel, rows: readonly TrainingRow[]): Promise<PolicyRow[]> {
  const asked = rows.map(({ promptIds, tokenIds, trained }) => ({
    promptIds,
    completions: [{ tokenIds, weights: trained.map(Number) }],
  }));
  if (rows.length === 0) return [];
  const { logprobs } = await evaluate(model, asked, sftLoss);
  return rows.map((row, i) => ({ ...row, reference: logprobs[i]![0]!.map((one) => one ?? 0) }));
}

function groupsOf(rows: readonly PolicyRow[]): PolicyRow[][] {
  const groups = new Map<string, PolicyRow[]>();
  for (const row of rows) {
    // A null advantage is unknown, not zero: the row teaches nothing.
    if (row.advantage === null) continue;
    const group = groups.get(row.group);
    if (group) group.push(row);
    else groups.set(row.group, [row]);
  }
  return [...groups.values()];
}

function roleMetrics(steps: readonly FinishedStep[], signal: number): RoleMetrics {
  const mean = (of: (step: FinishedStep) => number): number =>
    steps.length === 0 ? 0 : steps.reduce((sum, step) => sum + of(step), 0) / steps.length;
  return {
    steps: steps.length,
    signal,
    gradientNorm: mean(({ gradientNorm }) => gradientNorm),
    entropy: mean(({ metrics }) => metrics.entropy ?? 0),
    clipShare: mean(({ metrics }) => metrics.clip_share ?? 0),
    tokens: steps.reduce((sum, { trainedTokens }) => sum + trainedTokens, 0),
  };
}
