/** A checkpoint that is being trained: opened with its optimizer, trained in place, saved as a child of what it was opened from. */
import { join } from 'node:path';
import type { TroupeError } from '../../errors.ts';
import { adapterFiles } from '../model/adapter-directory.ts';
import { type SavedCheckpoint, saveCheckpoint } from '../model/checkpoints/checkpoint.ts';
import type { CheckpointMeta } from '../model/checkpoints/checkpoint-format.ts';
import { publishDirectory } from '../model/files/atomic.ts';
import { type Adapter, mergeAdapter } from '../model/lora.ts';
import { type OpenModel, openModelForIds, type openValueModel } from '../model/model-directory.ts';
import type { Weights } from '../model/weights.ts';
import { type AdapterStart, adapterStart } from './adapter-start.ts';
import { type AdamState, initAdam } from './optimizer.ts';
import { adapterState } from './run-state.ts';
import { closeTrainable, type TrainableModel, type TrainableOptions, trainable } from './step.ts';

export type Learner = {
  /** Id of the checkpoint that the weights in memory are. */
  id: string;
  readonly open: OpenModel;
  readonly model: TrainableModel;
  /** The weights that its adapter lies over, their id and directory; null where all weights are trained. */
  readonly base: { readonly id: string; readonly dir: string } | null;
};

export type OpenLearner = {
  readonly threads?: number;
  readonly opens?: typeof openValueModel;
  /** Trained in place of the weights, with the seed of a new one and where the base of an earlier one may be. */
  readonly adapter?: Adapter | null;
  readonly seed?: number;
  readonly bases?: readonly string[];
};

/**
 * Goes on with the optimizer that lies beside the weights, or with a fresh one where there is none for what is trained.
 * @throws TroupeError as `adapterStart` does
 */
export async function openLearner(
  dir: string,
  { threads = 1, opens = openModelForIds, adapter = null, seed = 0, bases = [] }: OpenLearner = {},
): Promise<Learner> {
  const open = await opens(dir);
  const start = adapter && (await adapterStart(open, adapter, { seed, bases }));
  const same = (open.meta.adapter !== undefined) === (start?.continues ?? false);
  return learnerOf(open, {
    threads,
    start,
    ...(open.optimizer && same ? { optimizer: adamState(open.optimizer) } : {}),
  });
}

/** @param options.start the adapter that is trained; null for all weights */
export const learnerOf = (
  open: OpenModel,
  { start, ...options }: Omit<TrainableOptions, 'adapter'> & { readonly start: AdapterStart | null },
): Learner => {
  const whole = start === null ? open : { ...open, weights: start.base.weights };
  return {
    id: open.id,
    open: whole,
    model: trainable(open.config, whole.weights, { ...options, ...(start === null ? {} : { adapter: start }) }),
    base: start && { id: start.base.id, dir: start.base.dir },
  };
};

export const resetOptimizer = ({ model }: Learner): void => {
  model.optimizer = initAdam();
};

export const closeLearner = ({ model }: Learner): Promise<void> => closeTrainable(model);

export type SaveOptions = {
  /** False for live weights that the next ones replace. */
  readonly durable?: boolean;
  /** What a run needs to go on, as plain JSON; of an adapter, its matrices under `adapter`. */
  readonly state?: unknown;
  /** The model as ONNX Runtime takes it, beside the weights. */
  readonly onnx?: boolean;
  /** What it comes from, where that is not what the learner was opened from or saved as last. */
  readonly parent?: string;
};

/**
 * Saves what the learner is now; afterwards it is the new checkpoint. Where an adapter is trained the checkpoint is the whole model with
 * the adapter folded in, its optimizer that of the adapter's matrices, and its state holds these.
 */
export async function saveLearner(
  learner: Learner,
  folder: string,
  meta: Omit<CheckpointMeta, 'parent' | 'step' | 'adapter' | 'answer_form'>,
  { durable = true, state = null, onnx = false, parent = learner.id }: SaveOptions = {},
): Promise<SavedCheckpoint> {
  const { open, model } = learner;
  const { step, m, v } = model.optimizer;
  const shaped = (moments: ReadonlyMap<string, Float32Array>): Weights =>
    new Map([...moments].map(([name, data]) => [name, { shape: model.trained.get(name)!.shape, data }]));
  const saved = await saveCheckpoint(
    folder,
    {
      config: open.config,
      weights: servedWeights(learner),
      sideFiles: open.sideFiles,
      optimizer: { step, m: shaped(m), v: shaped(v) },
      state: state ?? (model.adapter === null ? null : adapterState(model.trained)),
      ...(onnx ? { onnx } : {}),
      meta: { ...meta, parent, step, ...adapterMeta(learner), ...answerMeta(learner) },
    },
    { durable },
  );
  learner.id = saved.id;
  return saved;
}

/** What the lineage of a checkpoint, and a training's report, say of how answers are written. */
export const answerMeta = ({ open: { template } }: Pick<Learner, 'open'>): Pick<CheckpointMeta, 'answer_form'> =>
  template?.answerForm == null ? {} : { answer_form: template.answerForm };

/** What the lineage of a checkpoint says of its adapter; nothing where all weights are trained. */
export const adapterMeta = ({
  base,
  model: { adapter },
}: Pick<Learner, 'base'> & { readonly model: Pick<AdapterModel, 'adapter'> }): Pick<CheckpointMeta, 'adapter'> =>
  adapter === null || base === null ? {} : { adapter: { base: base.id, ...adapter } };

/** The weights as they are served: with the adapter merged in. */
const servedWeights = ({ model: { config, weights, adapter, trained } }: Learner): Weights =>
  adapter === null ? weights : mergeAdapter(config, weights, adapter, trained);

type AdapterModel = Pick<TrainableModel, 'adapter' | 'trained' | 'config'>;

/**
 * Publishes the adapter of a learner beside the checkpoint that it was saved as, as PEFT and model servers load it. Null where weights were
 * trained.
 */
export async function publishAdapter(
  { id, base, model }: Pick<Learner, 'id' | 'base'> & { readonly model: AdapterModel },
  folder: string,
): Promise<string | null> {
  const { adapter, trained, config } = model;
  if (adapter === null || base === null) return null;
  const name = `${id}-adapter`;
  const head = config.head === undefined ? {} : { head: config.head };
  const files = adapterFiles(adapter, trained, { baseModel: base.dir, ...head });
  const parts = new Map([...files].map(([file, bytes]) => [file, [bytes]]));
  const seal = { name, files: new Map<string, Uint8Array>() };
  await publishDirectory(folder, parts, () => seal).catch((error: TroupeError) => {
    // Its name follows from what is in it: what is there is the same.
    if (error.code !== 'conflict') throw error;
  });
  return join(folder, name);
}

export const adamState = ({ step, m, v }: NonNullable<OpenModel['optimizer']>): AdamState => {
  const arrays = (weights: Weights) => new Map([...weights].map(([name, { data }]) => [name, data]));
  return { step, m: arrays(m), v: arrays(v) };
};
