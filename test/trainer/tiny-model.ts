/** Small models and rows for the numerical tests, all from seeds. */
import type { Row } from '../../trainer/learn/data/row.ts';
import type { ModelConfig } from '../../trainer/model/weights.ts';
import { type RandomStream, randomStream } from '../../trainer/tensor/random.ts';

export const TINY: ModelConfig = {
  model_type: 'llama',
  hidden_size: 32,
  intermediate_size: 48,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 4,
  vocab_size: 23,
  max_position_embeddings: 128,
  rms_norm_eps: 1e-6,
  rope_theta: 10000,
  tie_word_embeddings: true,
  bos_token_id: null,
  eos_token_id: null,
  pad_token_id: null,
};

/** Two query heads for each key-value head, three layers and a head of its own. */
export const GROUPED: ModelConfig = {
  ...TINY,
  num_hidden_layers: 3,
  num_key_value_heads: 2,
  rope_theta: 500,
  tie_word_embeddings: false,
};

export function ids(random: RandomStream, length: number, vocabulary: number): number[] {
  return Array.from({ length }, () => Math.floor(random.uniform() * vocabulary));
}

/** Rows of different prompt lengths and completion lengths, with weights of both signs. */
export function mixedRows(seed: number, vocabulary = TINY.vocab_size): Row[] {
  const random = randomStream(seed);
  const completion = (length: number) => {
    const tokenIds = ids(random, length, vocabulary);
    return {
      tokenIds,
      weights: tokenIds.map(() => random.normal() / 10),
      oldLogprobs: tokenIds.map(() => -3 + random.normal() / 4),
      entropyWeights: tokenIds.map(() => 0.01),
    };
  };
  return [
    { promptIds: ids(random, 3, vocabulary), completions: [completion(4), completion(2), completion(5)] },
    { promptIds: ids(random, 7, vocabulary), completions: [completion(1), completion(6)] },
    { promptIds: ids(random, 1, vocabulary), completions: [completion(3), completion(3), completion(1)] },
  ];
}
