/** A checkpoint that is being trained: opened with its optimizer, trained in place, saved as a child of what it was opened from. */
import { type SavedCheckpoint, saveCheckpoint } from './checkpoint.ts';
import type { CheckpointMeta } from './checkpoint-format.ts';
import { type OpenModel, openModel } from './model-directory.ts';
import { type AdamState, initAdam } from './optimizer.ts';
import { closeTrainable, type TrainableModel, trainable } from './step.ts';
import type { Weights } from './weights.ts';

export type Learner = {
  /** Id of the checkpoint that the weights in memory are. */
  id: string;
  readonly open: OpenModel;
  readonly model: TrainableModel;
};

export async function openLearner(dir: string, { threads = 1 } = {}): Promise<Learner> {
  const open = await openModel(dir);
  const optimizer = open.optimizer ? adamState(open.optimizer) : undefined;
  const model = trainable(open.config, open.weights, { threads, ...(optimizer ? { optimizer } : {}) });
  return { id: open.id, open, model };
}

export const resetOptimizer = ({ model }: Learner): void => {
  model.optimizer = initAdam(model.weights);
};

export const closeLearner = ({ model }: Learner): Promise<void> => closeTrainable(model);

/** Saves what the learner is now; afterwards it is the new checkpoint. `durable: false` for live weights that the next ones replace. */
export async function saveLearner(
  learner: Learner,
  folder: string,
  meta: Omit<CheckpointMeta, 'parent' | 'step'>,
  { durable = true } = {},
): Promise<SavedCheckpoint> {
  const { open, model } = learner;
  const { step, m, v } = model.optimizer;
  const shaped = (moments: ReadonlyMap<string, Float32Array>): Weights =>
    new Map([...moments].map(([name, data]) => [name, { shape: model.weights.get(name)!.shape, data }]));
  const saved = await saveCheckpoint(
    folder,
    {
      config: open.config,
      weights: model.weights,
      sideFiles: open.sideFiles,
      optimizer: { step, m: shaped(m), v: shaped(v) },
      state: null,
      meta: { ...meta, parent: learner.id, step },
    },
    { durable },
  );
  learner.id = saved.id;
  return saved;
}

const adamState = ({ step, m, v }: NonNullable<OpenModel['optimizer']>): AdamState => {
  const arrays = (weights: Weights) => new Map([...weights].map(([name, { data }]) => [name, data]));
  return { step, m: arrays(m), v: arrays(v) };
};
