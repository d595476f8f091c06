/**
 * What a model is to every file of this room: a configuration in Hugging Face terms, and named tensors.
 * Names and shapes are those of the Hugging Face layout (`model.layers.0.self_attn.q_proj.weight`, [out, in]).
 */
import type { Constraint } from '../sample/constraint.ts';

/** config.json of a decoder, the fields that change the arithmetic. The comment of an optional field gives its default. */
export type ModelConfig = {
  readonly model_type: 'llama' | 'qwen2' | 'qwen3';
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  /** Width of a head; absent: hidden_size / num_attention_heads. */
  readonly head_dim?: number;
  /** Llama and Qwen3: a bias in all four maps of attention; absent: none. Qwen2 has those of queries, keys and values always. */
  readonly attention_bias?: boolean;
  /** Llama: a bias in the feed-forward maps; absent: none. */
  readonly mlp_bias?: boolean;
  readonly vocab_size: number;
  readonly max_position_embeddings: number;
  readonly rms_norm_eps: number;
  readonly rope_theta: number;
  /** How rotary angles are stretched; absent: not at all. */
  readonly rope_scaling?: RopeScaling;
  readonly tie_word_embeddings: boolean;
  readonly bos_token_id: number | null;
  /** One id, or all that end a reply. */
  readonly eos_token_id: number | readonly number[] | null;
  readonly pad_token_id: number | null;
  /** What reads the last norm: a token's distribution, a value at every position, or one reward; absent: `lm`. */
  readonly head?: 'lm' | 'value' | 'reward';
  /** Fields of the config.json it was read from that change nothing here, to be written back as they were. */
  readonly extra?: Readonly<Record<string, unknown>>;
};

/** Rotary scaling in the words of Hugging Face's `rope_parameters`. The formulas stand in models/rotary-frequencies.ts. */
export type RopeScaling =
  | { readonly rope_type: 'linear'; readonly factor: number }
  /** As without scaling up to max_position_embeddings; longer sequences are refused. */
  | { readonly rope_type: 'dynamic'; readonly factor: number }
  | {
      readonly rope_type: 'llama3';
      readonly factor: number;
      readonly low_freq_factor: number;
      readonly high_freq_factor: number;
      readonly original_max_position_embeddings: number;
    }
  | {
      readonly rope_type: 'yarn';
      readonly factor: number;
      readonly original_max_position_embeddings: number;
      readonly attention_factor?: number;
      readonly beta_fast?: number;
      readonly beta_slow?: number;
      readonly mscale?: number;
      readonly mscale_all_dim?: number;
      readonly truncate?: boolean;
    };

export type Tensor = { readonly shape: readonly number[]; readonly data: Float32Array };

/** Parameters by their Hugging Face names, in the order of the model's definition. */
export type Weights = ReadonlyMap<string, Tensor>;

/** One request for samples of a policy: the prompt is computed once for its n samples. */
export type SampleRequest = {
  readonly promptIds: readonly number[];
  readonly n: number;
  readonly maxTokens: number;
  /** 0 is greedy; otherwise logits are divided by it. */
  readonly temperature: number;
  /** Samples depend on this seed, the prompt, the weights and these settings, not on what else is in the batch. */
  readonly seed: number;
  readonly stopIds: readonly number[];
  /** Draws among the so many most probable tokens only; absent or 0: among all. */
  readonly topK?: number;
  /** Draws among the most probable tokens that have so much of the probability; absent or 1: among all. */
  readonly topP?: number;
  /** Draws among tokens at least so many times as probable as the best one; absent or 0: among all. */
  readonly minP?: number;
  /** Asked after every token of a sample; true ends it there. */
  readonly ended?: (tokenIds: readonly number[]) => boolean;
  /** Samples are texts of this; log-probabilities are those among the tokens that it allows. */
  readonly constraint?: Constraint;
  /** Called after every token of a sample, with its number and its tokens so far. */
  readonly drew?: (sample: number, tokenIds: readonly number[]) => void;
  /** Also gives each token's log-probability at temperature 1, nothing cut. */
  readonly rawLogprobs?: boolean;
  /** Also gives so many of the most probable tokens at each place. */
  readonly topLogprobs?: number;
};

/**
 * One sample: the new tokens (the stop token included) and the log-probability of each under the distribution sampled from:
 * temperature applied, cut as asked, and what is left summing to 1. At temperature 0 that of temperature 1 with nothing cut.
 */
export type Sample = {
  readonly tokenIds: readonly number[];
  readonly logprobs: readonly number[];
  readonly finish: 'stop' | 'length';
  readonly rawLogprobs?: readonly number[];
  readonly topLogprobs?: readonly (readonly { readonly token: number; readonly logprob: number }[])[];
};
