/**
 * config.json of the Hugging Face layout, read and written. What would change the arithmetic and is not implemented is
 * refused by name: a model that runs slightly wrong is worse than one that does not run.
 */
import { got, TroupeError } from '../errors.ts';
import type { ModelConfig } from './weights.ts';

type Json = Readonly<Record<string, unknown>>;

const unsupported = (field: string, expected: string, value: unknown): TroupeError =>
  new TroupeError('model_unsupported', `config.json: ${field} must be ${expected}, it is ${got(value)}.`, {
    field,
    expected,
    got: got(value),
  });

/** Fields that must be absent, null or one value. */
const FIXED: Readonly<Record<string, unknown>> = {
  hidden_act: 'silu',
  rope_scaling: null,
  attention_bias: false,
  mlp_bias: false,
  partial_rotary_factor: 1,
};

/** A model configuration from the parsed config.json. Throws `model_unsupported` naming the first field that does not fit. */
export function readModelConfig(json: unknown): ModelConfig {
  if (typeof json !== 'object' || json === null) throw unsupported('the document', 'an object', json);
  const config = json as Json;
  if (config.model_type !== 'llama') throw unsupported('model_type', '"llama"', config.model_type);
  for (const [field, only] of Object.entries(FIXED)) {
    const value = config[field] ?? only;
    if (value !== only) throw unsupported(field, `${got(only)} or absent`, value);
  }
  const rope = (config.rope_parameters ?? {}) as Json;
  if ((rope.rope_type ?? 'default') !== 'default') throw unsupported('rope_parameters.rope_type', '"default"', rope);
  const count = (field: string, fallback?: number): number => {
    const value = config[field] ?? fallback;
    if (!Number.isSafeInteger(value) || (value as number) < 1)
      throw unsupported(field, 'a whole number above 0', value);
    return value as number;
  };
  const positive = (field: string, value: unknown): number => {
    if (typeof value !== 'number' || !(value > 0)) throw unsupported(field, 'a number above 0', value);
    return value;
  };
  const token = (field: string): number | null => {
    const value = config[field] ?? null;
    const first = Array.isArray(value) ? value[0] : value;
    if (first !== null && !Number.isSafeInteger(first)) throw unsupported(field, 'a token id or null', value);
    return first;
  };
  const heads = count('num_attention_heads');
  const read: ModelConfig = {
    model_type: 'llama',
    hidden_size: count('hidden_size'),
    intermediate_size: count('intermediate_size'),
    num_hidden_layers: count('num_hidden_layers'),
    num_attention_heads: heads,
    num_key_value_heads: count('num_key_value_heads', heads),
    vocab_size: count('vocab_size'),
    max_position_embeddings: count('max_position_embeddings'),
    rms_norm_eps: positive('rms_norm_eps', config.rms_norm_eps),
    rope_theta: positive('rope_theta', config.rope_theta ?? rope.rope_theta ?? 10000),
    tie_word_embeddings: config.tie_word_embeddings === true,
    bos_token_id: token('bos_token_id'),
    eos_token_id: token('eos_token_id'),
    pad_token_id: token('pad_token_id'),
  };
  if (read.hidden_size % heads !== 0)
    throw unsupported('hidden_size', `a multiple of ${heads} heads`, read.hidden_size);
  const headSize = read.hidden_size / heads;
  if ((config.head_dim ?? headSize) !== headSize) throw unsupported('head_dim', String(headSize), config.head_dim);
  if (heads % read.num_key_value_heads !== 0) {
    throw unsupported('num_key_value_heads', `a divisor of ${heads}`, read.num_key_value_heads);
  }
  return read;
}

/** The config.json that transformers reads as the same model. */
export function modelConfigJson(config: ModelConfig): Json {
  return {
    architectures: ['LlamaForCausalLM'],
    ...config,
    head_dim: config.hidden_size / config.num_attention_heads,
    hidden_act: 'silu',
    attention_bias: false,
    attention_dropout: 0,
    mlp_bias: false,
    rope_scaling: null,
    initializer_range: 0.02,
    use_cache: true,
    torch_dtype: 'float32',
  };
}
