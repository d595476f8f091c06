/**
 * config.json of the Hugging Face layout, read and written. What would change the arithmetic and is not implemented is
 * refused by name: a model that runs slightly wrong is worse than one that does not run. Both spellings of the rotary
 * fields are read, `rope_theta` with `rope_scaling` and the newer `rope_parameters`; the older is written, which all read.
 */

import { isDeepStrictEqual } from 'node:util';
import { got } from '../../errors.ts';
import type { JsonObject } from '../../ingest/events/json.ts';
import { FAMILIES, type Family, headSize } from './families.ts';
import { jsonFields, unsupported } from './model-config-fields.ts';
import { readRopeScaling } from './model-config-rope.ts';
import type { ModelConfig } from './weights.ts';

/** Fields that must be absent, null or one value. */
const FIXED: Readonly<JsonObject> = {
  hidden_act: 'silu',
  partial_rotary_factor: 1,
  // Embedders made of decoders look at what follows a token too.
  is_causal: true,
  // Weights that are not plain numbers, and a model that is defined by code beside it.
  quantization_config: null,
  auto_map: null,
};

/**
 * The largest sizes that are believed, far above any model of these families: what follows from a size is listed by name
 * before a weight is seen, so a hostile one must not cost memory.
 */
const LIMITS = {
  hidden_size: 2 ** 17,
  intermediate_size: 2 ** 19,
  num_hidden_layers: 1024,
  num_attention_heads: 1024,
  num_key_value_heads: 1024,
  head_dim: 2 ** 12,
  vocab_size: 2 ** 23,
  max_position_embeddings: 2 ** 31,
} as const;

/** What transformers calls the class of a model, after its family's name. */
const HEADS = { lm: 'ForCausalLM', value: 'ForTokenClassification', reward: 'ForSequenceClassification' } as const;

/** Where a field is absent it is written so; this value changes nothing when read. */
const DEFAULTS: Readonly<JsonObject> = { attention_dropout: 0, initializer_range: 0.02, use_cache: true };
const ONE_LABEL: Readonly<JsonObject> = { id2label: { 0: 'LABEL_0' }, label2id: { LABEL_0: 0 } };

/** Fields that are understood here, or that describe how the weights were stored: never kept as extra. */
const OWN = new Set([
  ...Object.keys(FIXED),
  ...Object.keys(LIMITS),
  ...['model_type', 'architectures', 'attention_bias', 'mlp_bias', 'rms_norm_eps', 'tie_word_embeddings'],
  ...['rope_theta', 'rope_scaling', 'rope_parameters', 'original_max_position_embeddings'],
  ...['bos_token_id', 'eos_token_id', 'pad_token_id', 'use_sliding_window', 'torch_dtype', 'dtype'],
]);

/** A model configuration from the parsed config.json. Throws `model_unsupported` naming the first field that does not fit. */
export function readModelConfig(json: unknown): ModelConfig {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    throw unsupported('the document', 'an object', json);
  }
  const config = json as JsonObject;
  const type = config.model_type;
  if (typeof type !== 'string' || !Object.hasOwn(FAMILIES, type)) {
    throw unsupported('model_type', Object.keys(FAMILIES).map(got).join(' or '), type);
  }
  const family = FAMILIES[type as ModelConfig['model_type']];
  for (const [field, only] of Object.entries(FIXED)) {
    const value = config[field] ?? only;
    if (value !== only) throw unsupported(field, only === null ? 'absent' : `${got(only)} or absent`, value);
  }
  const { count, positive, flag, token } = jsonFields(config, LIMITS);
  const heads = count('num_attention_heads');
  const hidden = count('hidden_size');
  const layers = count('num_hidden_layers');
  refuseLayerTypes(config);
  if (family.slidingWindow) refuseWindow(config, layers);
  const headDim = config.head_dim == null ? (family.headDim ?? hidden / heads) : count('head_dim');
  if (hidden % heads !== 0 && (family.headsDivideWidth || !Number.isInteger(headDim))) {
    throw unsupported('hidden_size', `a multiple of ${heads} heads`, hidden);
  }
  const groups = count('num_key_value_heads', heads);
  if (heads % groups !== 0) throw unsupported('num_key_value_heads', `a divisor of ${heads}`, groups);
  if (headDim % 2 !== 0) throw unsupported('head_dim', 'an even number', headDim);
  const longest = count('max_position_embeddings');
  const head = readHead(config, family);
  const { theta, scaling } = readRopeScaling(config, longest);
  const extra = extraFields(config, head);
  const eos = config.eos_token_id;
  return {
    model_type: type as ModelConfig['model_type'],
    hidden_size: hidden,
    intermediate_size: count('intermediate_size'),
    num_hidden_layers: layers,
    num_attention_heads: heads,
    num_key_value_heads: groups,
    ...(headDim === hidden / heads ? {} : { head_dim: headDim }),
    ...Object.fromEntries(family.switches.filter((name) => flag(name)).map((name) => [name, true])),
    vocab_size: count('vocab_size'),
    max_position_embeddings: longest,
    rms_norm_eps: positive('rms_norm_eps'),
    rope_theta: theta,
    ...(scaling === null ? {} : { rope_scaling: scaling }),
    tie_word_embeddings: flag('tie_word_embeddings'),
    bos_token_id: token('bos_token_id'),
    eos_token_id: Array.isArray(eos) && eos.every(Number.isSafeInteger) ? eos : token('eos_token_id'),
    pad_token_id: token('pad_token_id'),
    ...(head === 'lm' ? {} : { head }),
    ...(Object.keys(extra).length === 0 ? {} : { extra }),
  };
}

/** The order in which they are written, so that equal configurations are equal bytes. */
const PLAIN = [
  ...(['model_type', 'hidden_size', 'intermediate_size', 'num_hidden_layers', 'num_attention_heads'] as const),
  ...(['num_key_value_heads', 'vocab_size', 'max_position_embeddings', 'rms_norm_eps', 'rope_theta'] as const),
  ...(['tie_word_embeddings', 'bos_token_id', 'eos_token_id', 'pad_token_id'] as const),
] as const;

/**
 * The config.json that transformers reads as the same model, stored as 32-bit floats: what is understood, and the other
 * fields of the config.json it came from.
 */
export function modelConfigJson(config: ModelConfig): JsonObject {
  const { extra, head = 'lm', rope_scaling: scaling } = config;
  const family = FAMILIES[config.model_type];
  return {
    architectures: [`${family.architecture}${HEADS[head]}`],
    ...Object.fromEntries(PLAIN.map((name) => [name, config[name]])),
    head_dim: headSize(config),
    hidden_act: 'silu',
    ...Object.fromEntries(family.switches.map((name) => [name, config[name] ?? false])),
    ...(family.slidingWindow ? { use_sliding_window: false } : {}),
    rope_scaling: scaling === undefined ? null : Object.fromEntries(Object.entries(scaling).sort()),
    torch_dtype: 'float32',
    ...DEFAULTS,
    ...(head === 'lm' ? {} : ONE_LABEL),
    ...extra,
  };
}

/** The head that `architectures` names; a class that is none of the three is refused, and so is more than one label. */
function readHead(config: JsonObject, { architecture }: Family): NonNullable<ModelConfig['head']> {
  const named = config.architectures ?? [];
  if (!Array.isArray(named)) throw unsupported('architectures', 'a list', named);
  const classes = Object.entries(HEADS) as [NonNullable<ModelConfig['head']>, string][];
  const first = named[0] ?? `${architecture}${HEADS.lm}`;
  const head = classes.find(([, name]) => first === `${architecture}${name}`)?.[0];
  if (head === undefined) {
    throw unsupported('architectures', classes.map(([, name]) => `${architecture}${name}`).join(' or '), first);
  }
  if (head === 'lm') return head;
  const labels = config.id2label == null ? (config.num_labels ?? 2) : Object.keys(config.id2label).length;
  if (labels !== 1) throw unsupported('id2label', 'one label', config.id2label ?? labels);
  if (head === 'value' && (config.token_classification_bias ?? true) !== true) {
    throw unsupported('token_classification_bias', 'true or absent', config.token_classification_bias);
  }
  return head;
}

function refuseLayerTypes({ layer_types: types = [] }: JsonObject): void {
  if (types !== null && !Array.isArray(types)) throw unsupported('layer_types', 'a list', types);
  const sliding = types?.find((type) => type !== 'full_attention');
  if (sliding !== undefined) throw unsupported('layer_types', 'full_attention everywhere', sliding);
}

/** Qwen's sliding window: `use_sliding_window` is refused where a layer would have one, and harmless where none would. */
function refuseWindow(config: JsonObject, layers: number): void {
  const windowed = config.use_sliding_window ?? false;
  if (typeof windowed !== 'boolean') throw unsupported('use_sliding_window', 'true or false', windowed);
  if (!windowed || (config.layer_types as unknown[] | null | undefined)?.length || config.sliding_window === null)
    return;
  const from = config.max_window_layers ?? 28;
  if (typeof from !== 'number' || !(from >= layers)) throw unsupported('use_sliding_window', 'false', windowed);
}

/** Fields that change nothing here, but for those whose value is written anyway. */
function extraFields(config: JsonObject, head: ModelConfig['head']): JsonObject {
  const written: JsonObject = { ...DEFAULTS, ...(head === 'lm' ? {} : ONE_LABEL) };
  const carried = Object.entries(config).filter(
    ([name, value]) => !OWN.has(name) && !(Object.hasOwn(written, name) && isDeepStrictEqual(written[name], value)),
  );
  return Object.fromEntries(carried);
}
