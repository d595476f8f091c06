/**
 * Trains a model of random weights for two steps and prints what memory that took: {"peak": bytes, "estimate": bytes}, the
 * peak as the growth of the resident set. Alone in its process, since a peak is never taken back.
 * Argument: JSON with a configuration's sizes, rows, length and optionally adapter and recompute.
 */
import { readFileSync } from 'node:fs';
import { estimateTrainingMemory } from '../../trainer/learn/memory.ts';
import { trainable, trainStep } from '../../trainer/learn/step.ts';
import { ALL_LINEAR, initialAdapter, mergeAdapter } from '../../trainer/model/lora.ts';
import { sftLoss } from '../../trainer/model/losses/sft.ts';
import { initialWeights } from '../../trainer/model/parameters.ts';
import type { ModelConfig } from '../../trainer/model/weights.ts';

export type Measured = {
  readonly sizes: Pick<
    ModelConfig,
    'vocab_size' | 'hidden_size' | 'intermediate_size' | 'num_hidden_layers' | 'num_attention_heads'
  >;
  readonly rows: number;
  readonly length: number;
  readonly adapter?: boolean;
  readonly recompute?: boolean;
};

const { sizes, rows: B, length, adapter: low = false, recompute = false } = JSON.parse(process.argv[2]!) as Measured;
const config: ModelConfig = {
  model_type: 'llama',
  ...sizes,
  num_key_value_heads: sizes.num_attention_heads,
  max_position_embeddings: length,
  rms_norm_eps: 1e-6,
  rope_theta: 10_000,
  tie_word_embeddings: true,
  bos_token_id: null,
  pad_token_id: 0,
  eos_token_id: 1,
};
/** Bytes by their name in /proc/self/status. */
const status = (name: string): number =>
  1024 * Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(readFileSync('/proc/self/status', 'utf8'))![1]);

const before = status('VmRSS');
const adapter = low ? { r: 8, alpha: 16, targets: ALL_LINEAR } : null;
const model = trainable(config, initialWeights(config, 1), {
  recompute,
  ...(adapter ? { adapter: { adapter, weights: initialAdapter(config, adapter, 1) } } : {}),
});
const tokens = Array.from({ length: length - 1 }, (_, i) => 2 + ((37 * i) % (config.vocab_size - 2)));
const weights = tokens.map(() => 1 / (B * tokens.length));
const rows = Array.from({ length: B }, () => ({ promptIds: [2], completions: [{ tokenIds: tokens, weights }] }));
const adam = { learningRate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, clip: 1 };
for (let step = 0; step < 2; step++) await trainStep(model, rows, { loss: sftLoss, ...adam });
// What a save of it holds as well.
const merged = adapter && mergeAdapter(config, model.weights, adapter, model.trained);

const { total } = estimateTrainingMemory(config, { tokensPerStep: B * length, longest: length, adapter, recompute });
process.stdout.write(
  `${JSON.stringify({ peak: status('VmHWM') - before, estimate: total, merged: merged?.size ?? 0 })}\n`,
);
