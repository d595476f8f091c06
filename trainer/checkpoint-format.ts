/**
 * What the files of a checkpoint say, as a pure function each way: contents to files, files to contents. The layout is
 * Hugging Face's, so that transformers loads it as it stands; beside the weights lies what a run needs to go on exactly
 * where it was (optimizer, random state, data cursor) and, in troupe.json, where all of it came from.
 */
import { createHash } from 'node:crypto';
import { got, TroupeError } from '../errors.ts';
import type { Files } from './atomic.ts';
import { modelConfigJson, readModelConfig } from './model-config.ts';
import { decodeSafetensors, encodeSafetensors } from './safetensors.ts';
import type { ModelConfig, Tensor, Weights } from './weights.ts';

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
export type OptimizerState = { readonly step: number; readonly m: Weights; readonly v: Weights };

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
  /** Random state and data cursor, as plain JSON of the run's own; null where there is nothing to resume. */
  readonly state: unknown;
  readonly meta: CheckpointMeta;
};

export type FileFacts = { readonly bytes: number; readonly sha256: string };

/** What names a checkpoint: the same contents have the same identity anywhere. */
export type Identity = {
  /** The first 16 digits of `sha256`. */
  readonly id: string;
  /** Over the hash of every file, sorted by name, and of the lineage. */
  readonly sha256: string;
  /** Size and hash of every file but troupe.json. */
  readonly files: Readonly<Record<string, FileFacts>>;
};

/** The file that vouches for the others; a directory without it is a model, not a checkpoint. */
export const MANIFEST = 'troupe.json';

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
 * The files of a checkpoint and the identity that follows from them.
 * Throws `training_failed` where a weight is not a finite number, so that no such model is ever published.
 */
export function encodeCheckpoint(contents: CheckpointContents): { readonly identity: Identity; readonly bytes: Files } {
  const { config, weights, sideFiles, optimizer, state, meta } = contents;
  refuseNonFinite(weights);
  const bytes = new Map<string, Uint8Array>([['config.json', toBytes(modelConfigJson(config))]]);
  for (const name of SIDE_FILES) {
    const content = sideFiles[name];
    if (content !== undefined) bytes.set(name, new TextEncoder().encode(content));
  }
  bytes.set('model.safetensors', encodeSafetensors(weights));
  if (optimizer) bytes.set('optimizer.safetensors', encodeOptimizer(optimizer));
  if (state !== null) bytes.set('state.json', toBytes(state));
  const identity = identify(bytes, meta);
  bytes.set(MANIFEST, manifestBytes(identity, meta));
  return { identity, bytes };
}

/**
 * Contents from a checkpoint's files, each compared with its hash before it is parsed.
 * Throws `checkpoint_damaged` naming the file that is missing, too many, or not what was saved.
 */
export function decodeCheckpoint(bytes: Files): CheckpointContents & { readonly identity: Identity } {
  const { identity, meta } = verify(bytes);
  const json = (name: string): unknown => JSON.parse(new TextDecoder().decode(bytes.get(name)!));
  const required = (name: string): Uint8Array => {
    const file = bytes.get(name);
    if (!file) throw checkpointDamaged(`${name} is missing`);
    return file;
  };
  required('config.json');
  const optimizer = bytes.get('optimizer.safetensors');
  const sideFiles = SIDE_FILES.filter((name) => bytes.has(name)).map((name) => [
    name,
    new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes.get(name)),
  ]);
  return {
    config: readModelConfig(json('config.json')),
    weights: decodeSafetensors(required('model.safetensors')).tensors,
    sideFiles: Object.fromEntries(sideFiles),
    optimizer: optimizer ? decodeOptimizer(optimizer) : null,
    state: bytes.has('state.json') ? json('state.json') : null,
    meta,
    identity,
  };
}

/** Sizes and hashes of files, and with them their identity. */
export function identify(bytes: Files, meta: CheckpointMeta): Identity {
  const files: Record<string, FileFacts> = {};
  for (const name of [...bytes.keys()].sort()) {
    const file = bytes.get(name)!;
    files[name] = { bytes: file.length, sha256: digest(file) };
  }
  const lines = Object.entries(files).map(([name, facts]) => `${facts.sha256} ${facts.bytes} ${name}\n`);
  const sha256 = digest(`${lines.join('')}${digest(JSON.stringify(meta))} ${MANIFEST}\n`);
  return { id: sha256.slice(0, 16), sha256, files };
}

function verify(bytes: Files): { identity: Identity; meta: CheckpointMeta } {
  const manifest = bytes.get(MANIFEST);
  if (!manifest) throw checkpointDamaged(`${MANIFEST} is missing`);
  let said: Identity & CheckpointMeta;
  try {
    said = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(manifest));
  } catch (cause) {
    throw checkpointDamaged(`${MANIFEST} is not JSON`, cause);
  }
  const { id, sha256, files: expected, ...meta } = said ?? {};
  if (typeof expected !== 'object' || expected === null) throw checkpointDamaged(`${MANIFEST} lists no files`);
  const rest = new Map([...bytes].filter(([name]) => name !== MANIFEST));
  const identity = identify(rest, meta);
  for (const [name, facts] of Object.entries(expected)) {
    const found = identity.files[name];
    if (!found) throw checkpointDamaged(`${name} is missing`);
    if (found.bytes !== facts?.bytes) throw checkpointDamaged(`${name} has ${found.bytes} of ${facts?.bytes} bytes`);
    if (found.sha256 !== facts.sha256) throw checkpointDamaged(`${name} does not have the SHA-256 it was saved with`);
  }
  const extra = [...rest.keys()].find((name) => !Object.hasOwn(expected, name));
  if (extra !== undefined) throw checkpointDamaged(`${got(extra)} was not saved with it`);
  // The manifest vouches for the others and its own text for itself: it is the only text of this identity and lineage.
  const same = identity.id === id && identity.sha256 === sha256;
  if (!same || !Buffer.from(manifestBytes(identity, meta)).equals(manifest)) {
    throw checkpointDamaged(`${MANIFEST} is not what was saved`);
  }
  return { identity, meta };
}

const manifestBytes = (identity: Identity, meta: CheckpointMeta): Uint8Array =>
  toBytes({ id: identity.id, sha256: identity.sha256, ...meta, files: identity.files });

function encodeOptimizer({ step, m, v }: OptimizerState): Uint8Array {
  const moments = new Map<string, Tensor>();
  for (const [name, tensor] of m) moments.set(`m.${name}`, tensor);
  for (const [name, tensor] of v) moments.set(`v.${name}`, tensor);
  return encodeSafetensors(moments, { metadata: { step: String(step) } });
}

function decodeOptimizer(bytes: Uint8Array): OptimizerState {
  const { tensors, metadata } = decodeSafetensors(bytes);
  const step = Number(metadata.step);
  if (!Number.isSafeInteger(step)) throw checkpointDamaged(`optimizer.safetensors has the step ${got(metadata.step)}`);
  const of = (prefix: string): Weights =>
    new Map(
      [...tensors].filter(([name]) => name.startsWith(prefix)).map(([name, t]) => [name.slice(prefix.length), t]),
    );
  return { step, m: of('m.'), v: of('v.') };
}

function refuseNonFinite(weights: Weights): void {
  for (const [name, { data }] of weights) {
    const at = data.findIndex((value) => !Number.isFinite(value));
    if (at < 0) continue;
    throw new TroupeError(
      'training_failed',
      `Weight ${got(name)} is ${data[at]} at ${at}; such a model is not saved.`,
      {
        hint: 'Lower the learning rate or clip gradients; the last checkpoint is unharmed.',
      },
    );
  }
}
