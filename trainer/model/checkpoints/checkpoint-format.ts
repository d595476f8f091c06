/**
 * The format of checkpoint files, as a pure function each way: contents to files, files to contents. The layout is
 * Hugging Face's, so that transformers loads it as it stands; beside the weights lies what a run needs to go on exactly
 * where it was (optimizer, random state, data cursor) and, in troupe.json, where all of it came from.
 */
import { createHash } from 'node:crypto';
import { got, TroupeError } from '../../../errors.ts';
import type { FileFacts, Files, FilesFacts } from '../files/atomic.ts';
import type { FileParts } from '../files/disk.ts';
import { type SafetensorsFile, safetensorsParts } from '../files/safetensors.ts';
import type { Adapter } from '../lora.ts';
import { modelConfigJson, readModelConfig } from '../model-config.ts';
import { exportOnnx } from '../onnx-export.ts';
import type { ModelConfig, Tensor, Weights } from '../weights.ts';

/** The text files of a model that training does not change: carried from checkpoint to checkpoint, byte for byte. */
export const SIDE_FILES = [
  'generation_config.json',
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'chat_template.jinja',
] as const;

export type SideFiles = { readonly [name in (typeof SIDE_FILES)[number]]?: string };

/** First and second moments of AdamW by parameter name, and the number of updates they have seen. */
type OptimizerState = { readonly step: number; readonly m: Weights; readonly v: Weights };

/** Where a checkpoint comes from. What is not known is null. Written as it is to troupe.json. */
export type CheckpointMeta = {
  readonly parent: string | null;
  readonly step: number;
  /** Manifest hashes of the datasets it was trained on. */
  readonly datasets: readonly string[];
  readonly plan_hash: string | null;
  readonly seed: number | null;
  /** How far the log was read when the training data was taken, by partition. */
  readonly log_positions: Readonly<Record<string, number | string>>;
  readonly code_version: string | null;
  readonly metrics: Readonly<Record<string, number | null>>;
  /**
   * Where an adapter was trained: its numbers, and the id of the weights that it lies over. Its matrices are in the state, and the weights are
   * base and adapter in one. Left out where all weights were trained.
   */
  readonly adapter?: Adapter & { readonly base: string };
  /** What the chat template writes before and after an answer that was learnt from text; left out of a model without a template. */
  readonly answer_form?: string;
};

export const emptyMeta: CheckpointMeta = {
  parent: null,
  step: 0,
  datasets: [],
  plan_hash: null,
  seed: null,
  log_positions: {},
  code_version: null,
  metrics: {},
};

export type CheckpointContents = {
  readonly config: ModelConfig;
  readonly weights: Weights;
  readonly sideFiles: SideFiles;
  readonly optimizer: OptimizerState | null;
  /**
   * What a run needs beside weights and optimizer to go on as if it had never stopped: its random state and its data
   * cursor. Plain JSON of the run's own making, given back with the same values (numbers exactly, -0 as 0, no NaN and no
   * undefined); null where there is nothing to resume.
   */
  readonly state: unknown;
  /**
   * Whether model.onnx lies beside the weights: the model as ONNX Runtime takes it. It follows from configuration and weights
   * and is made from them when it is saved, so that the two never disagree.
   */
  readonly onnx?: boolean;
  readonly meta: CheckpointMeta;
};

/** What names a checkpoint: the same contents have the same identity anywhere. */
export type Identity = {
  /** The first 16 digits of `sha256`. */
  readonly id: string;
  /** Over the hash of every file, sorted by name, and of the lineage. */
  readonly sha256: string;
  /** Size and hash of every file but troupe.json. */
  readonly files: FilesFacts;
};

/** The file that vouches for the others; a directory without it is a model, not a checkpoint. */
export const MANIFEST = 'troupe.json';
export const WEIGHTS = 'model.safetensors';
/** Tensors like the weights. vLLM and SGLang take every file that ends with `.safetensors` for weights of the model. */
const OPTIMIZER = 'optimizer.moments';
/** As it was called until 2026-11. */
export const EARLIER_OPTIMIZER = 'optimizer.safetensors';
/** Files of a checkpoint that hold tensors. */
export const TENSOR_FILES: readonly string[] = [WEIGHTS, OPTIMIZER, EARLIER_OPTIMIZER];
export const ONNX = 'model.onnx';

const digest = (bytes: Uint8Array | string): string => createHash('sha256').update(bytes).digest('hex');
const toBytes = (value: unknown): Uint8Array => new TextEncoder().encode(`${JSON.stringify(value, null, 2)}\n`);

export const checkpointDamaged = (what: string, cause?: unknown): TroupeError =>
  new TroupeError('checkpoint_damaged', `This checkpoint is damaged: ${what}.`, {
    expected: 'every file with the size and SHA-256 that troupe.json names',
    got: what,
    hint: 'Use the checkpoint before it, or copy this one again from where it was saved.',
    cause,
  });

/**
 * The files of a checkpoint but troupe.json, each in parts. The parts of tensors are their own memory, so the contents
 * must not change until all of them were read. Reading them throws `training_failed` at a weight that is not a finite
 * number, so that no such model is ever published. Throws as `exportOnnx` does where the contents ask for it.
 */
export function checkpointParts(contents: CheckpointContents): ReadonlyMap<string, FileParts> {
  const { config, weights, sideFiles, optimizer, state, onnx } = contents;
  const files = new Map<string, FileParts>([['config.json', [toBytes(modelConfigJson(config))]]]);
  for (const name of SIDE_FILES) {
    const content = sideFiles[name];
    if (content !== undefined) files.set(name, [new TextEncoder().encode(content)]);
  }
  files.set(WEIGHTS, safetensorsParts(weights, { check: refuseNonFinite }));
  if (optimizer) files.set(OPTIMIZER, optimizerParts(optimizer));
  if (state !== null) files.set('state.json', [toBytes(state)]);
  if (onnx === true) files.set(ONNX, [exportOnnx(config, weights)]);
  return files;
}

/** Contents from what was read and found to be what was saved: text files by name, and tensors. */
export function contentsOf(
  texts: Files,
  tensors: (name: string) => SafetensorsFile | null,
  { meta, onnx = false }: { readonly meta: CheckpointMeta; readonly onnx?: boolean },
): CheckpointContents {
  const config = texts.get('config.json');
  if (!config) throw checkpointDamaged('config.json is missing');
  const weights = tensors(WEIGHTS);
  if (!weights) throw checkpointDamaged(`${WEIGHTS} is missing`);
  const optimizer = tensors(OPTIMIZER) ?? tensors(EARLIER_OPTIMIZER);
  const state = texts.get('state.json');
  const side = SIDE_FILES.filter((name) => texts.has(name)).map((name) => [name, utf8(texts.get(name)!)]);
  return {
    config: readModelConfig(parse('config.json', config)),
    weights: weights.tensors,
    sideFiles: Object.fromEntries(side),
    optimizer: optimizer ? readOptimizer(optimizer) : null,
    state: state ? parse('state.json', state) : null,
    ...(onnx ? { onnx } : {}),
    meta,
  };
}

const utf8 = (bytes: Uint8Array): string => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);

function parse(name: string, bytes: Uint8Array): Record<string, unknown> {
  try {
    return JSON.parse(utf8(bytes));
  } catch (cause) {
    throw checkpointDamaged(`${name} is not JSON`, cause);
  }
}

/** The identity that follows from the sizes and hashes of files and from their lineage. */
export function identityOf(facts: FilesFacts, meta: CheckpointMeta): Identity {
  const sorted = Object.keys(facts).sort();
  const files = Object.fromEntries(sorted.map((name) => [name, facts[name]!]));
  const lines = sorted.map((name) => `${facts[name]!.sha256} ${facts[name]!.bytes} ${name}\n`);
  const sha256 = digest(`${lines.join('')}${digest(JSON.stringify(meta))} ${MANIFEST}\n`);
  return { id: sha256.slice(0, 16), sha256, files };
}

/** A name that stays in its directory, on any system. */
const FILE_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}$/;
const SHA256 = /^[0-9a-f]{64}$/;

/**
 * The content of troupe.json. It vouches for the other files, and its own text for itself: there is one text for an identity
 * and a lineage, and this must be it. Throws `checkpoint_damaged`.
 */
export function readManifest(manifest: Uint8Array): { readonly identity: Identity; readonly meta: CheckpointMeta } {
  let parsed: Identity & CheckpointMeta;
  try {
    parsed = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(manifest));
  } catch (cause) {
    throw checkpointDamaged(`${MANIFEST} is not JSON`, cause);
  }
  const { id, sha256, files, ...meta } = parsed ?? {};
  if (typeof files !== 'object' || files === null) throw checkpointDamaged(`${MANIFEST} lists no files`);
  for (const [name, facts] of Object.entries(files)) {
    const sound = Number.isSafeInteger(facts?.bytes) && facts.bytes >= 0 && SHA256.test(facts.sha256);
    if (!FILE_NAME.test(name) || name === MANIFEST || !sound) {
      throw checkpointDamaged(`${MANIFEST} holds an impossible entry for ${got(name)}: ${got(facts)}`);
    }
  }
  const identity = identityOf(files, meta);
  const same = identity.id === id && identity.sha256 === sha256;
  if (!same || !Buffer.from(manifestBytes(identity, meta)).equals(manifest)) {
    throw checkpointDamaged(`${MANIFEST} is not what was saved`);
  }
  const { step, datasets, metrics } = meta;
  if (!Number.isSafeInteger(step) || !Array.isArray(datasets) || typeof metrics !== 'object' || metrics === null) {
    throw checkpointDamaged(`${MANIFEST} has no lineage`);
  }
  return { identity, meta };
}

/** Refuses a directory with a file too few or too many. Throws `checkpoint_damaged` naming it. */
export function checkNames({ files }: Identity, names: readonly string[]): void {
  const missing = Object.keys(files).find((name) => !names.includes(name));
  if (missing !== undefined) throw checkpointDamaged(`${missing} is missing`);
  const extra = names.find((name) => name !== MANIFEST && !Object.hasOwn(files, name));
  if (extra !== undefined) throw checkpointDamaged(`${got(extra)} was not saved with it`);
}

/** Refuses a file that is not the one that was saved. Throws `checkpoint_damaged` naming it and what differs. */
export function checkFacts({ files }: Identity, name: string, found: FileFacts): void {
  const expected = files[name]!;
  if (found.bytes !== expected.bytes) {
    throw checkpointDamaged(`${name} has ${found.bytes} of ${expected.bytes} bytes`);
  }
  if (found.sha256 !== expected.sha256) throw checkpointDamaged(`${name} does not have the SHA-256 it was saved with`);
}

/** The bytes of troupe.json. */
export const manifestBytes = (identity: Identity, meta: CheckpointMeta): Uint8Array =>
  toBytes({ id: identity.id, sha256: identity.sha256, ...meta, files: identity.files });

function optimizerParts({ step, m, v }: OptimizerState): FileParts {
  const moments = new Map<string, Tensor>();
  for (const [name, tensor] of m) moments.set(`m.${name}`, tensor);
  for (const [name, tensor] of v) moments.set(`v.${name}`, tensor);
  return safetensorsParts(moments, { metadata: { step: String(step) } });
}

function readOptimizer({ tensors, metadata }: SafetensorsFile): OptimizerState {
  const step = Number(metadata.step);
  if (!Number.isSafeInteger(step)) throw checkpointDamaged(`the optimizer has the step ${got(metadata.step)}`);
  const of = (prefix: string): Weights =>
    new Map(
      [...tensors].filter(([name]) => name.startsWith(prefix)).map(([name, t]) => [name.slice(prefix.length), t]),
    );
  return { step, m: of('m.'), v: of('v.') };
}

/** The exponent of what is not finite is all ones; looking at bits costs half of what asking `Number.isFinite` does. */
function refuseNonFinite(name: string, values: Float32Array, at: number): void {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < bits.length; i++) {
    if ((bits[i]! & 0x7f800000) !== 0x7f800000) continue;
    throw new TroupeError(
      'training_failed',
      `Weight ${got(name)} is ${values[i]} at ${at + i}; such a model is not saved.`,
      {
        hint: 'Lower the learning rate or clip gradients; the last checkpoint is unharmed.',
      },
    );
  }
}
