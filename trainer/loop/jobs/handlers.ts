/**
 * The kinds of work the trainer does. A training job knows a checkpoint, a frozen dataset and its numbers, and nothing of who played
 * or judged. It keeps the learner in memory for the next job; one that starts cold reads the same state from the checkpoint.
 */
import { dirname, join } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { hashId } from '../../../ingest/events/json.ts';
import { type OpenedDataset, openDataset } from '../../../store/datasets/read.ts';
import { checkedSpec, type Handler, type Job, type JobContext, requireHeld } from '../../../store/queue/jobs/jobs.ts';
import { shuffledOrder } from '../../learn/data/orders.ts';
import { cutPair, preferenceRows } from '../../learn/data/preference-rows.ts';
import {
  cutRow,
  policyRow,
  type RewardedStep,
  type StepRow,
  supervisedRow,
  type TrainingRow,
} from '../../learn/data/training-rows.ts';
import { valuedStep } from '../../learn/data/value-rows.ts';
import { DEFAULTS } from '../../learn/defaults.ts';
import {
  adapterMeta,
  answerMeta,
  closeLearner,
  type Learner,
  openLearner,
  publishAdapter,
  resetOptimizer,
  saveLearner,
} from '../../learn/learner.ts';
import { courseOf, dpoOptions, rlOptions, sftOptions } from '../../learn/numbers.ts';
import { type PreferenceRow, preference, referenceScores } from '../../learn/preference.ts';
import { policyPlan, rlPass, withReference } from '../../learn/rl.ts';
import { roleOrder } from '../../learn/role-steps.ts';
import { sft } from '../../learn/sft.ts';
import { withSignal } from '../../learn/signal.ts';
import type { FinishedStep, Watch } from '../../learn/training-loop.ts';
import { trainValueHead } from '../../learn/value-head.ts';
import { sameAdapter } from '../../model/lora.ts';
import { openModelForIds, openValueModel } from '../../model/model-directory.ts';
import { countEpisodes } from '../../sample/pass-episodes.ts';
import { announceCheckpoint } from './announce.ts';
import { jobMemory } from './job-memory.ts';
import { adapterAsked, DpoSpec, RlSpec, SftSpec, type TrainSpec, ValueSpec } from './job-specs.ts';
import { pruneLive } from './live-weights.ts';
import { PASS, passHandler } from './passes.ts';
import { newTally, type Report, type Reporting, reporting, stepMetrics, tallied } from './reports.ts';

export type TrainerSettings = {
  readonly checkpoints: string;
  readonly threads: number;
  readonly codeVersion: string;
  /** Bytes that may still be taken; what the machine has if left out. */
  readonly freeMemory?: () => number;
  /** Called with the seconds of each step. */
  readonly onStep?: (seconds: number, job: string) => void;
};

type JobRun = { readonly job: Job; readonly report: Report; readonly signal: AbortSignal };
/** What a training reports to; with the role of each step where it has rows of one. */
type WatchOf = (roleOf?: Reporting['roleOf']) => Watch;

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
    { job, report, signal }: JobRun,
    spec: TrainSpec,
    train: (learner: Learner, dataset: OpenedDataset, watch: WatchOf) => Promise<Metrics>,
    opens: typeof openValueModel = openModelForIds,
  ) {
    const dataset = await openDataset(spec.dataset);
    const learner = await learnerAt(spec, opens);
    try {
      if (spec.reset_optimizer) resetOptimizer(learner);
      const parent = learner.id;
      const tally = newTally();
      const watch: WatchOf = (roleOf) =>
        reporting(job, report, {
          accuracy: spec.accuracy ?? false,
          signal,
          onStep: settings.onStep ?? (() => {}),
          tally,
          ...(roleOf === undefined ? {} : { roleOf }),
        });
      const metrics = flat(await train(learner, dataset, watch));
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
      await pruneLive(context.db, live, { keep });
      return {
        checkpoint_id: saved.id,
        directory: saved.dir,
        metrics,
        ...tallied(tally),
        ...adapterMeta(learner),
        ...answerMeta(learner),
      };
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
      return training({ job, report, signal }, spec, async (learner, dataset, watch) => {
        const { steps, batch = DEFAULTS.batch, seed } = spec;
        const rows = stepRows(dataset).flatMap((row) => withinContext(supervisedRow(row, learner.open), learner));
        memory.require(learner, { tokens: rows.map(length), rowsPerStep: batch, what: 'rows a step (batch)' });
        const { roleOf, ...taken } = roleOrder(
          rows.map(({ role }) => role),
          { steps, batch, seed },
        );
        const byRole = watch((step) => roleOf(step - 1));
        const { curves } = await sft(learner.model, rows, sftOptions(taken, spec), byRole);
        return lateLosses(curves.loss, roleOf);
      });
    },
    dpo: (job, report, signal) => {
      const spec = checkedSpec(DpoSpec, job.spec);
      return training({ job, report, signal }, spec, async (learner, dataset, watch) => {
        const { model, open } = learner;
        const { steps, batch = DEFAULTS.batch, seed } = spec;
        const rows = pairsWithinContext(preferenceRows(dataset, open), open.config.max_position_embeddings);
        memory.require(learner, {
          tokens: rows.map(
            ({ promptIds, chosen, rejected }) =>
              length({ promptIds, tokenIds: chosen.tokenIds }) + rejected.tokenIds.length,
          ),
          rowsPerStep: batch,
          what: 'pairs a step (batch)',
          sharedPrompts: true,
        });
        const { curves } = await preference(
          model,
          rows,
          {
            ...dpoOptions({ steps, order: shuffledOrder(rows.length, { batch }, seed) }, spec),
            reference: await referenceScores(model, rows),
          },
          watch(),
        );
        return Object.fromEntries(
          Object.entries({ loss: curves.loss, ...curves.metrics }).map(([name, values]) => [name, values.at(-1) ?? 0]),
        );
      });
    },
    value: (job, report, signal) => {
      const spec = checkedSpec(ValueSpec, job.spec);
      const { of, loss = DEFAULTS.value_loss, steps, batch = DEFAULTS.batch } = spec;
      const train = async (learner: Learner, dataset: OpenedDataset, watchOf: WatchOf) => {
        const by = dataset.manifest.recipe.credit === null ? 'reward' : 'advantage';
        const range = loss === 'cross-entropy' ? 'share' : 'any';
        const rows = stepRows(dataset).flatMap((step) => {
          const row = valuedStep(step as RewardedStep, learner.open, { of, by, range });
          const cut = row && cutRow(row, learner.open.config.max_position_embeddings);
          return cut === null ? [] : [{ ...row!, ...cut }];
        });
        memory.require(learner, { tokens: rows.map(length), rowsPerStep: batch, what: 'rows a step (batch)' });
        let last: FinishedStep | null = null;
        const watch = watchOf();
        await trainValueHead(
          learner.model,
          rows,
          { ...courseOf('value', { steps, order: shuffledOrder(rows.length, { batch }, spec.seed) }, spec), loss },
          {
            ...watch,
            onStep: async (done) => {
              last = done;
              await watch.onStep?.(done);
            },
          },
        );
        return { rows: rows.length, ...stepMetrics([last!]) };
      };
      return training({ job, report, signal }, spec, train, openValueModel);
    },
    rl: (job, report, signal) => {
      const spec = checkedSpec(RlSpec, job.spec);
      return training({ job, report, signal }, spec, async (learner, dataset, watch) => {
        const { model } = learner;
        const rows = stepRows(dataset).map(policyRow);
        requireAdvantages(rows, dataset);
        const options = rlOptions(spec, model);
        // Without a row it makes no step: all groups were left out for want of a signal.
        if (rows.length > 0)
          memory.require(learner, {
            tokens: rows.map(length),
            rowsPerStep: rowsOfStep(rows, options.roles),
            what: 'rows a step (groups)',
          });
        const scored = (options.kl ?? 0) > 0 ? await withReference(model, rows) : rows;
        const { steps } = policyPlan(scored, options);
        const byRole = watch((step) => steps[step - 1]!.role);
        const { roles } = await rlPass(model, scored, options, byRole);
        return withSignal(roles, dataset.manifest, countEpisodes(context.db));
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

/** Of each role its mean loss over the last tenth of its steps. */
function lateLosses(losses: readonly number[], roleOf: (step: number) => string): Record<string, { loss: number }> {
  const byRole = groupBy(
    losses.map((loss, step) => ({ loss, role: roleOf(step) })),
    ({ role }) => role,
  );
  return Object.fromEntries(
    [...byRole].map(([role, all]) => {
      const late = all.slice(-Math.ceil(all.length / 10));
      return [role, { loss: late.reduce((sum, { loss }) => sum + loss, 0) / late.length }];
    }),
  );
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
