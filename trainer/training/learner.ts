/** A checkpoint that is being trained: opened with its optimizer, trained in place, saved as a child of what it was opened from. */
import { type SavedCheckpoint, saveCheckpoint } from '../checkpoints/checkpoint.ts';
import type { CheckpointMeta } from '../checkpoints/checkpoint-format.ts';
import { mergeAdapter } from '../models/lora.ts';
import { type OpenModel, openModelForIds, type openValueModel } from '../models/model-directory.ts';
import type { Weights } from '../models/weights.ts';
import { type AdamState, initAdam } from './optimizer.ts';
import { closeTrainable, type TrainableModel, type TrainableOptions, trainable } from './step.ts';

export type Learner = {
  /** Id of the checkpoint that the weights in memory are. */
  id: string;
  readonly open: OpenModel;
  readonly model: TrainableModel;
};

/** Goes on with the optimizer that lies beside the weights, or with a fresh one where there is none. */
export async function openLearner(
  dir: string,
  { threads = 1, opens = openModelForIds }: { readonly threads?: number; readonly opens?: typeof openValueModel } = {},
): Promise<Learner> {
  const open = await opens(dir);
  return learnerOf(open, { threads, ...(open.optimizer ? { optimizer: adamState(open.optimizer) } : {}) });
}

export const learnerOf = (open: OpenModel, options: TrainableOptions): Learner => ({
  id: open.id,
  open,
  model: trainable(open.config, open.weights, options),
});

export const resetOptimizer = ({ model }: Learner): void => {
  model.optimizer = initAdam();
};

export const closeLearner = ({ model }: Learner): Promise<void> => closeTrainable(model);

export type SaveOptions = {
  /** False for live weights that the next ones replace. */
  readonly durable?: boolean;
  /** What a run needs to go on, as plain JSON. */
  readonly state?: unknown;
  /** The model as ONNX Runtime takes it, beside the weights. */
  readonly onnx?: boolean;
  /** What it comes from, where that is not what the learner was opened from or saved as last. */
  readonly parent?: string;
};

/**
 * Saves what the learner is now; afterwards it is the new checkpoint. Where an adapter is trained the checkpoint is the whole model with
 * the adapter folded in, and its optimizer that of the adapter's matrices.
 */
export async function saveLearner(
  learner: Learner,
  folder: string,
  meta: Omit<CheckpointMeta, 'parent' | 'step'>,
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
      state,
      ...(onnx ? { onnx } : {}),
      meta: { ...meta, parent, step },
    },
    { durable },
  );
  learner.id = saved.id;
  return saved;
}

/** The weights as they are served: with the adapter merged in. */
const servedWeights = ({ model: { config, weights, adapter, trained } }: Learner): Weights =>
  adapter === null ? weights : mergeAdapter(config, weights, adapter, trained);

export const adamState = ({ step, m, v }: NonNullable<OpenModel['optimizer']>): AdamState => {
  const arrays = (weights: Weights) => new Map([...weights].map(([name, { data }]) => [name, data]));
  return { step, m: arrays(m), v: arrays(v) };
};
