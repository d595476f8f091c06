/** A model and an adapter as one model. */
import { resolve } from 'node:path';
import { openAdapter } from '../../../trainer/model/adapter-directory.ts';
import { saveCheckpointAt } from '../../../trainer/model/checkpoints/checkpoint.ts';
import { emptyMeta } from '../../../trainer/model/checkpoints/checkpoint-format.ts';
import { mergeAdapter } from '../../../trainer/model/lora.ts';
import { openModel } from '../../../trainer/model/model-directory.ts';
import type { ReadContext } from '../operation.ts';

export async function merge(
  { version }: ReadContext,
  { model, adapter: from, out }: { readonly [K in 'model' | 'adapter' | 'out']: string },
) {
  const base = await openModel(resolve(model));
  const { adapter, weights, baseModel } = await openAdapter(resolve(from));
  const saved = await saveCheckpointAt(resolve(out), {
    config: base.config,
    weights: mergeAdapter(base.config, base.weights, adapter, weights),
    sideFiles: base.sideFiles,
    optimizer: null,
    state: null,
    meta: {
      ...emptyMeta,
      parent: base.id,
      step: base.meta.step,
      datasets: base.meta.datasets,
      code_version: version,
    },
  });
  const { r, alpha, targets } = adapter;
  return {
    ...{ checkpoint_id: saved.id, directory: saved.dir, base: base.id },
    adapter: { r, alpha, targets, base_model: baseModel },
  };
}
