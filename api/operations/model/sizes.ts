/** The sizes of a new model: those of its own options, else of its config, else derived from its width. */
import { TroupeError } from '../../../errors.ts';
import type { ModelConfig } from '../../../trainer/model/weights.ts';

type Config = Omit<ModelConfig, 'vocab_size' | 'bos_token_id' | 'pad_token_id' | 'eos_token_id'>;

/** Sizes in the words of config.json. */
export type Sizes = { readonly [K in keyof Config]?: Config[K] | undefined };

/** The configuration except what the tokenizer determines. @throws TroupeError `usage` for sizes that do not fit together */
export function sizesOf(
  given: Sizes,
  asked: {
    readonly [K in 'hidden' | 'layers' | 'heads' | 'kv_heads' | 'head_dim' | 'ff' | 'context']?: number | undefined;
  } & { readonly family?: ModelConfig['model_type'] | undefined; readonly untied?: boolean },
  { context }: { readonly context: number },
): Config {
  const family = asked.family ?? given.model_type ?? 'llama';
  const hidden = asked.hidden ?? given.hidden_size ?? 128;
  const headDim = asked.head_dim ?? given.head_dim;
  const heads =
    asked.heads ?? given.num_attention_heads ?? Math.max(1, Math.floor(hidden / (headDim ?? (hidden < 512 ? 32 : 64))));
  const groups = asked.kv_heads ?? given.num_key_value_heads ?? heads;
  if (headDim === undefined && (hidden % heads !== 0 || (hidden / heads) % 2 !== 0)) {
    throw new TroupeError('usage', `A width of ${hidden} cannot be split into ${heads} heads of an even width.`, {
      expected: 'a width that is an even multiple of the heads, or --head-dim',
      hint: `Pass --heads with a divisor of ${hidden}, or --head-dim N.`,
    });
  }
  if (headDim !== undefined && headDim % 2 !== 0)
    throw new TroupeError('usage', `A head needs an even width, not ${headDim}.`, { field: 'head_dim' });
  if (headDim !== undefined && family === 'llama' && hidden % heads !== 0)
    throw new TroupeError(
      'usage',
      `A llama of width ${hidden} cannot have ${heads} heads; pass another --heads, or --family qwen3.`,
    );
  if (heads % groups !== 0) {
    throw new TroupeError(
      'usage',
      `${groups} heads of keys and values cannot serve ${heads} heads; pass a divisor of ${heads}.`,
      {
        field: 'num_key_value_heads',
      },
    );
  }
  return {
    model_type: family,
    hidden_size: hidden,
    intermediate_size: asked.ff ?? given.intermediate_size ?? 8 * Math.ceil(hidden / 3),
    num_hidden_layers: asked.layers ?? given.num_hidden_layers ?? 2,
    num_attention_heads: heads,
    num_key_value_heads: groups,
    ...(headDim === undefined || headDim === hidden / heads ? {} : { head_dim: headDim }),
    max_position_embeddings: asked.context ?? given.max_position_embeddings ?? context,
    rms_norm_eps: given.rms_norm_eps ?? 1e-6,
    rope_theta: given.rope_theta ?? 10_000,
    tie_word_embeddings: asked.untied === true ? false : (given.tie_word_embeddings ?? true),
  };
}
