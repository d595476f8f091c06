/** What `train sft`, `train dpo` and `train rl` do with their flags. */
import { TroupeError } from '../../errors.ts';
import { type BranchRow, branchRow } from '../../trainer/learn/data/branch-rows.ts';
import { fileOrder, listedOrder, type Order, shuffledOrder, stepsFor } from '../../trainer/learn/data/orders.ts';
import { cutPair, preferenceLine, preferenceRows } from '../../trainer/learn/data/preference-rows.ts';
import { readRows, supervisedLine } from '../../trainer/learn/data/training-files.ts';
import {
  cutRow,
  policyRow,
  type StepRow,
  supervisedRow,
  type TokenRow,
  type TrainingRow,
} from '../../trainer/learn/data/training-rows.ts';
import { DEFAULTS, rlLearningRate } from '../../trainer/learn/defaults.ts';
import { dpoOptions, type RlNumbers, rlOptions, sftOptions } from '../../trainer/learn/numbers.ts';
import { initAdam } from '../../trainer/learn/optimizer.ts';
import type { PolicyLossName } from '../../trainer/learn/policy-losses.ts';
import {
  type PreferenceRow,
  preference,
  type ReferenceScore,
  referenceScores,
} from '../../trainer/learn/preference.ts';
import { policyPlan, rlPass, withReference } from '../../trainer/learn/rl.ts';
import { type RoleSteps, roleOrder } from '../../trainer/learn/role-steps.ts';
import { type SftMean, sft } from '../../trainer/learn/sft.ts';
import { withSignal } from '../../trainer/learn/signal.ts';
import type { TrainableModel } from '../../trainer/learn/step.ts';
import { orderedBatches } from '../../trainer/model/losses/ordered-batches.ts';
import type { Flags } from '../command.ts';
import { say } from '../output.ts';
import {
  type Head,
  numbersOf,
  prepared,
  requireMemory,
  runTraining,
  type TrainingSetup,
  withReferenceModel,
} from './training.ts';

export async function trainSft(flags: Flags): Promise<number> {
  const ready = await prepared<NamedRow>(flags, 'sft', (start, longest) => ({
    ofLine: (value) => supervisedLine(value, start),
    ofDataset: (dataset, split) => {
      const { unit } = dataset.manifest.recipe;
      if (unit !== 'branch') requireUnit(unit);
      return readRows<unknown, NamedRow>(dataset.rows(split), (row) =>
        unit === 'branch' ? branchRow(row as BranchRow, start) : supervisedRow(row as StepRow, start),
      );
    },
    fit: (row) => fitted(row, longest),
    problem: (row, i) => row.problem ?? String(i),
  }));
  const { rows, heldOut } = ready;
  const plan = planOf(
    flags,
    rows.map((row, i) => row.problem ?? String(i)),
    rows.map(({ role = '' }) => role),
  );
  requireRowMemory(flags, ready, plan);
  const own = { loss: flags.loss as SftMean, entropy: Number(flags.entropy) };
  const options = { ...sftOptions(plan, { ...numbersOf(flags), ...own }), heldOut };
  return runTraining(flags, ready, { ...plan.settings, ...own }, plan.steps, {
    train: async (run, watch) => ({ progress: await sft(run.learner.model, rows, options, watch, run.progress) }),
  });
}

export async function trainDpo(flags: Flags): Promise<number> {
  const ready = await preparedPairs(flags, 'dpo');
  const { rows, heldOut, plan } = ready;
  requirePairMemory(flags, ready, plan);
  const own = { beta: Number(flags.beta), label_smoothing: Number(flags.labelSmoothing) };
  const settings = {
    ...plan.settings,
    ...own,
    reference: flags.reference === undefined ? null : String(flags.reference),
  };
  return runTraining(flags, ready, settings, plan.steps, {
    reference: () => withReferenceModel(flags, ready, (model) => referenceScores(model, [...rows, ...heldOut])),
    train: async (run, watch, reference) => {
      const scores = reference as readonly ReferenceScore[];
      const progress = await preference(
        run.learner.model,
        rows,
        {
          ...dpoOptions(plan, { ...numbersOf(flags), ...own }),
          reference: scores,
          ...(heldOut.length > 0 ? { heldOut: { rows: heldOut, reference: scores.slice(rows.length) } } : {}),
        },
        // Chosen and rejected form a pair here, and the loss itself reports how many are ranked right.
        { ...watch, accuracy: false },
        run.progress,
      );
      return { progress };
    },
  });
}

export async function trainRl(flags: Flags): Promise<number> {
  if (flags.eval !== undefined) {
    throw new TroupeError('usage', 'A policy gradient has no held-out loss; evaluate its checkpoints by playing.');
  }
  const ready = await prepared<TrainingRow>(flags, 'rl', (_, longest) => ({
    ofLine: () => {
      throw new TroupeError(
        'usage',
        'A policy gradient takes a frozen dataset, which names who judged its advantages.',
      );
    },
    ofDataset: (dataset, split) => {
      requireUnit(dataset.manifest.recipe.unit);
      return { rows: ([...dataset.rows(split)] as unknown as StepRow[]).map(policyRow), refused: [] };
    },
    // A part of an answer has not earned its advantage.
    fit: (row) => (row.promptIds.length + row.tokenIds.length <= longest ? row : null),
    problem: (row) => row.problem,
  }));
  const { rows } = ready;
  const { learning_rate = rlLearningRate(ready.start.config), ...common } = numbersOf(flags);
  const groups = Number(flags.groups);
  const entropy = Number(flags.entropy);
  const numbers: RlNumbers = {
    ...common,
    roles: [...new Set(rows.map(({ role }) => role))].map((role) => ({ role, groups, learning_rate, entropy })),
    loss: flags.loss as PolicyLossName,
    kl: flags.kl as number | undefined,
    epochs: Number(flags.epochs),
    clip_low: flags.clipLow as number | undefined,
    clip_high: flags.clipHigh as number | undefined,
    seed: Number(flags.seed),
  };
  const optionsFor = (model: Pick<TrainableModel, 'config' | 'optimizer'>) => rlOptions(numbers, model);
  const { loss, kl = 0, epochs, clip, ...begun } = optionsFor({ config: ready.start.config, optimizer: initAdam() });
  const { steps } = policyPlan(rows, { ...begun, epochs: epochs! });
  if (steps.length === 0) {
    throw new TroupeError(
      'training_failed',
      'No group of the dataset has advantages that differ from 0: nothing to learn.',
      {
        hint: 'Judge it with a credit method, and name that as `credit` in the recipe.',
      },
    );
  }
  const length = (row: TrainingRow) => row.promptIds.length + row.tokenIds.length;
  requireMemory(flags, ready, {
    tokensPerStep: Math.max(...steps.map((step) => step.rows.reduce((sum, row) => sum + length(row), 0))),
    longest: rows.reduce((most, row) => Math.max(most, length(row)), 0),
    smaller: { flag: '--groups', now: groups },
  });
  const settings = {
    lr: learning_rate,
    loss,
    kl,
    entropy,
    epochs: epochs!,
    groups,
    clip_low: clip.clipLow ?? null,
    clip_high: clip.clipHigh ?? null,
    reference: flags.reference === undefined ? null : String(flags.reference),
  };
  const scored = kl > 0 ? await withReferenceModel(flags, ready, (model) => withReference(model, rows)) : rows;
  return runTraining(flags, ready, settings, steps.length, {
    train: async (run, watch) => {
      const { progress, roles: metrics } = await rlPass(
        run.learner.model,
        scored,
        optionsFor(run.learner.model),
        watch,
        run.progress,
      );
      return { progress, more: { roles: await withSignal(metrics, ready.data.dataset!.manifest) } };
    },
  });
}

/** A row that may know its problem and its role. */
type NamedRow = TokenRow & { readonly problem?: string; readonly role?: string };

/** A row with what it knows beside its tokens, cut to a length; null where nothing learnt is left. */
export function fitted<R extends TokenRow>(row: R, longest: number): R | null {
  const short = cutRow(row, longest);
  return short === null ? null : short === row ? row : { ...row, ...short };
}

type Plan = {
  readonly steps: number;
  readonly order: Order;
  /** Rows of the largest step. */
  readonly largest: number;
  readonly settings: Readonly<Record<string, string | number | null>>;
};

/** What makes a step smaller; nothing where it is all rows of a problem. */
const smallerBatch = ({ largest, settings }: Plan) =>
  settings.batch === null ? {} : { smaller: { flag: '--batch', now: largest } };

export function requireRowMemory(flags: Flags, ready: TrainingSetup<TokenRow>, plan: Plan): void {
  const longest = ready.rows.reduce((most, row) => Math.max(most, row.promptIds.length + row.tokenIds.length), 0);
  requireMemory(flags, ready, { tokensPerStep: longest * plan.largest, longest, ...smallerBatch(plan) });
}

/** Opens the model and reads pairs of answers, with the order in which they are taken. */
export async function preparedPairs(
  flags: Flags,
  method: string,
  head: Head = 'lm',
): Promise<TrainingSetup<PreferenceRow> & { readonly plan: Plan }> {
  const problem = (row: PreferenceRow) => row.promptIds.join();
  const ready = await prepared<PreferenceRow>(
    flags,
    method,
    (start, longest) => ({
      ofLine: (value) => preferenceLine(value, start),
      ofDataset: (dataset, split) => ({ rows: preferenceRows(dataset, start, split), refused: [] }),
      fit: (row) => {
        const length = row.promptIds.length + Math.max(row.chosen.tokenIds.length, row.rejected.tokenIds.length);
        return length <= longest ? row : cutPair(row, longest);
      },
      problem,
    }),
    head,
  );
  return { ...ready, plan: planOf(flags, ready.rows.map(problem)) };
}

export function requirePairMemory(flags: Flags, ready: TrainingSetup<PreferenceRow>, plan: Plan): void {
  const longest = ready.rows.reduce(
    (most, { promptIds, chosen, rejected }) =>
      Math.max(most, promptIds.length + chosen.tokenIds.length + rejected.tokenIds.length),
    0,
  );
  requireMemory(flags, ready, {
    tokensPerStep: longest * plan.largest,
    longest,
    sharedPrompts: true,
    ...smallerBatch(plan),
  });
}

/**
 * In which order rows are taken, and how many steps that makes.
 * @param roles the role of each row, where each step takes rows of one
 */
export function planOf(flags: Flags, problems: readonly string[], roles?: readonly string[]): Plan {
  const rows = problems.length;
  const batch = Number(flags.batch);
  const epochs = flags.epochs === undefined ? null : Number(flags.epochs);
  const asked = flags.steps as RoleSteps['steps'];
  if (asked !== undefined && epochs !== null) {
    throw new TroupeError('usage', '--steps and --epochs exclude each other; pass one of them.');
  }
  const inFile = flags.shuffle === false;
  if (roles !== undefined && flags.byProblem !== true && !inFile) {
    const passes = epochs ?? DEFAULTS.epochs;
    const count = asked === undefined ? { epochs: passes } : { steps: asked };
    const taken = roleOrder(roles, { ...count, batch, seed: Number(flags.seed) });
    const each = Object.entries(taken.byRole).map(([role, steps]) => `${role || 'no role'} ${steps}`);
    if (each.length > 1) say(`Steps by role: ${each.join(', ')}.`);
    const settings = { order: 'role', batch, epochs: asked === undefined ? passes : null };
    return { steps: taken.steps, order: taken.order, largest: batch, settings };
  }
  if (typeof asked === 'object')
    throw new TroupeError(
      'usage',
      '--steps by role excludes --no-shuffle and --by-problem, which mix roles in a step.',
    );
  if (flags.byProblem === true) {
    const batches = orderedBatches.run({ rows: problems.map((problem, i) => ({ id: i, problem, seq: i })) }, {});
    const listed = batches.map((ids) => ids.map(Number));
    const steps = asked ?? Math.ceil(listed.length * (epochs ?? 1));
    const largest = Math.max(...listed.map((ids) => ids.length));
    return { steps, order: listedOrder(listed), largest, settings: { order: 'problem', batch: null } };
  }
  const steps = asked ?? stepsFor(rows, batch, epochs ?? 1);
  const options = { batch, ...(asked === undefined ? { taken: Math.ceil(rows * (epochs ?? 1)) } : {}) };
  return {
    steps,
    order: inFile ? fileOrder(rows, options) : shuffledOrder(rows, options, Number(flags.seed)),
    largest: batch,
    settings: { order: inFile ? 'file' : 'shuffled', batch, epochs: asked === undefined ? (epochs ?? 1) : null },
  };
}

export function requireUnit(unit: string): void {
  if (unit === 'step' || unit === 'group') return;
  const hint =
    unit === 'pair'
      ? 'Pairs are what troupe train dpo and troupe train reward learn from.'
      : unit === 'branch'
        ? 'Branches are what troupe train sft learns from.'
        : null;
  throw new TroupeError('usage', `The dataset's unit is ${unit}; this training takes datasets of unit step or group.`, {
    expected: 'unit step or group',
    got: unit,
    ...(hint ? { hint } : {}),
  });
}
