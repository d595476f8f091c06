/** A model as the files other programs load: the Hugging Face layout, in any of three number types, in one file or several. */
import { TroupeError } from '../../errors.ts';
import { SIDE_FILES, type SideFiles } from './checkpoints/checkpoint-format.ts';
import type { FileParts } from './files/disk.ts';
import { safetensorsParts } from './files/safetensors.ts';
import { BYTES, type Dtype } from './files/safetensors-header.ts';
import { modelConfigJson } from './model-config.ts';
import type { ModelConfig, Tensor, Weights } from './weights.ts';

export type ModelFilesOptions = {
  /** How weights are stored; F32 if left out. */
  readonly dtype?: Dtype;
  /** Bytes of tensors in one safetensors file at most; one tensor alone may have more. No limit if left out. */
  readonly maxShard?: number;
};

const TORCH_NAMES = { F32: 'float32', F16: 'float16', BF16: 'bfloat16' } as const satisfies Record<Dtype, string>;

/**
 * The files of a model directory, each in parts that are made when they are asked for. Reading a part throws
 * `model_unsupported` where a 16-bit type would make an infinity of a finite weight. Throws `usage` for a shard of no bytes.
 */
export function modelFiles(
  {
    config,
    weights,
    sideFiles,
  }: { readonly config: ModelConfig; readonly weights: Weights; readonly sideFiles: SideFiles },
  { dtype = 'F32', maxShard = Number.POSITIVE_INFINITY }: ModelFilesOptions = {},
): ReadonlyMap<string, FileParts> {
  if (!(maxShard > 0)) throw new TroupeError('usage', `A shard needs at least one byte, not ${maxShard}.`);
  const files = new Map<string, FileParts>([
    ['config.json', [pretty({ ...modelConfigJson(config), torch_dtype: TORCH_NAMES[dtype] })]],
  ]);
  for (const name of SIDE_FILES) {
    const content = sideFiles[name];
    if (content !== undefined) files.set(name, [new TextEncoder().encode(content)]);
  }
  const shards = inShards(weights, dtype, maxShard);
  if (shards.length === 1) return files.set('model.safetensors', safetensorsParts(weights, { dtype }));
  const map: Record<string, string> = {};
  for (const [index, shard] of shards.entries()) {
    const name = `model-${padded(index + 1)}-of-${padded(shards.length)}.safetensors`;
    files.set(name, safetensorsParts(shard, { dtype }));
    for (const tensor of shard.keys()) map[tensor] = name;
  }
  const total = [...weights.values()].reduce((sum, { data }) => sum + data.length * BYTES[dtype], 0);
  return files.set('model.safetensors.index.json', [pretty({ metadata: { total_size: total }, weight_map: map })]);
}

/** Tensors in the model's order, a new shard where the next one no longer fits. */
function inShards(weights: Weights, dtype: Dtype, most: number): Weights[] {
  let shard = new Map<string, Tensor>();
  const shards = [shard];
  let filled = 0;
  for (const [name, tensor] of weights) {
    const bytes = tensor.data.length * BYTES[dtype];
    if (filled > 0 && filled + bytes > most) {
      shard = new Map();
      shards.push(shard);
      filled = 0;
    }
    shard.set(name, tensor);
    filled += bytes;
  }
  return shards;
}

const padded = (number: number): string => String(number).padStart(5, '0');
const pretty = (value: unknown): Uint8Array => new TextEncoder().encode(`${JSON.stringify(value, null, 2)}\n`);
