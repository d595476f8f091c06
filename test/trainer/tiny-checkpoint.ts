import { type CheckpointContents, emptyMeta } from '../../trainer/model/checkpoints/checkpoint-format.ts';
import { sideFilesOf } from '../../trainer/model/model-directory.ts';
import { initialWeights } from '../../trainer/model/parameters.ts';
import { wordTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import type { ModelConfig, Weights } from '../../trainer/model/weights.ts';

const words = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'user', 'assistant'];

export const tinyTokenizer = wordTokenizer(words, ['<pad>', '<end>', '<bos>'], {
  bos: '<bos>',
  eos: '<end>',
  pad: '<pad>',
});

export const tinyTemplate = `{{ bos_token }}{% for message in messages %} {{ message.role }} {{ message.content }} <end>{% endfor %}{% if add_generation_prompt %} assistant{% endif %}`;

export const tinyConfig: ModelConfig = {
  model_type: 'llama',
  hidden_size: 16,
  intermediate_size: 24,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  vocab_size: 13,
  max_position_embeddings: 32,
  rms_norm_eps: 1e-5,
  rope_theta: 10000,
  tie_word_embeddings: false,
  bos_token_id: 2,
  eos_token_id: 1,
  pad_token_id: 0,
};

const scaled = (weights: Weights, by: number): Weights =>
  new Map([...weights].map(([name, { shape, data }]) => [name, { shape, data: data.map((x) => x * by) }]));

/** A checkpoint that differs in every part with its step. */
export function tinyContents(step: number, config: ModelConfig = tinyConfig): CheckpointContents {
  const weights = initialWeights(config, step);
  return {
    config,
    weights,
    sideFiles: sideFilesOf({ config, tokenizer: tinyTokenizer, chatTemplate: tinyTemplate }),
    optimizer: { step, m: scaled(weights, 0.1), v: scaled(weights, 0.01) },
    state: { random: [1, 2, step], cursor: { epoch: 0, row: step } },
    meta: {
      ...emptyMeta,
      step,
      parent: step === 0 ? null : '0123456789abcdef',
      datasets: ['a'.repeat(64)],
      log_positions: { '0': 17 },
      metrics: { loss: 1 / 3, reward: null },
    },
  };
}
