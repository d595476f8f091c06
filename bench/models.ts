/** The models that benchmarks run, with random weights, as directories that both sides open; and what they are shown. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { got, TroupeError } from '../errors.ts';
import { adapterFiles } from '../trainer/model/adapter-directory.ts';
import { ALL_LINEAR, initialAdapter } from '../trainer/model/lora.ts';
import { newModelDirectory } from '../trainer/model/model-directory.ts';
import { parameterShapes } from '../trainer/model/parameters.ts';
import { wordTokenizer } from '../trainer/model/tokens/tokenizer.ts';
import type { ModelConfig } from '../trainer/model/weights.ts';
import { type RandomStream, randomStream } from '../trainer/tensor/random.ts';

export type Size = {
  readonly name: string;
  readonly config: ModelConfig;
  /** Sequences of a training batch, and tokens of each. */
  readonly rows: number;
  readonly length: number;
  /** Training steps of one timed round: about a second on two cores. */
  readonly steps: number;
};

const llama = (d: number, layers: number, heads: number, ff: number, vocabulary: number): ModelConfig => ({
  model_type: 'llama',
  hidden_size: d,
  intermediate_size: ff,
  num_hidden_layers: layers,
  num_attention_heads: heads,
  num_key_value_heads: heads,
  vocab_size: vocabulary,
  max_position_embeddings: 2048,
  rms_norm_eps: 1e-6,
  rope_theta: 10000,
  tie_word_embeddings: true,
  bos_token_id: null,
  eos_token_id: null,
  pad_token_id: 0,
});

/** The shape of Qwen2 0.5B. */
const qwen: ModelConfig = {
  ...llama(896, 24, 14, 4864, 151_936),
  model_type: 'qwen2',
  num_key_value_heads: 2,
  rope_theta: 1_000_000,
};

export const SIZES: readonly Size[] = [
  { name: '0.5m', config: llama(128, 2, 4, 344, 512), rows: 8, length: 64, steps: 40 },
  { name: '4m', config: llama(256, 4, 8, 688, 4096), rows: 8, length: 128, steps: 6 },
  { name: '34m', config: llama(512, 8, 8, 1376, 16384), rows: 4, length: 256, steps: 1 },
  { name: '0.5b', config: qwen, rows: 1, length: 128, steps: 1 },
];

/** Sizes by their names, separated by commas. @throws TroupeError `usage` for a name that is none. */
export function sizesNamed(names: string): Size[] {
  return names.split(',').map((name) => {
    const size = SIZES.find((one) => one.name === name.trim().toLowerCase());
    if (size) return size;
    const known = SIZES.map((one) => one.name).join(', ');
    throw new TroupeError('usage', `There is no size ${got(name)}; the sizes are ${known}.`);
  });
}

/** Writes a model of a size with random weights below `folder` and returns its directory. */
export async function writeModel(folder: string, { name, config }: Size): Promise<string> {
  const words = Array.from({ length: config.vocab_size - 1 }, (_, i) => `w${i}`);
  const dir = join(folder, `model-${name}`);
  await newModelDirectory(
    dir,
    { config, tokenizer: wordTokenizer(words, ['<pad>'], { pad: '<pad>' }), chatTemplate: null, seed: 5 },
    { durable: false },
  );
  return dir;
}

/** Writes a low-rank adapter of all of a layer's maps, as it begins, beside the model and returns its directory. */
export async function writeAdapter(folder: string, { name, config }: Size, model: string): Promise<string> {
  const dir = join(folder, `adapter-${name}`);
  const adapter = { r: 8, alpha: 16, targets: ALL_LINEAR };
  const files = adapterFiles(adapter, initialAdapter(config, adapter, 7), { baseModel: model });
  mkdirSync(dir);
  for (const [file, bytes] of files) writeFileSync(join(dir, file), bytes);
  return dir;
}

export const parameterCount = (config: ModelConfig): number =>
  parameterShapes(config).reduce((sum, [, shape]) => sum + shape.reduce((a, b) => a * b, 1), 0);

/**
 * Floating point operations of a training step on sequences of equal length: 6 for each parameter and token, and
 * 12 · layers · width · length for the attention of each token, masked half included (Chowdhery et al. 2022,
 * arXiv:2204.02311, appendix B).
 */
export function stepOperations({ config, rows, length }: Size): number {
  const attention = 12 * config.num_hidden_layers * config.hidden_size * length;
  return rows * length * (6 * parameterCount(config) + attention);
}

/**
 * A sequence that can be learned but not to the end: from each token the next follows by a rule, or by chance one time
 * in three. A loss that went to 0 could not be compared relative to its size.
 */
export function sequence({ uniform }: RandomStream, length: number, vocabulary: number): number[] {
  const any = () => 1 + Math.floor(uniform() * (vocabulary - 1));
  const ids = [any()];
  while (ids.length < length) ids.push(uniform() < 1 / 3 ? any() : 1 + ((ids.at(-1)! * 5 + 3) % (vocabulary - 1)));
  return ids;
}

/** Batches of a size, one after the other, the same from the same seed. */
export function batchesOf({ config, rows, length }: Size, seed: number): (count: number) => number[][][] {
  const random = randomStream(seed);
  const batch = () => Array.from({ length: rows }, () => sequence(random, length, config.vocab_size));
  return (count) => Array.from({ length: count }, batch);
}
