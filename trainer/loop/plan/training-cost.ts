/** What the training of a policy takes, estimated before it is asked for: memory, and the bytes of a checkpoint. */

import { requireAdapter } from '../../learn/adapter-start.ts';
import type { StepRow } from '../../learn/data/training-rows.ts';
import { DEFAULTS } from '../../learn/defaults.ts';
import { countNumbers, countParameters, estimateTrainingMemory } from '../../learn/memory.ts';
import { type Adapter, adapterShapes } from '../../model/lora.ts';
import type { OpenModel } from '../../model/model-directory.ts';
import type { ModelConfig } from '../../model/weights.ts';
import { adapterAsked } from '../jobs/job-specs.ts';
import type { PlanPolicy } from './plan-schema.ts';

type LocalTrain = Exclude<PlanPolicy['train'], { engine: 'command' }>;

export type AdapterCheck = {
  readonly r: number;
  readonly alpha: number;
  readonly targets: readonly string[];
  /** Numbers that are trained, of how many that the model has. */
  readonly parameters: number;
  readonly of_parameters: number;
  /** The model that it lies over, and the checkpoint whose adapter is gone on with; null for a new one. */
  readonly base: string;
  readonly continues: string | null;
};

/**
 * The adapter that training would begin with; null where all weights are trained.
 * @throws TroupeError `model_unsupported` where the model has no such maps, or an adapter of other numbers
 */
export function adapterCheck(train: LocalTrain, start: OpenModel): AdapterCheck | null {
  const adapter = adapterOf(train);
  if (adapter === null) return null;
  const continues = requireAdapter(start, adapter);
  return {
    r: adapter.r,
    alpha: adapter.alpha,
    targets: adapter.targets,
    parameters: countNumbers(adapterShapes(start.config, adapter)),
    of_parameters: countParameters(start.config),
    base: start.meta.adapter?.base ?? start.id,
    continues: continues ? start.id : null,
  };
}

const adapterOf = (train: LocalTrain): Adapter | null => ('lora' in train ? adapterAsked(train.lora) : null);

/** Bytes at the peak of the training, from the rows of the dataset and the tokens of each. */
export function memoryOf(
  train: LocalTrain,
  config: ModelConfig,
  { rows, lengths }: { readonly rows: readonly StepRow[]; readonly lengths: readonly number[] },
): number {
  const longest = lengths.reduce((most, length) => Math.max(most, length), 1);
  return estimateTrainingMemory(config, {
    tokensPerStep: longest * rowsOfStep(train, rows),
    longest,
    adapter: adapterOf(train),
    sharedPrompts: train.method === 'dpo',
  }).total;
}

function rowsOfStep(train: LocalTrain, rows: readonly StepRow[]): number {
  if (train.method === 'dpo') return 2 * (train.batch ?? DEFAULTS.batch);
  if (train.method !== 'rl') return train.batch ?? DEFAULTS.batch;
  const sizes = new Map<string, number>();
  for (const { group_id } of rows) sizes.set(group_id ?? '', (sizes.get(group_id ?? '') ?? 0) + 1);
  const { groups = DEFAULTS.groups } = train;
  const all = typeof groups === 'number' ? groups : Object.values(groups).reduce((a, b) => a + b, 0);
  return Math.min(rows.length, all * Math.max(1, ...sizes.values()));
}

const FLOAT = 4;
/** Of a byte in base64. */
const BASE64 = 4 / 3;

/**
 * Bytes of a checkpoint on disk, without its texts: the weights and both moments of what is trained; of an adapter also its matrices, in the
 * state and in the directory beside it.
 */
export function checkpointBytes(train: LocalTrain, config: ModelConfig): number {
  const all = countParameters(config);
  const adapter = adapterOf(train);
  if (adapter === null) return FLOAT * 3 * all;
  return FLOAT * all + FLOAT * (2 + BASE64 + 1) * countNumbers(adapterShapes(config, adapter));
}
