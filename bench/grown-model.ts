/** A trained model in the shape of a larger one, so that what a model costs can be changed while what it answers stays. */
import { type SavedCheckpoint, saveCheckpointAt } from '../trainer/model/checkpoints/checkpoint.ts';
import { headSize } from '../trainer/model/families.ts';
import { openModelForIds } from '../trainer/model/model-directory.ts';
import { parameterShapes } from '../trainer/model/parameters.ts';
import type { ModelConfig, Tensor } from '../trainer/model/weights.ts';

/** What of a larger model is taken; its heads are as wide as before, its vocabulary is the same. */
type Larger = Pick<ModelConfig, 'hidden_size' | 'intermediate_size' | 'num_hidden_layers'>;

/**
 * Writes the model of `from` to `dir` in a larger shape. What it has more is 0, and the norms, whose mean goes over more values, are scaled
 * to match, so its answers are those of the small one, but for rounding.
 */
export async function grownModel(
  from: string,
  dir: string,
  { hidden_size, intermediate_size, num_hidden_layers }: Larger,
): Promise<SavedCheckpoint & { readonly config: ModelConfig }> {
  const open = await openModelForIds(from);
  const heads = hidden_size / headSize(open.config);
  const share = open.config.hidden_size / hidden_size;
  const config: ModelConfig = {
    ...open.config,
    rms_norm_eps: open.config.rms_norm_eps * share,
    ...{ hidden_size, intermediate_size, num_hidden_layers, num_attention_heads: heads, num_key_value_heads: heads },
  };
  const weights = new Map(
    parameterShapes(config).map(([name, shape]): [string, Tensor] => [
      name,
      padded(open.weights.get(name), shape, shape.length === 1 ? Math.sqrt(share) : 1),
    ]),
  );
  const saved = await saveCheckpointAt(dir, { ...open, config, weights, optimizer: null, state: null });
  return { ...saved, config };
}

/** A tensor in the first rows and columns of a larger one of zeros, times `scale`. */
function padded(small: Tensor | undefined, shape: readonly number[], scale: number): Tensor {
  const data = new Float32Array(shape.reduce((a, b) => a * b, 1));
  if (small !== undefined) {
    const [columns, width] = [small.shape.at(-1)!, shape.at(-1)!];
    for (const [i, value] of (small.data as Float32Array).entries())
      data[Math.floor(i / columns) * width + (i % columns)] = value * scale;
  }
  return { shape, data };
}
