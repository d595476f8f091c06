/** The sizes of a new model: from the flags, else from --config, else derived from its width. */
import { got, TroupeError } from '../../errors.ts';
import type { ModelConfig } from '../../trainer/model/weights.ts';
import type { Flags } from '../command.ts';

type Config = Omit<ModelConfig, 'vocab_size' | 'bos_token_id' | 'pad_token_id' | 'eos_token_id'>;

const NUMBERS = [
  'hidden_size',
  'intermediate_size',
  'num_hidden_layers',
  'num_attention_heads',
  'num_key_value_heads',
  'head_dim',
  'max_position_embeddings',
  'rms_norm_eps',
  'rope_theta',
] as const;
const FAMILY_NAMES = ['llama', 'qwen2', 'qwen3'] as const satisfies readonly ModelConfig['model_type'][];

/** Sizes as --config gives them, in the words of config.json. */
export type Sizes = {
  readonly [name in (typeof NUMBERS)[number]]?: number;
} & { readonly model_type?: ModelConfig['model_type']; readonly tie_word_embeddings?: boolean };

export const SIZE_NAMES: readonly string[] = [...NUMBERS, 'model_type', 'tie_word_embeddings'];

/** Checks the sizes of a document. Throws `usage` naming the one that is none. */
export function readSizes(given: Readonly<Record<string, unknown>>): Sizes {
  for (const [name, value] of Object.entries(given)) {
    const fits =
      name === 'model_type'
        ? isFamily(value)
        : name === 'tie_word_embeddings'
          ? typeof value === 'boolean'
          : (NUMBERS as readonly string[]).includes(name) && isSize(name, value);
    if (fits) continue;
    throw new TroupeError(
      'usage',
      `${got(name)}: ${got(value)} is no setting of a new model; expected positive numbers for ${NUMBERS.join(', ')}, one of ${FAMILY_NAMES.join(', ')} for model_type, true or false for tie_word_embeddings.`,
      { field: name },
    );
  }
  return given as Sizes;
}

/** Counts are whole; the two that are no counts are any number above 0. */
const isSize = (name: string, value: unknown): boolean =>
  typeof value === 'number' && value > 0 && (Number.isSafeInteger(value) || /^r(ms|ope)_/.test(name));

const isFamily = (value: unknown): value is ModelConfig['model_type'] =>
  (FAMILY_NAMES as readonly unknown[]).includes(value);

/** The configuration except what the tokenizer determines. Throws `usage` for an unknown family and for sizes that do not fit together. */
export function sizesOf(given: Sizes, flags: Flags, { context }: { readonly context: number }): Config {
  const asked = (flag: string, name: (typeof NUMBERS)[number]): number | undefined =>
    flags[flag] === undefined ? given[name] : Number(flags[flag]);
  const family = flags.family ?? given.model_type ?? 'llama';
  if (!isFamily(family)) {
    throw new TroupeError('usage', `There is no family ${got(family)}; expected ${FAMILY_NAMES.join(', ')}.`, {
      field: 'family',
      expected: FAMILY_NAMES.join(', '),
      got: got(family),
    });
  }
  const hidden = asked('hidden', 'hidden_size') ?? 128;
  const headDim = asked('headDim', 'head_dim');
  const heads =
    asked('heads', 'num_attention_heads') ?? Math.max(1, Math.floor(hidden / (headDim ?? (hidden < 512 ? 32 : 64))));
  const groups = asked('kvHeads', 'num_key_value_heads') ?? heads;
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
    intermediate_size: asked('ff', 'intermediate_size') ?? 8 * Math.ceil(hidden / 3),
    num_hidden_layers: asked('layers', 'num_hidden_layers') ?? 2,
    num_attention_heads: heads,
    num_key_value_heads: groups,
    ...(headDim === undefined || headDim === hidden / heads ? {} : { head_dim: headDim }),
    max_position_embeddings: asked('context', 'max_position_embeddings') ?? context,
    rms_norm_eps: given.rms_norm_eps ?? 1e-6,
    rope_theta: given.rope_theta ?? 10_000,
    tie_word_embeddings: flags.untied === true ? false : (given.tie_word_embeddings ?? true),
  };
}
