/**
 * What the training of an adapter begins with. A model without one gets a new adapter over its weights. A checkpoint whose weights are a base
 * with an adapter folded in goes on with that adapter over that base: so all adapters of a line lie over one base, which a model server has
 * loaded once, and each takes the place of the one before.
 */
import { dirname, join, resolve } from 'node:path';
import { TroupeError } from '../../errors.ts';
import { openAdapter } from '../model/adapter-directory.ts';
import { checkpointDamaged } from '../model/checkpoints/checkpoint-format.ts';
import { type Adapter, adapterText, initialAdapter, sameAdapter } from '../model/lora.ts';
import { type OpenModel, openModelForIds } from '../model/model-directory.ts';
import type { Weights } from '../model/weights.ts';
import { matricesIn } from './run-state.ts';

export type AdapterStart = {
  readonly adapter: Adapter;
  /** A and B as they are before the first step. */
  readonly weights: Weights;
  /** The weights that it lies over: their id, their directory as an absolute path, and they themselves. */
  readonly base: { readonly id: string; readonly dir: string; readonly weights: Weights };
  /** Whether it was trained before. */
  readonly continues: boolean;
};

/**
 * @param start the model or checkpoint that training begins with
 * @param options.seed of a new adapter
 * @param options.bases directories in which the base may be, beside where the adapter says and the folder of the checkpoint
 * @throws TroupeError `model_unsupported` where the checkpoint has an adapter of other numbers, `not_found` where its base is nowhere
 */
export async function adapterStart(
  start: OpenModel,
  adapter: Adapter,
  { seed, bases = [] }: { readonly seed: number; readonly bases?: readonly string[] },
): Promise<AdapterStart> {
  const { adapter: before } = start.meta;
  if (before === undefined) {
    const base = { id: start.id, dir: resolve(start.dir), weights: start.weights };
    return { adapter, weights: initialAdapter(start.config, adapter, seed), base, continues: false };
  }
  requireAdapter(start, adapter);
  const weights = matricesIn(start.state);
  if (weights === null) throw checkpointDamaged('state.json holds no adapter, which troupe.json names');
  return { adapter, weights, base: await openBase(start, before.base, bases), continues: true };
}

/**
 * Whether training with this adapter goes on with the one of a checkpoint; false where the checkpoint has none.
 * @throws TroupeError `model_unsupported` where it has one of other numbers
 */
export function requireAdapter({ id, meta }: Pick<OpenModel, 'id' | 'meta'>, adapter: Adapter): boolean {
  if (meta.adapter === undefined) return false;
  if (sameAdapter(meta.adapter, adapter)) return true;
  throw new TroupeError(
    'model_unsupported',
    `Checkpoint ${id} has an adapter with ${adapterText(meta.adapter)}, which training goes on with, so it cannot be trained with ${adapterText(adapter)}.`,
    {
      field: 'lora',
      expected: adapterText(meta.adapter),
      got: adapterText(adapter),
      hint: 'Use the same numbers, begin with the model below it, or make one model of both with troupe model merge and begin with that.',
    },
  );
}

async function openBase(start: OpenModel, id: string, bases: readonly string[]): Promise<AdapterStart['base']> {
  const named = await openAdapter(`${start.dir}-adapter`).catch(() => null);
  const places = [named?.baseModel ?? null, join(dirname(start.dir), id), ...bases].filter((dir) => dir !== null);
  const seen: string[] = [];
  for (const place of new Set(places.map((dir) => resolve(dir)))) {
    const found = await openModelForIds(place, start).catch((error: TroupeError) => error);
    if (!(found instanceof Error) && found.id === id) return { id, dir: resolve(found.dir), weights: found.weights };
    seen.push(found instanceof Error ? found.message : `${place} holds ${found.id}.`);
  }
  throw new TroupeError(
    'not_found',
    `The adapter of checkpoint ${start.id} lies over the model ${id}, which is needed to go on with it and was not found. ${seen.join(' ')}`,
    {
      hint: `Put that model into ${join(dirname(resolve(start.dir)), id)}, or name its directory as base of the plan's policy.`,
    },
  );
}
