/**
 * What differs between the families of decoders that can be run: one row a family. All of them are RMSNorm, rotary
 * positions, grouped keys and values and SwiGLU, as in Hugging Face's modelling files of the same name. A family that
 * differs in nothing but these columns is added by a row; `model_type` in weights.ts lists the names.
 */
import { TroupeError } from '../../errors.ts';
import type { ModelConfig } from './weights.ts';

export type Family = {
  /** What its classes in transformers begin with: `LlamaForCausalLM`. */
  readonly architecture: string;
  /** Width of a head where config.json names none; null where it is hidden_size / num_attention_heads. */
  readonly headDim: number | null;
  /** Whether the heads must divide hidden_size even where head_dim is named, as transformers demands of the family. */
  readonly headsDivideWidth: boolean;
  /** Bias switches that its config.json has. */
  readonly switches: readonly ('attention_bias' | 'mlp_bias')[];
  /** Which of its linear maps have a bias. */
  readonly biases: (config: ModelConfig) => Biases;
  /** An RMSNorm over each head of queries and keys, before they are rotated. */
  readonly queryKeyNorm: boolean;
  /** Whether its config.json can ask for a sliding window, which is refused. */
  readonly slidingWindow: boolean;
};

/** Biases of the maps to queries, keys and values; of the map from attention's result; of the feed-forward maps. */
type Biases = { readonly queries: boolean; readonly attention: boolean; readonly feedForward: boolean };

const switched = ({ attention_bias = false, mlp_bias = false }: ModelConfig): Biases => ({
  queries: attention_bias,
  attention: attention_bias,
  feedForward: mlp_bias,
});

/** Sources: huggingface/transformers src/transformers/models/{llama,qwen2,qwen3}/modeling_*.py and configuration_*.py. */
export const FAMILIES: Readonly<Record<ModelConfig['model_type'], Family>> = {
  // Llama 1 to 3 (arXiv:2302.13971, 2307.09288, 2407.21783), SmolLM and whatever else calls itself llama.
  llama: {
    architecture: 'Llama',
    headDim: null,
    headsDivideWidth: true,
    switches: ['attention_bias', 'mlp_bias'],
    biases: switched,
    queryKeyNorm: false,
    slidingWindow: false,
  },
  // Qwen2 and Qwen2.5 (arXiv:2407.10671, 2412.15115).
  qwen2: {
    architecture: 'Qwen2',
    headDim: null,
    headsDivideWidth: false,
    switches: [],
    biases: () => ({ queries: true, attention: false, feedForward: false }),
    queryKeyNorm: false,
    slidingWindow: true,
  },
  // Qwen3 (arXiv:2505.09388), the dense models.
  qwen3: {
    architecture: 'Qwen3',
    headDim: 128,
    headsDivideWidth: false,
    switches: ['attention_bias'],
    biases: switched,
    queryKeyNorm: true,
    slidingWindow: true,
  },
};

/** Width of one head, D. @throws TroupeError `model_unsupported` when it is odd or broken, or the groups are unequal. */
export function headSize(config: ModelConfig): number {
  const { hidden_size, num_attention_heads: heads, num_key_value_heads: groups } = config;
  const size = config.head_dim ?? hidden_size / heads;
  if (!Number.isInteger(size) || size % 2 !== 0 || size < 2) {
    const got = `${size}, of hidden_size ${hidden_size}, num_attention_heads ${heads}, head_dim ${config.head_dim ?? 'absent'}`;
    throw new TroupeError('model_unsupported', `a head needs an even whole width; got ${got}`);
  }
  if (!Number.isInteger(heads / groups)) {
    const got = `num_attention_heads ${heads} and num_key_value_heads ${groups}`;
    throw new TroupeError('model_unsupported', `each key-value head must serve equally many heads; got ${got}`);
  }
  return size;
}

/** Width of all heads together, heads·D: what attention's result has. It may differ from hidden_size. */
export function attentionWidth(config: ModelConfig): number {
  return config.num_attention_heads * headSize(config);
}

/** A linear map of the model: y = x·Wᵀ + b with W [out, in] and b [out]. */
export type LinearMap = { readonly name: string; readonly in: number; readonly out: number; readonly bias: boolean };

/** The linear maps of layer `index`, in the order of the model's definition. */
export function layerMaps(config: ModelConfig, index: number): readonly LinearMap[] {
  const { hidden_size: d, intermediate_size: ff } = config;
  const width = attentionWidth(config);
  const keys = config.num_key_value_heads * headSize(config);
  const has = FAMILIES[config.model_type].biases(config);
  const map = (name: string, from: number, to: number, bias: boolean): LinearMap => {
    return { name: `model.layers.${index}.${name}`, in: from, out: to, bias };
  };
  return [
    map('self_attn.q_proj', d, width, has.queries),
    map('self_attn.k_proj', d, keys, has.queries),
    map('self_attn.v_proj', d, keys, has.queries),
    map('self_attn.o_proj', width, d, has.attention),
    map('mlp.gate_proj', d, ff, has.feedForward),
    map('mlp.up_proj', d, ff, has.feedForward),
    map('mlp.down_proj', ff, d, has.feedForward),
  ];
}

/** What reads the last norm, or null where a language model reads it with its tied embeddings. */
export function headMap(config: ModelConfig): LinearMap | null {
  const { head = 'lm', hidden_size: d, vocab_size: vocabulary } = config;
  if (head !== 'lm') return { name: 'score', in: d, out: 1, bias: head === 'value' };
  return config.tie_word_embeddings ? null : { name: 'lm_head', in: d, out: vocabulary, bias: false };
}

/** All linear maps of the model, in the order of its definition. */
export function linearMaps(config: ModelConfig): readonly LinearMap[] {
  const last = headMap(config);
  const maps = Array.from({ length: config.num_hidden_layers }, (_, index) => layerMaps(config, index)).flat();
  return last === null ? maps : [...maps, last];
}
