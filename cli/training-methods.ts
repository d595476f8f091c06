/** What `train sft`, `train dpo` and `train rl` do with their flags. */
import { TroupeError } from '../errors.ts';
import { type BranchRow, branchRow } from '../trainer/data/branch-rows.ts';
import { fileOrder, listedOrder, type Order, shuffledOrder, stepsFor } from '../trainer/data/orders.ts';
import { cutPair, preferenceLine, preferenceRows } from '../trainer/data/preference-rows.ts';
import { readRows, supervisedLine } from '../trainer/data/training-files.ts';
import {
  cutRow,
  policyRow,
  type StepRow,
  supervisedRow,
  type TokenRow,
  type TrainingRow,
} from '../trainer/data/training-rows.ts';
import { orderedBatches } from '../trainer/losses/ordered-batches.ts';
import { defaultKl, type PolicyLossName } from '../trainer/training/policy-losses.ts';
import {
  type PreferenceRow,
  preference,
  type ReferenceScore,
  referenceScores,
} from '../trainer/training/preference.ts';
import { policyPlan, rlPass, withReference } from '../trainer/training/rl.ts';
import { type SftMean, sft } from '../trainer/training/sft.ts';
import type { Flags } from './command.ts';
import {
  adamOf,
  type Head,
  type Prepared,
  prepared,
  requireMemory,
  runTraining,
  scheduleOf,
  withReferenceModel,
} from './training.ts';

export async function trainSft(flags: Flags): Promise<number> {
  const ready = await prepared<Named>(flags, 'sft', (start, longest) => ({
    ofLine: (value) => supervisedLine(value, start),
    ofDataset: (dataset, split) => {
      const { unit } = dataset.manifest.recipe;
      if (unit !== 'branch') requireUnit(unit);
      return readRows<unknown, Named>(dataset.rows(split), (row) =>
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
  );
  requireRowMemory(flags, ready, plan);
  const mean = flags.loss as SftMean;
  const entropy = Number(flags.entropy);
  return runTraining(flags, ready, { ...plan.settings, loss: mean, entropy }, plan.steps, {
    train: async (run, watch) => ({
      progress: await sft(
        run.learner.model,
        rows,
        {
          steps: plan.steps,
          order: plan.order,
          mean,
          entropy,
          schedule: scheduleOf(flags, plan.steps),
          adam: adamOf(flags),
          heldOut,
        },
        watch,
        run.progress,
      ),
    }),
  });
}

export async function trainDpo(flags: Flags): Promise<number> {
  const ready = await preparedPairs(flags, 'dpo');
  const { rows, heldOut, plan } = ready;
  requirePairMemory(flags, ready, plan);
  const beta = Number(flags.beta);
  const labelSmoothing = Number(flags.labelSmoothing);
  const settings = {
    ...plan.settings,
    beta,
    label_smoothing: labelSmoothing,
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
          steps: plan.steps,
          order: plan.order,
          beta,
          labelSmoothing,
          schedule: scheduleOf(flags, plan.steps),
          adam: adamOf(flags),
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
  const loss = flags.loss as PolicyLossName;
  const kl = Number(flags.kl ?? defaultKl(loss));
  const entropy = Number(flags.entropy);
  const seed = Number(flags.seed);
  const epochs = Number(flags.epochs);
  const groups = Number(flags.groups);
  const roles = [...new Set(rows.map((row) => row.role))].map((role) => ({
    role,
    groups,
    learningRate: Number(flags.lr),
    entropy,
  }));
  const { steps } = policyPlan(rows, { roles, epochs, seed });
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
  const clip = {
    ...(flags.clipLow === undefined ? {} : { clipLow: Number(flags.clipLow) }),
    ...(flags.clipHigh === undefined ? {} : { clipHigh: Number(flags.clipHigh) }),
  };
  const settings = {
    loss,
    kl,
    entropy,
    epochs,
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
        {
          roles,
          loss,
          clip,
          kl,
          epochs,
          seed,
          schedule: (count) => scheduleOf(flags, count, 1),
          adam: adamOf(flags),
        },
        watch,
        run.progress,
      );
      return { progress, more: { roles: metrics } };
    },
  });
}

/** A row that may know its problem. */
type Named = TokenRow & { readonly problem?: string };

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

export function requireRowMemory(flags: Flags, ready: Prepared<TokenRow>, plan: Plan): void {
  const longest = ready.rows.reduce((most, row) => Math.max(most, row.promptIds.length + row.tokenIds.length), 0);
  requireMemory(flags, ready, { tokensPerStep: longest * plan.largest, longest, ...smallerBatch(plan) });
}

/** Opens the model and reads pairs of answers, with the order in which they are taken. */
export async function preparedPairs(
  flags: Flags,
  method: string,
  head: Head = 'lm',
): Promise<Prepared<PreferenceRow> & { readonly plan: Plan }> {
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

export function requirePairMemory(flags: Flags, ready: Prepared<PreferenceRow>, plan: Plan): void {
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

/** In which order rows are taken, and how many steps that makes. */
export function planOf(flags: Flags, problems: readonly string[]): Plan {
  const rows = problems.length;
  const batch = Number(flags.batch);
  const epochs = flags.epochs === undefined ? null : Number(flags.epochs);
  if (flags.steps !== undefined && epochs !== null) {
    throw new TroupeError('usage', '--steps and --epochs exclude each other; pass one of them.');
  }
  if (flags.byProblem === true) {
    const batches = orderedBatches.run({ rows: problems.map((problem, i) => ({ id: i, problem, seq: i })) }, {});
    const listed = batches.map((ids) => ids.map(Number));
    const steps = flags.steps === undefined ? Math.ceil(listed.length * (epochs ?? 1)) : Number(flags.steps);
    const largest = Math.max(...listed.map((ids) => ids.length));
    return { steps, order: listedOrder(listed), largest, settings: { order: 'problem', batch: null } };
  }
  const steps = flags.steps === undefined ? stepsFor(rows, batch, epochs ?? 1) : Number(flags.steps);
  const options = { batch, ...(flags.steps === undefined ? { taken: Math.ceil(rows * (epochs ?? 1)) } : {}) };
  const inFile = flags.shuffle === false;
  return {
    steps,
    order: inFile ? fileOrder(rows, options) : shuffledOrder(rows, options, Number(flags.seed)),
    largest: batch,
    settings: { order: inFile ? 'file' : 'shuffled', batch, epochs: flags.steps === undefined ? (epochs ?? 1) : null },
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
