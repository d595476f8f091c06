/**
 * The kinds of work the trainer does. A training job knows a checkpoint, a frozen dataset and its numbers, and nothing of who played
 * or judged. It keeps the learner in memory for the next job; one that starts cold reads the same state from the checkpoint.
 */
import { readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { TroupeError } from '../../errors.ts';
import { hashId } from '../../ingest/json.ts';
import { type OpenedDataset, openDataset } from '../../store/datasets/read.ts';
import { checkedSpec, type Handler, type Job, type JobContext, requireHeld } from '../../store/jobs/jobs.ts';
import { type Weights, weightsAtPlay } from '../../store/rollouts/weights.ts';
import { isCheckpointId } from '../checkpoints/checkpoint.ts';
import { shuffledOrder } from '../data/orders.ts';
import { cutPair, preferenceRows } from '../data/preference-rows.ts';
import {
  cutRow,
  policyRow,
  type RewardedStep,
  type StepRow,
  supervisedRow,
  type TrainingRow,
} from '../data/training-rows.ts';
import { valuedStep } from '../data/value-rows.ts';
import { sameAdapter } from '../models/lora.ts';
import { openModelForIds, openValueModel } from '../models/model-directory.ts';
import {
  adapterMeta,
  closeLearner,
  type Learner,
  openLearner,
  publishAdapter,
  resetOptimizer,
  saveLearner,
} from '../training/learner.ts';
import { defaultKl } from '../training/policy-losses.ts';
import { type PreferenceRow, preference, referenceScores } from '../training/preference.ts';
import { type RlOptions, rlPass, withReference } from '../training/rl.ts';
import { roleWiseSft } from '../training/role-wise-sft.ts';
import { namedSchedule } from '../training/schedules.ts';
import type { TrainableModel } from '../training/step.ts';
import { ADAM, type Adam, type StepDone, type Watch } from '../training/training-loop.ts';
import { trainValueHead } from '../training/value-head.ts';
import { announceCheckpoint } from './announce.ts';
import { jobMemory } from './job-memory.ts';
import { adapterAsked, DpoSpec, type RlNumbers, RlSpec, SftSpec, type TrainSpec, ValueSpec } from './job-specs.ts';
import { PASS, passHandler } from './passes.ts';

export type TrainerSettings = {
  readonly checkpoints: string;
  readonly threads: number;
  readonly codeVersion: string;
  /** Bytes that may still be taken; what the machine has if left out. */
  readonly freeMemory?: () => number;
  /** Called with the seconds of each step. */
  readonly onStep?: (seconds: number, job: string) => void;
};

/** Second moments of a job forget faster than torch's: its runs are short, and beta2 0.99 is what they were measured with. */
const adamOf = ({ beta1, beta2, weight_decay, clip }: TrainSpec): Adam => ({
  ...ADAM,
  beta1: beta1 ?? ADAM.beta1,
  beta2: beta2 ?? 0.99,
  weightDecay: weight_decay ?? ADAM.weightDecay,
  clip: clip ?? ADAM.clip,
});

/** Steps from one report of a job to the next. */
const REPORT_EVERY = 10;

type Report = Parameters<Handler>[1];

/** The steps that a job reports: every tenth and the last. */
const reporting = (
  { job_id }: Job,
  report: Report,
  { accuracy = false }: TrainSpec,
  signal: AbortSignal,
  { onStep = () => {} }: TrainerSettings,
): Watch => ({
  accuracy,
  signal,
  onStep: async (done) => {
    onStep(done.milliseconds / 1000, job_id);
    if (done.step % REPORT_EVERY === 0 || done.step === done.steps) await report(done.step, stepMetrics(done));
  },
});

/** The numbers of a step by the names they have in `traj.job_metrics`. */
const stepMetrics = (done: StepDone): Record<string, number> => ({
  ...done.metrics,
  loss: done.loss,
  gradient_norm: done.gradientNorm,
  learning_rate: done.learningRate,
  tokens_per_second: (1000 * done.tokens) / Math.max(1e-3, done.milliseconds),
  share: done.step / done.steps,
  ...(done.heldOut === null ? {} : { held_out_loss: done.heldOut }),
});

/**
 * Live weights of a policy that are kept on disk: those served now, and those before, for readers that are still at it. A checkpoint that
 * is kept takes their place; it leaves the one that its training began with, for the job may have to be done again.
 */
const LIVE_KEPT = 3;

export function trainerHandlers(context: JobContext, settings: TrainerSettings): Readonly<Record<string, Handler>> {
  let held: Learner | null = null;
  const memory = jobMemory(settings.freeMemory);

  async function learnerAt({ base: dir, seed, ...spec }: TrainSpec, opens: typeof openValueModel): Promise<Learner> {
    const adapter = adapterAsked(spec.lora);
    const isValue = held?.open.config.head === 'value';
    const isOf = isValue === (opens === openValueModel) && sameAdapter(held?.model.adapter ?? null, adapter);
    if (held && isOf && dir.endsWith(held.id)) return held;
    if (held) await closeLearner(held);
    held = null;
    const bases = spec.lora_base === undefined ? [] : [spec.lora_base];
    held = await openLearner(dir, { threads: settings.threads, opens, adapter, seed, bases });
    return held;
  }

  /** Trains and saves; whatever goes wrong, the weights in memory are not trusted again. */
  async function training<Metrics extends object>(
    job: Job,
    spec: TrainSpec,
    train: (learner: Learner, dataset: OpenedDataset) => Promise<Metrics>,
    opens: typeof openValueModel = openModelForIds,
  ) {
    const dataset = await openDataset(spec.dataset);
    const learner = await learnerAt(spec, opens);
    try {
      if (spec.reset_optimizer) resetOptimizer(learner);
      const parent = learner.id;
      const metrics = flat(await train(learner, dataset));
      const keep = spec.keep ?? true;
      const live = join(settings.checkpoints, 'live', encodeURIComponent(spec.policy));
      await requireHeld(context.db, job);
      const saved = await saveLearner(
        learner,
        keep ? settings.checkpoints : live,
        {
          datasets: [dataset.manifest.content_sha256],
          plan_hash: hashId(job.spec),
          seed: spec.seed,
          log_positions: dataset.manifest.positions['facts/embedded'] ?? {},
          code_version: settings.codeVersion,
          metrics,
        },
        { durable: keep },
      );
      await requireHeld(context.db, job);
      // Before anybody hears of the checkpoint: a model server looks for the adapter beside it.
      await publishAdapter(learner, dirname(saved.dir));
      await announceCheckpoint(context, {
        job,
        saved,
        parent,
        policy: spec.policy,
        datasetId: dataset.manifest.dataset_id,
        keep,
        step: Number(metrics.step ?? 0),
        metrics,
        codeVersion: settings.codeVersion,
        ...adapterMeta(learner),
      });
      await prune(live, keep ? 1 : LIVE_KEPT, await weightsAtPlay(context.db, spec.policy));
      return { checkpoint_id: saved.id, directory: saved.dir, metrics, ...adapterMeta(learner) };
    } catch (error) {
      held = null;
      await closeLearner(learner);
      throw error;
    }
  }

  return {
    [PASS]: passHandler(context, settings),
    sft: (job, report, signal) => {
      const spec = checkedSpec(SftSpec, job.spec);
      return training(job, spec, (learner, dataset) => {
        const rows = stepRows(dataset).flatMap((row) => withinContext(supervisedRow(row, learner.open), learner));
        memory.require(learner, { tokens: rows.map(length), rowsPerStep: spec.batch, what: 'rows a step (batch)' });
        return roleWiseSft(
          learner.model,
          rows,
          {
            steps: spec.steps,
            batch: spec.batch,
            learningRate: spec.learning_rate,
            warmup: spec.warmup,
            entropy: spec.entropy,
            seed: spec.seed,
            adam: adamOf(spec),
          },
          reporting(job, report, spec, signal, settings),
        );
      });
    },
    dpo: (job, report, signal) => {
      const spec = checkedSpec(DpoSpec, job.spec);
      return training(job, spec, async (learner, dataset) => {
        const { model, open } = learner;
        const rows = pairsWithinContext(preferenceRows(dataset, open), open.config.max_position_embeddings);
        memory.require(learner, {
          tokens: rows.map(
            ({ promptIds, chosen, rejected }) =>
              length({ promptIds, tokenIds: chosen.tokenIds }) + rejected.tokenIds.length,
          ),
          rowsPerStep: spec.batch,
          what: 'pairs a step (batch)',
          sharedPrompts: true,
        });
        const { curves } = await preference(
          model,
          rows,
          {
            steps: spec.steps,
            order: shuffledOrder(rows.length, { batch: spec.batch }, spec.seed),
            beta: spec.beta ?? 0.1,
            labelSmoothing: spec.label_smoothing ?? 0,
            schedule: namedSchedule('linear', { rate: spec.learning_rate, steps: spec.steps, warmup: spec.warmup }),
            adam: adamOf(spec),
            reference: await referenceScores(model, rows),
          },
          reporting(job, report, spec, signal, settings),
        );
        return Object.fromEntries(
          Object.entries({ loss: curves.loss, ...curves.metrics }).map(([name, values]) => [name, values.at(-1) ?? 0]),
        );
      });
    },
    value: (job, report, signal) => {
      const spec = checkedSpec(ValueSpec, job.spec);
      const { of, loss = 'mse', steps, batch } = spec;
      const train = async (learner: Learner, dataset: OpenedDataset) => {
        const by = dataset.manifest.recipe.credit === null ? 'reward' : 'advantage';
        const range = loss === 'cross-entropy' ? 'share' : 'any';
        const rows = stepRows(dataset).flatMap((step) => {
          const row = valuedStep(step as RewardedStep, learner.open, { of, by, range });
          const cut = row && cutRow(row, learner.open.config.max_position_embeddings);
          return cut === null ? [] : [{ ...row!, ...cut }];
        });
        memory.require(learner, { tokens: rows.map(length), rowsPerStep: batch, what: 'rows a step (batch)' });
        let last: StepDone | null = null;
        const watch = reporting(job, report, spec, signal, settings);
        await trainValueHead(
          learner.model,
          rows,
          {
            steps,
            order: shuffledOrder(rows.length, { batch }, spec.seed),
            loss,
            schedule: namedSchedule('constant', { rate: spec.learning_rate, steps, warmup: spec.warmup }),
            adam: adamOf(spec),
          },
          {
            ...watch,
            onStep: async (done) => {
              last = done;
              await watch.onStep?.(done);
            },
          },
        );
        return { rows: rows.length, ...stepMetrics(last!) };
      };
      return training(job, spec, train, openValueModel);
    },
    rl: (job, report, signal) => {
      const spec = checkedSpec(RlSpec, job.spec);
      return training(job, spec, async (learner, dataset) => {
        const { model } = learner;
        const rows = stepRows(dataset).map(policyRow);
        requireAdvantages(rows, dataset);
        memory.require(learner, {
          tokens: rows.map(length),
          rowsPerStep: rowsOfStep(rows, spec.roles),
          what: 'rows a step (groups)',
        });
        const options = rlOptionsOf(spec, model);
        const { roles } = await rlPass(
          model,
          (options.kl ?? 0) > 0 ? await withReference(model, rows) : rows,
          options,
          reporting(job, report, spec, signal, settings),
        );
        return roles;
      });
    },
  };
}

/** Groups that are all right or all wrong teach nothing, which is an outcome; advantages that nobody could compute are a fault. */
function requireAdvantages(rows: readonly TrainingRow[], { manifest }: OpenedDataset): void {
  if (rows.length === 0 || rows.some(({ advantage }) => advantage !== null)) return;
  const credit = manifest.recipe.credit?.method;
  const why = credit
    ? `troupe sql "select reason, count(*) from traj.credits where method = '${credit}' group by 1" shows why ${credit} gave none.`
    : 'Name a credit method as `credit` in the recipe.';
  throw new TroupeError('training_failed', `None of the ${rows.length} rows has an advantage. ${why}`);
}

/** The numbers of a job of kind `rl` as its passes take them. */
export function rlOptionsOf(spec: RlNumbers, model: TrainableModel): RlOptions {
  const loss = spec.loss ?? 'clipped-policy';
  return {
    roles: spec.roles.map(({ role, groups, learning_rate, entropy }) => ({
      role,
      groups,
      learningRate: learning_rate,
      entropy,
    })),
    loss,
    kl: spec.kl ?? defaultKl(loss),
    epochs: spec.epochs ?? 1,
    clip: { clipLow: spec.clip_low, clipHigh: spec.clip_high },
    // The rate rises after the optimizer was reset, however many jobs ago that was.
    schedule: () => () => Math.min(1, (model.optimizer.step + 1) / Math.max(1, spec.warmup)),
    adam: adamOf(spec),
    seed: spec.seed,
  };
}

const length = ({ promptIds, tokenIds }: Pick<TrainingRow, 'promptIds' | 'tokenIds'>): number =>
  promptIds.length + tokenIds.length;

/** Rows of a step at most: as many groups of each role as are asked for, each as large as the largest. */
function rowsOfStep(rows: readonly TrainingRow[], roles: readonly { readonly groups: number }[]): number {
  const sizes = new Map<string, number>();
  for (const { group } of rows) sizes.set(group, (sizes.get(group) ?? 0) + 1);
  const groups = roles.reduce((sum, one) => sum + one.groups, 0);
  return Math.min(rows.length, groups * Math.max(1, ...sizes.values()));
}

/** Cut at its end to the model's context, as `train` does; nothing where all that is learnt lies beyond it. */
function withinContext(row: TrainingRow, { open }: Learner): TrainingRow[] {
  const cut = cutRow(row, open.config.max_position_embeddings);
  return cut === null ? [] : [{ ...row, ...cut }];
}

/** The same for pairs. @throws TroupeError `training_failed` where nothing of any pair is left */
function pairsWithinContext(pairs: readonly PreferenceRow[], longest: number): PreferenceRow[] {
  const left = pairs.flatMap((pair) => {
    const length = pair.promptIds.length + Math.max(pair.chosen.tokenIds.length, pair.rejected.tokenIds.length);
    return length <= longest ? pair : (cutPair(pair, longest) ?? []);
  });
  if (left.length > 0) return left;
  throw new TroupeError(
    'training_failed',
    `None of ${pairs.length} pairs has anything to learn within the ${longest} tokens of the model's context.`,
  );
}

const stepRows = (dataset: OpenedDataset): StepRow[] => [...dataset.rows('train')] as unknown as StepRow[];

/** Keeps so many of the newest live weights of a policy, those of a process before this one included, and those that rollouts under way need. */
async function prune(folder: string, most: number, atPlay: readonly Weights[]): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  const aged = await Promise.all(
    names
      .filter(isCheckpointId)
      .map(async (id) => ({ id, dir: join(folder, id), at: (await stat(join(folder, id))).mtimeMs })),
  );
  const needed = new Set(atPlay.map(({ checkpoint_id }) => checkpoint_id));
  const old = aged.sort((a, b) => b.at - a.at).slice(most);
  for (const { id, dir } of old)
    if (!needed.has(id)) for (const one of [dir, `${dir}-adapter`]) await rm(one, { recursive: true, force: true });
}

/** Nested metrics by dotted names: `coder.entropy`. */
function flat(metrics: object, prefix = ''): Record<string, number> {
  return Object.fromEntries(
    Object.entries(metrics).flatMap(([name, value]): [string, number][] =>
      typeof value === 'number'
        ? [[`${prefix}${name}`, value]]
        : Object.entries(flat(value as object, `${prefix}${name}.`)),
    ),
  );
}
