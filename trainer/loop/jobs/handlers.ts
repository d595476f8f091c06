/**
 * The kinds of work the trainer does. A training job knows a checkpoint, a frozen dataset and its numbers, and nothing of who played
 * or judged. It keeps the learner in memory for the next job; one that starts cold reads the same state from the checkpoint.
 */
import { dirname, join } from 'node:path';
import type { Static, TSchema } from 'typebox';
import { hashId } from '../../../ingest/events/json.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import { checkedSpec, type Handler, type Job, type JobContext, requireHeld } from '../../../store/queue/jobs/jobs.ts';
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
import { withSignal } from '../../learn/signal.ts';
import { sameAdapter } from '../../model/lora.ts';
import { openModelForIds, openValueModel } from '../../model/model-directory.ts';
import { countEpisodes } from '../../sample/pass-episodes.ts';
import { announceCheckpoint } from './announce.ts';
import { type TrainingOn, trainPolicy, trainPreference, trainSupervised, trainValue } from './dataset-training.ts';
import { jobMemory } from './job-memory.ts';
import { adapterAsked, DpoSpec, RlSpec, SftSpec, type TrainSpec, ValueSpec } from './job-specs.ts';
import { pruneLive } from './live-weights.ts';
import { PASS, passHandler } from './passes.ts';
import { newTally, type Report, reporting, tallied } from './reports.ts';

export type TrainerSettings = {
  readonly checkpoints: string;
  readonly threads: number;
  readonly codeVersion: string;
  /** Bytes that may still be taken; what the machine has if left out. */
  readonly freeMemory?: () => number;
  /** Called with the seconds of each step. */
  readonly onStep?: (seconds: number, job: string) => void;
};

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
  async function training(
    { job, report, signal }: { readonly job: Job; readonly report: Report; readonly signal: AbortSignal },
    spec: TrainSpec,
    train: (on: TrainingOn) => Promise<object>,
    opens: typeof openValueModel = openModelForIds,
  ) {
    const dataset = await openDataset(spec.dataset);
    const learner = await learnerAt(spec, opens);
    try {
      if (spec.reset_optimizer) resetOptimizer(learner);
      const tally = newTally();
      const watch: TrainingOn['watch'] = (roleOf) =>
        reporting(job, report, {
          accuracy: spec.accuracy ?? false,
          signal,
          onStep: settings.onStep ?? (() => {}),
          tally,
          ...(roleOf === undefined ? {} : { roleOf }),
        });
      const metrics = flat(await train({ learner, dataset, memory, watch }));
      const saved = await saveTrained(context, settings, { job, spec, dataset, learner, metrics });
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

  const handler =
    <Schema extends TSchema>(
      schema: Schema,
      train: (on: TrainingOn, spec: Static<Schema>) => Promise<object>,
      opens?: typeof openValueModel,
    ): Handler =>
    (job, report, signal) => {
      const spec = checkedSpec(schema, job.spec);
      return training({ job, report, signal }, spec as TrainSpec, (on) => train(on, spec), opens);
    };
  return {
    [PASS]: passHandler(context, settings),
    sft: handler(SftSpec, trainSupervised),
    dpo: handler(DpoSpec, trainPreference),
    value: handler(ValueSpec, trainValue, openValueModel),
    rl: handler(RlSpec, async (on, spec) => {
      const { roles, left } = await trainPolicy(on, spec);
      return { ...(await withSignal(roles, on.dataset.manifest, countEpisodes(context.db))), ...left };
    }),
  };
}

/** Saves what was trained, and says so. */
async function saveTrained(
  context: JobContext,
  settings: TrainerSettings,
  {
    job,
    spec,
    dataset,
    learner,
    metrics,
  }: Pick<TrainingOn, 'learner' | 'dataset'> & {
    readonly job: Job;
    readonly spec: TrainSpec;
    readonly metrics: Readonly<Record<string, number>>;
  },
) {
  const keep = spec.keep ?? true;
  const parent = learner.id;
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
  return saved;
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
