/**
 * The kinds of work the trainer does. A training job knows a checkpoint, a frozen dataset and its numbers, and nothing of who played
 * or judged. It keeps the learner in memory for the next job; one that starts cold reads the same state from the checkpoint.
 */
import { readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { TroupeError } from '../errors.ts';
import { decodeDraft } from '../ingest/decode.ts';
import { hashId } from '../ingest/json.ts';
import { openDataset } from '../store/datasets/read.ts';
import { checkedSpec, type Handler, type Job, type JobContext } from '../store/jobs.ts';
import type { SavedCheckpoint } from './checkpoint.ts';
import { closeLearner, type Learner, openLearner, resetOptimizer, saveLearner } from './learner.ts';
import { rlPass } from './rl.ts';
import { sft } from './sft.ts';
import { policyRow, type StepRow, supervisedRow } from './training-rows.ts';

const Common = {
  base: Type.String({ description: 'directory of the checkpoint to go on from' }),
  dataset: Type.String({ description: 'directory of the frozen dataset' }),
  policy: Type.String(),
  seed: Type.Integer(),
  reset_optimizer: Type.Optional(Type.Boolean()),
  keep: Type.Optional(Type.Boolean({ description: 'false: live weights, which the next ones replace' })),
};
const SftSpec = Compile(
  Type.Object({
    ...Common,
    steps: Type.Record(Type.String(), Type.Integer({ minimum: 0 })),
    batch: Type.Integer({ minimum: 1 }),
    learning_rate: Type.Number(),
    warmup: Type.Integer({ minimum: 0 }),
    entropy: Type.Number(),
  }),
);
const RlSpec = Compile(
  Type.Object({
    ...Common,
    roles: Type.Array(
      Type.Object({
        role: Type.String(),
        groups: Type.Integer({ minimum: 1 }),
        learning_rate: Type.Number(),
        entropy: Type.Number(),
      }),
    ),
    clip_low: Type.Number(),
    clip_high: Type.Number(),
    warmup: Type.Integer({ minimum: 0 }),
  }),
);

export type TrainerSettings = { readonly checkpoints: string; readonly threads: number; readonly codeVersion: string };

type TrainSpec = {
  readonly base: string;
  readonly dataset: string;
  readonly policy: string;
  readonly reset_optimizer?: boolean;
  readonly keep?: boolean;
};

/** Live weights kept on disk: what is spoken now, and what was spoken before, for readers that are still at it. */
const LIVE_KEPT = 3;

export function trainerHandlers(context: JobContext, settings: TrainerSettings): Readonly<Record<string, Handler>> {
  let held: Learner | null = null;

  async function learnerAt(dir: string): Promise<Learner> {
    if (held && dir.endsWith(held.id)) return held;
    if (held) await closeLearner(held);
    held = await openLearner(dir, { threads: settings.threads });
    return held;
  }

  /** Trains and saves; whatever goes wrong, the weights in memory are not trusted again. */
  async function training<Metrics extends object>(
    job: Job,
    spec: TrainSpec,
    train: (learner: Learner, rows: StepRow[]) => Promise<Metrics>,
  ) {
    const dataset = await openDataset(spec.dataset);
    const learner = await learnerAt(spec.base);
    try {
      if (spec.reset_optimizer) resetOptimizer(learner);
      const parent = learner.id;
      const metrics = flat(await train(learner, [...dataset.rows('train')] as unknown as StepRow[]));
      const keep = spec.keep ?? true;
      const saved = await saveLearner(
        learner,
        keep ? settings.checkpoints : join(settings.checkpoints, 'live'),
        {
          datasets: [dataset.manifest.content_sha256],
          plan_hash: hashId(job.spec),
          seed: Number(job.spec.seed),
          log_positions: dataset.manifest.positions['facts/embedded'] ?? {},
          code_version: settings.codeVersion,
          metrics,
        },
        { durable: keep },
      );
      await announce(context, {
        job,
        saved,
        parent,
        policy: spec.policy,
        datasetId: dataset.manifest.dataset_id,
        keep,
        metrics,
        settings,
      });
      if (!keep) await prune(dirname(saved.dir));
      return { checkpoint_id: saved.id, directory: saved.dir, metrics };
    } catch (error) {
      held = null;
      await closeLearner(learner);
      throw error;
    }
  }

  return {
    sft: (job, report) => {
      const spec = checkedSpec(SftSpec, job.spec);
      return training(job, spec, async (learner, rows) =>
        sft(
          learner.model,
          rows.map((row) => supervisedRow(row, learner.open)),
          {
            steps: spec.steps,
            batch: spec.batch,
            learningRate: spec.learning_rate,
            warmup: spec.warmup,
            entropy: spec.entropy,
            seed: spec.seed,
            onStep: async (step, total, { loss, gradientNorm }) => {
              if (step % 10 === 0 || step === total)
                await report(step, { loss, gradient_norm: gradientNorm, share: step / total });
            },
          },
        ),
      );
    },
    rl: (job) => {
      const spec = checkedSpec(RlSpec, job.spec);
      return training(job, spec, (learner, rows) =>
        rlPass(learner.model, rows.map(policyRow), {
          roles: spec.roles.map(({ role, groups, learning_rate, entropy }) => ({
            role,
            groups,
            learningRate: learning_rate,
            entropy,
          })),
          clipLow: spec.clip_low,
          clipHigh: spec.clip_high,
          warmup: spec.warmup,
          seed: spec.seed,
        }),
      );
    },
  };
}

/** Keeps the newest live weights, those of a process before this one included. */
async function prune(folder: string): Promise<void> {
  const ids = await readdir(folder);
  const aged = await Promise.all(
    ids.map(async (id) => ({ dir: join(folder, id), at: (await stat(join(folder, id))).mtimeMs })),
  );
  const old = aged.sort((a, b) => b.at - a.at).slice(LIVE_KEPT);
  for (const { dir } of old) await rm(dir, { recursive: true, force: true });
}

type Announcement = {
  readonly job: Job;
  readonly saved: SavedCheckpoint;
  readonly parent: string;
  readonly policy: string;
  readonly datasetId: string;
  readonly keep: boolean;
  readonly metrics: Record<string, number>;
  readonly settings: TrainerSettings;
};

async function announce(
  { log, now }: JobContext,
  { job, saved, parent, policy, datasetId, keep, metrics, settings }: Announcement,
): Promise<void> {
  const decoded = decodeDraft({
    name: 'checkpoint.saved',
    source: '/trainer',
    id: `${job.job_id}/${saved.id}`,
    time: now().toISOString(),
    data: {
      checkpoint_id: saved.id,
      parent_id: parent === saved.id ? null : parent,
      policy,
      uri: saved.dir,
      sha256: saved.sha256,
      step: Number(metrics.step ?? 0),
      dataset_ids: [datasetId],
      job_id: job.job_id,
      kept: keep,
      metrics,
      code_version: settings.codeVersion,
    },
  });
  if (decoded.refusal)
    throw new TroupeError('internal', `The trainer's own event was refused: ${JSON.stringify(decoded.refusal)}`);
  await log.append([decoded.event]);
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
