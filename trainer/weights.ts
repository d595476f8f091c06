/**
 * What a model is to every file of this room: a configuration in Hugging Face terms, and named tensors.
 * Names and shapes are those of the Hugging Face layout (`model.layers.0.self_attn.q_proj.weight`, [out, in]).
 */

/** config.json of a Llama-style decoder, the fields that change the arithmetic. */
export type ModelConfig = {
  readonly model_type: 'llama';
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly vocab_size: number;
  readonly max_position_embeddings: number;
  readonly rms_norm_eps: number;
  readonly rope_theta: number;
  readonly tie_word_embeddings: boolean;
  readonly bos_token_id: number | null;
  readonly eos_token_id: number | null;
  readonly pad_token_id: number | null;
};

export type Tensor = { readonly shape: readonly number[]; readonly data: Float32Array };

/** Parameters by their Hugging Face names, in the order of the model's definition. */
export type Weights = ReadonlyMap<string, Tensor>;

/** One request to a policy that speaks: the prompt is computed once for its n samples. */
export type SampleRequest = {
  readonly promptIds: readonly number[];
  readonly n: number;
  readonly maxTokens: number;
  /** 0 is greedy; otherwise logits are divided by it. */
  readonly temperature: number;
  /** Samples depend on this seed, the prompt and the weights, not on what else is in the batch. */
  readonly seed: number;
  readonly stopIds: readonly number[];
};

/** One sample: the new tokens (the stop token included) and the log-probability of each under the distribution sampled from. */
export type Sample = {
  readonly tokenIds: readonly number[];
  readonly logprobs: readonly number[];
  readonly finish: 'stop' | 'length';
};
