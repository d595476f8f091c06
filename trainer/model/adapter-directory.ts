/**
 * An adapter as a directory in the layout of PEFT: adapter_config.json and adapter_model.safetensors
 * (huggingface/peft src/peft/tuners/lora/config.py and src/peft/utils/save_and_load.py). A field that would change the
 * arithmetic and is not implemented is refused by name. A pattern from the file is never run as a regular expression: which
 * maps are adapted follows from the tensors.
 */

import { got, TroupeError } from '../../errors.ts';
import type { JsonObject } from '../../ingest/events/json.ts';
import { listFiles, readFiles } from './checkpoints/checkpoint.ts';
import type { Files } from './files/atomic.ts';
import { decodeSafetensors, encodeSafetensors } from './files/safetensors.ts';
import { type Adapter, named } from './lora.ts';
import type { ModelConfig, Tensor, Weights } from './weights.ts';

export type OpenAdapter = {
  readonly adapter: Adapter;
  /** Its matrices by our names, `model.layers.0.self_attn.q_proj.lora_A.weight`. */
  readonly weights: Weights;
  /** The value of base_model_name_or_path, or null. */
  readonly baseModel: string | null;
};

const CONFIG = 'adapter_config.json';
const MODEL = 'adapter_model.safetensors';
/** What PEFT puts before a module's name: its own wrapper and the tuner's. */
const PREFIX = 'base_model.model.';

/**
 * Fields that do not change the arithmetic of a trained adapter. `lora_dropout` is one: dropout is off when a model
 * samples, and training here has none.
 */
const HARMLESS = new Set([
  ...[
    'peft_type',
    'task_type',
    'base_model_name_or_path',
    'revision',
    'auto_mapping',
    'inference_mode',
    'peft_version',
  ],
  ...['lora_dropout', 'runtime_config', 'megatron_core', 'qalora_group_size', 'ensure_weight_tying'],
  // Which modules were chosen; the tensors show the same.
  ...['exclude_modules', 'layers_to_transform', 'layers_pattern'],
]);
const READ = new Set(['r', 'lora_alpha', 'target_modules', 'use_rslora', 'rank_pattern', 'alpha_pattern', 'bias']);
/** First values that leave the base as it is; others (PiSSA, OLoRA, CorDA …) come with a changed base. */
const INITS: readonly unknown[] = [true, false, null, undefined, 'gaussian', 'orthogonal', 'eva'];

/**
 * Opens an adapter's directory. Throws `not_found`, `checkpoint_damaged` or `model_unsupported` naming the field; whether it
 * fits a model is checked by `checkAdapter`.
 */
export async function openAdapter(dir: string): Promise<OpenAdapter> {
  const names = await listFiles(dir);
  if (!names.includes(CONFIG)) {
    throw new TroupeError('not_found', `${dir} is not an adapter's directory: it has no ${CONFIG}.`);
  }
  if (!names.includes(MODEL)) {
    const pickled = names.find((name) => /\.(bin|pt|pth|pkl|ckpt)$/.test(name));
    throw new TroupeError(
      'model_unsupported',
      `${dir} has no ${MODEL}${pickled ? `; ${pickled} can run code when it is loaded and is not read` : ''}.`,
      { hint: 'Save it again with a current peft, which writes safetensors: model.save_pretrained(DIR).' },
    );
  }
  return readAdapter(await readFiles(dir, [CONFIG, MODEL]));
}

/** An adapter from its two files. Throws as `openAdapter` does. */
export function readAdapter(files: Files): OpenAdapter {
  const json = parse(files.get(CONFIG) as Uint8Array);
  refuseUnread(json);
  const weights = readMatrices(decodeSafetensors(files.get(MODEL) as Uint8Array).tensors);
  const maps = [...weights.keys()].filter((name) => name.endsWith('.lora_A.weight')).map((name) => name.slice(0, -14));
  const rankPattern = pattern(json, 'rank_pattern');
  const alphaPattern = pattern(json, 'alpha_pattern');
  const base = json.base_model_name_or_path;
  return {
    adapter: {
      r: number(json, 'r'),
      alpha: number(json, 'lora_alpha'),
      targets: readTargets(json, maps),
      ...(json.use_rslora === true ? { useRslora: true } : {}),
      ...(rankPattern === null ? {} : { rankPattern }),
      ...(alphaPattern === null ? {} : { alphaPattern }),
    },
    weights,
    baseModel: typeof base === 'string' ? base : null,
  };
}

/**
 * The files of an adapter as PEFT loads them; publish them with `publishDirectory`. `baseModel` is a name or a path that
 * transformers opens. Throws `training_failed` where a number is not finite, so that no such adapter is ever published.
 */
export function adapterFiles(
  adapter: Adapter,
  weights: Weights,
  { baseModel, head = 'lm' }: { readonly baseModel: string | null; readonly head?: ModelConfig['head'] },
): Files {
  const bad = [...weights].find(([, { data }]) => !data.every(Number.isFinite));
  if (bad) {
    throw new TroupeError('training_failed', `${got(bad[0])} holds a number that is not finite; it is not saved.`, {
      hint: 'Lower the learning rate or clip gradients.',
    });
  }
  const json = {
    peft_type: 'LORA',
    task_type: { lm: 'CAUSAL_LM', value: 'TOKEN_CLS', reward: 'SEQ_CLS' }[head],
    base_model_name_or_path: baseModel,
    r: adapter.r,
    lora_alpha: adapter.alpha,
    lora_dropout: 0,
    target_modules: adapter.targets,
    rank_pattern: adapter.rankPattern ?? {},
    alpha_pattern: adapter.alphaPattern ?? {},
    use_rslora: adapter.useRslora ?? false,
    use_dora: false,
    bias: 'none',
    fan_in_fan_out: false,
    modules_to_save: null,
    init_lora_weights: true,
    inference_mode: true,
  };
  const tensors = new Map([...weights].map(([name, tensor]) => [`${PREFIX}${name}`, tensor]));
  return new Map([
    [CONFIG, new TextEncoder().encode(`${JSON.stringify(json, null, 2)}\n`)],
    [MODEL, encodeSafetensors(tensors)],
  ]);
}

const unsupported = (field: string, expected: string, value: unknown): TroupeError =>
  new TroupeError('model_unsupported', `${CONFIG}: ${field} must be ${expected}, it is ${got(value)}.`, {
    field,
    expected,
    got: got(value),
  });

function parse(bytes: Uint8Array): JsonObject {
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder().decode(bytes));
  } catch (cause) {
    throw new TroupeError('model_unsupported', `${CONFIG} is not JSON: ${(cause as Error).message}.`, { cause });
  }
  if (typeof json !== 'object' || json === null || Array.isArray(json))
    throw unsupported('the document', 'an object', json);
  return json as JsonObject;
}

/** Refuses another kind of adapter, and every field that is on and not read: `use_dora`, `modules_to_save`, or one yet to come. */
function refuseUnread(json: JsonObject): void {
  if (json.peft_type !== 'LORA') throw unsupported('peft_type', '"LORA"', json.peft_type);
  if ((json.bias ?? 'none') !== 'none') throw unsupported('bias', '"none"', json.bias);
  if (!INITS.includes(json.init_lora_weights)) {
    throw unsupported('init_lora_weights', 'true, false or "gaussian"', json.init_lora_weights);
  }
  const off = (value: unknown): boolean =>
    value == null || value === false || (typeof value === 'object' && Object.keys(value).length === 0);
  const on = Object.entries(json).find(
    ([name, value]) => !HARMLESS.has(name) && !READ.has(name) && name !== 'init_lora_weights' && !off(value),
  );
  if (on) throw unsupported(on[0], 'absent, false or null', on[1]);
}

function number(json: JsonObject, field: string): number {
  const value = json[field];
  if (typeof value !== 'number' || !Number.isFinite(value)) throw unsupported(field, 'a number', value);
  return value;
}

/** A map from ends of names to numbers. PEFT allows expressions as keys; a plain name is one that means itself. */
function pattern(json: JsonObject, field: string): Readonly<Record<string, number>> | null {
  const value = json[field] ?? {};
  if (typeof value !== 'object' || Array.isArray(value)) throw unsupported(field, 'an object', value);
  const entries = Object.entries(value as JsonObject);
  for (const [name, of] of entries) {
    if (!/^[\w.]+$/.test(name)) throw unsupported(field, 'an object whose keys are plain module names', name);
    if (typeof of !== 'number' || !Number.isFinite(of)) throw unsupported(`${field}.${name}`, 'a number', of);
  }
  return entries.length === 0 ? null : (Object.fromEntries(entries) as Record<string, number>);
}

/** The tensors without PEFT's prefix; one that is not a matrix of LoRA is refused by its name. */
function readMatrices(tensors: Weights): Weights {
  const weights = new Map<string, Tensor>();
  for (const [name, tensor] of tensors) {
    if (!name.startsWith(PREFIX) || !/\.lora_[AB]\.weight$/.test(name) || tensor.shape.length !== 2) {
      const expected = `${PREFIX}<module>.lora_A.weight and lora_B.weight`;
      throw new TroupeError('model_unsupported', `${MODEL} may hold ${expected} only, got ${got(name)}.`, {
        expected,
        got: got(name),
        hint: 'With lm_head among its targets, PEFT saves the matrix of the base too, unless called with save_embedding_layers=False.',
      });
    }
    weights.set(name.slice(PREFIX.length), tensor);
  }
  return weights;
}

/** The targets as they stand where they are a plain list that agrees with the tensors; else the modules' full names. */
function readTargets(json: JsonObject, maps: readonly string[]): readonly string[] {
  const given = json.target_modules ?? [];
  if (maps.length === 0) throw unsupported('target_modules', 'those of at least one matrix', given);
  const narrowed = [json.exclude_modules, json.layers_to_transform].some((value) => value != null);
  if (typeof given === 'string') return maps;
  if (!Array.isArray(given) || !given.every((target): target is string => typeof target === 'string')) {
    throw unsupported('target_modules', 'a list of names or a pattern', given);
  }
  if (narrowed) return maps;
  const stray = maps.find((name) => !given.some((target) => named(name, target)));
  if (stray !== undefined) throw unsupported('target_modules', `a list that names ${stray}, which has a matrix`, given);
  return given;
}
