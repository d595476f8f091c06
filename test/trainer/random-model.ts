/** Random small models of every family, for properties that must hold of all of them. */
import fc from 'fast-check';
import { parameterShapes } from '../../trainer/model/parameters.ts';
import type { ModelConfig, RopeScaling, Tensor, Weights } from '../../trainer/model/weights.ts';
import { randomStream } from '../../trainer/tensor/random.ts';

const LENGTH = 16;

const ropes: fc.Arbitrary<RopeScaling | undefined> = fc.oneof(
  fc.constant(undefined),
  fc.record({ rope_type: fc.constant('linear' as const), factor: fc.constantFrom(1, 2.5, 8) }),
  fc.record({ rope_type: fc.constant('dynamic' as const), factor: fc.constantFrom(2, 4) }),
  fc.record({
    rope_type: fc.constant('llama3' as const),
    factor: fc.constantFrom(2, 8),
    low_freq_factor: fc.constantFrom(0.5, 1),
    high_freq_factor: fc.constantFrom(2, 4),
    original_max_position_embeddings: fc.constantFrom(8, 64),
  }),
  fc.record(
    {
      rope_type: fc.constant('yarn' as const),
      factor: fc.constantFrom(0.5, 4),
      original_max_position_embeddings: fc.constantFrom(8, 256),
      attention_factor: fc.constantFrom(0.7, 1.5),
      beta_fast: fc.constantFrom(4, 32),
      beta_slow: fc.constantFrom(0.5, 1),
      mscale: fc.constantFrom(0.7, 1.3),
      mscale_all_dim: fc.constantFrom(0.5, 1),
      truncate: fc.boolean(),
    },
    { requiredKeys: ['rope_type', 'factor', 'original_max_position_embeddings'] },
  ),
);

/** A configuration of a family; heads·D is hidden_size only where it happens to be. */
export const randomConfig = (type: ModelConfig['model_type']): fc.Arbitrary<ModelConfig> =>
  fc
    .record({
      D: fc.constantFrom(2, 4, 6, 16),
      groups: fc.constantFrom(1, 2, 3),
      perGroup: fc.constantFrom(1, 2, 3),
      width: fc.constantFrom(1, 2),
      odd: fc.constantFrom(0, 1),
      intermediate_size: fc.integer({ min: 3, max: 20 }),
      num_hidden_layers: fc.constantFrom(1, 2),
      attention_bias: fc.boolean(),
      mlp_bias: fc.boolean(),
      theta: fc.constantFrom(50, 10000),
      rope: ropes,
      tied: fc.boolean(),
    })
    .map(({ D, groups, perGroup, width, odd, attention_bias, mlp_bias, theta, rope, tied, ...sizes }): ModelConfig => {
      const heads = groups * perGroup;
      const hidden_size = heads * 4 * width + (type === 'llama' ? 0 : odd);
      return {
        ...sizes,
        model_type: type,
        hidden_size,
        num_attention_heads: heads,
        num_key_value_heads: groups,
        ...(D === hidden_size / heads ? {} : { head_dim: D }),
        ...(attention_bias && type !== 'qwen2' ? { attention_bias } : {}),
        ...(mlp_bias && type === 'llama' ? { mlp_bias } : {}),
        vocab_size: 11,
        max_position_embeddings: LENGTH,
        rms_norm_eps: 1e-5,
        rope_theta: theta,
        ...(rope === undefined ? {} : { rope_scaling: rope }),
        tie_word_embeddings: tied,
        bos_token_id: null,
        eos_token_id: null,
        pad_token_id: null,
      };
    });

/** Weights in which every part matters: biases are not 0 and norms not 1. */
export function randomWeights(config: ModelConfig, seed: number): Weights {
  const { normal } = randomStream(seed);
  const tensor = (name: string, shape: readonly number[]): Tensor => {
    const deviation = shape.length === 1 ? 0.3 : 1 / Math.sqrt(shape[1] as number);
    const around = name.includes('norm') ? 1 : 0;
    const size = shape.reduce((a, b) => a * b, 1);
    return { shape, data: Float32Array.from({ length: size }, () => around + normal() * deviation) };
  };
  return new Map(parameterShapes(config).map(([name, shape]) => [name, tensor(name, shape)]));
}

export const randomIds = (config: ModelConfig, seed: number, length = LENGTH): number[] => {
  const { uniform } = randomStream(seed);
  return Array.from({ length }, () => Math.floor(uniform() * config.vocab_size));
};
