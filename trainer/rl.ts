/**
 * One pass of policy gradient over a frozen dataset, role by role: the clipped surrogate of PPO/GRPO with DAPO's wider upper bound and an
 * entropy bonus, mean over sequences of the mean over tokens. Advantages come from the dataset: whoever judged them is named there.
 * Groups whose advantages are all zero carry no signal and are left out. Dropped: KL to a reference, several epochs (stale data
 * learned slower), dual clip.
 */
import type { Row } from './batch.ts';
import { clippedPolicyLoss } from './losses/clipped-policy.ts';
import { randomStream } from './random.ts';
import { shuffle } from './shuffle.ts';
import { type TrainableModel, trainStep } from './step.ts';
import type { TrainingRow } from './training-rows.ts';

export type RoleOptions = {
  readonly role: string;
  /** Groups in one optimizer step. */
  readonly groups: number;
  readonly learningRate: number;
  readonly entropy: number;
};

export type RlOptions = {
  readonly roles: readonly RoleOptions[];
  readonly clipLow: number;
  readonly clipHigh: number;
  /** Optimizer steps over which the rate rises after the optimizer was reset. */
  readonly warmup: number;
  readonly seed: number;
};

export type RoleMetrics = {
  readonly steps: number;
  /** Share of the groups that carried a signal. */
  readonly signal: number;
  readonly gradientNorm: number;
  readonly entropy: number;
  readonly clipShare: number;
  readonly tokens: number;
};

/** Advantages below this are no signal. */
const NO_SIGNAL = 1e-3;

/** Trains in place. Returns what each role's steps looked like. */
export async function rlPass(
  model: TrainableModel,
  rows: readonly TrainingRow[],
  options: RlOptions,
): Promise<Record<string, RoleMetrics>> {
  const random = randomStream(options.seed);
  const loss = clippedPolicyLoss({ clipLow: options.clipLow, clipHigh: options.clipHigh });
  const metrics: Record<string, RoleMetrics> = {};
  for (const { role, groups: perStep, learningRate, entropy } of options.roles) {
    const groups = groupsOf(rows.filter((row) => row.role === role));
    const useful = groups.filter((group) => group.some((row) => Math.abs(row.advantage ?? 0) > NO_SIGNAL));
    shuffle(useful, random);
    const seen: { gradientNorm: number; entropy: number; clipShare: number; tokens: number }[] = [];
    for (let i = 0; i < useful.length; i += perStep) {
      const part = useful.slice(i, i + perStep);
      // A small remainder would be a noisy step of its own.
      if (part.length < perStep / 4 && i > 0) break;
      const share = Math.min(1, part.length / perStep);
      const warm = Math.min(1, (model.optimizer.step + 1) / Math.max(1, options.warmup));
      const outcome = await trainStep(model, batchOf(part.flat(), entropy), {
        loss,
        learningRate: learningRate * share * warm,
      });
      seen.push({
        gradientNorm: outcome.gradientNorm,
        entropy: outcome.entropy ?? 0,
        clipShare: outcome.clipShare ?? 0,
        tokens: outcome.tokens,
      });
    }
    const mean = (field: 'gradientNorm' | 'entropy' | 'clipShare'): number =>
      seen.length === 0 ? 0 : seen.reduce((sum, step) => sum + step[field], 0) / seen.length;
    metrics[role] = {
      steps: seen.length,
      signal: groups.length === 0 ? 0 : useful.length / groups.length,
      gradientNorm: mean('gradientNorm'),
      entropy: mean('entropy'),
      clipShare: mean('clipShare'),
      tokens: seen.reduce((sum, step) => sum + step.tokens, 0),
    };
  }
  return metrics;
}

function groupsOf(rows: readonly TrainingRow[]): TrainingRow[][] {
  const groups = new Map<string, TrainingRow[]>();
  for (const row of rows) {
    // A null advantage is unknown, not zero: the row teaches nothing.
    if (row.advantage === null) continue;
    const group = groups.get(row.group);
    if (group) group.push(row);
    else groups.set(row.group, [row]);
  }
  return [...groups.values()];
}

/** Completions of one call share its prompt. */
function batchOf(rows: readonly TrainingRow[], entropy: number): Row[] {
  const calls = new Map<string, TrainingRow[]>();
  for (const row of rows) {
    const call = calls.get(row.callId);
    if (call) call.push(row);
    else calls.set(row.callId, [row]);
  }
  return [...calls.values()].map((call) => ({
    promptIds: call[0]!.promptIds,
    completions: call.map((row) => {
      const per = 1 / (rows.length * Math.max(1, row.trained.filter(Boolean).length));
      return {
        tokenIds: row.tokenIds,
        weights: row.trained.map((on) => (on ? row.advantage! * per : 0)),
        oldLogprobs: row.logprobs!,
        entropyWeights: row.trained.map((on) => (on ? entropy * per : 0)),
      };
    }),
  }));
}
