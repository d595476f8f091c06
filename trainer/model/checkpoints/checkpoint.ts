/**
 * Checkpoints on disk: a folder of them, one directory each, named by its identity, and a file `latest` that names one.
 * A name is only ever seen when everything under it is on the device, whatever was killed in between.
 */
import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import {
  type FileFacts,
  type Files,
  type PublishOptions,
  publishDirectory,
  publishFile,
  removeWhole,
  together,
} from '../files/atomic.ts';
import { hashFile, readSmallFile } from '../files/read-file.ts';
import type { SafetensorsFile } from '../files/safetensors.ts';
import { readSafetensorsFile } from '../files/safetensors-file.ts';
import {
  type CheckpointContents,
  type CheckpointMeta,
  checkFacts,
  checkNames,
  checkpointDamaged,
  checkpointParts,
  contentsOf,
  type Identity,
  identityOf,
  MANIFEST,
  manifestBytes,
  ONNX,
  readManifest,
  TENSOR_FILES,
} from './checkpoint-format.ts';

export type SavedCheckpoint = Identity & {
  readonly dir: string;
  /** All files together. */
  readonly bytes: number;
};

const LATEST = 'latest';
const ID = /^[0-9a-f]{16}$/;

/** Whether a name is that of a checkpoint. */
export const isCheckpointId = (name: string): boolean => ID.test(name);

/**
 * Publishes a checkpoint as `folder/<id>`. Saving the same contents again changes nothing; a damaged directory of that
 * name is replaced. `latest` is not moved: see `pointLatest`. Tensors are written from their own memory and hashed on
 * the way: they must not change until this has come back.
 * Throws `training_failed` for a weight that is not finite and for a disk that refuses, with its reason.
 */
export async function saveCheckpoint(
  folder: string,
  contents: CheckpointContents,
  options: PublishOptions = {},
): Promise<SavedCheckpoint> {
  return publishCheckpoint(folder, contents, options, async ({ id }) => {
    const there = await idAt(join(folder, id));
    if (there === 'other') await removeWhole(join(folder, id)).catch(() => {});
    return there === id ? null : id;
  });
}

/** Publishes a checkpoint at exactly `dir`. Throws `conflict` where something else is there, and as `saveCheckpoint` does. */
export async function saveCheckpointAt(
  dir: string,
  contents: CheckpointContents,
  options: PublishOptions = {},
): Promise<SavedCheckpoint> {
  const before = await idAt(dir);
  return publishCheckpoint(dirname(dir), contents, options, ({ id }) => {
    if (before !== null && before !== id) {
      throw new TroupeError('conflict', `${dir} holds something else already; choose another name or remove it first.`);
    }
    return before === id ? null : basename(dir);
  });
}

/** Publishes under the name that `nameFor` answers; null where the checkpoint is there already. */
async function publishCheckpoint(
  folder: string,
  contents: CheckpointContents,
  options: PublishOptions,
  nameFor: (identity: Identity) => Promise<string | null> | string | null,
): Promise<SavedCheckpoint> {
  let saved: SavedCheckpoint | undefined;
  const seal = async (facts: Identity['files']) => {
    const identity = identityOf(facts, contents.meta);
    const name = await nameFor(identity);
    const manifest = manifestBytes(identity, contents.meta);
    saved = { ...identity, dir: join(folder, name ?? identity.id), bytes: totalBytes(identity, manifest) };
    return name === null ? null : { name, files: new Map([[MANIFEST, manifest]]) };
  };
  await publishDirectory(folder, checkpointParts(contents), seal, options).catch(async (error) => {
    // Two writers of the same contents: the one that comes second finds the other's work and is done.
    const conflict = (error as TroupeError).code === 'conflict';
    if (!conflict || saved === undefined || (await idAt(saved.dir)) !== saved.id) throw error;
  });
  return saved!;
}

const totalBytes = ({ files }: Identity, manifest: Uint8Array): number =>
  Object.values(files).reduce((sum, { bytes }) => sum + bytes, manifest.length);

/** Id of the sound checkpoint at a path, `other` if something else is there, null if nothing is. */
async function idAt(dir: string): Promise<string | null> {
  try {
    return (await verifyCheckpoint(dir)).id;
  } catch (error) {
    return (error as TroupeError).code === 'not_found' ? null : 'other';
  }
}

/**
 * A checkpoint's contents, every file verified before anything of it is given out. Files are read once, tensors straight
 * into their memory. Throws `not_found` where no directory is (or no longer is), `checkpoint_damaged` naming the file and
 * what is wrong with it.
 */
export const loadCheckpoint = (dir: string): Promise<SavedCheckpoint & CheckpointContents> =>
  whileThere(dir, async () => {
    const { identity, meta, manifest } = await openManifest(dir);
    const texts = new Map<string, Uint8Array>();
    const tensors = new Map<string, SafetensorsFile>();
    const read = async (name: string): Promise<void> => {
      const path = join(dir, name);
      if (TENSOR_FILES.includes(name)) {
        const expected = identity.files[name]!;
        const refuse = (found: FileFacts): TroupeError => mismatch(identity, name, found);
        tensors.set(name, await readSafetensorsFile(path, { expected, mismatch: refuse }));
      } else if (name === ONNX) {
        checkFacts(identity, name, await hashFile(path));
      } else {
        const { content, facts } = await readSmallFile(path);
        checkFacts(identity, name, facts);
        texts.set(name, content);
      }
    };
    await together(Object.keys(identity.files).map(read));
    const contents = contentsOf(texts, (name) => tensors.get(name) ?? null, {
      meta,
      onnx: Object.hasOwn(identity.files, ONNX),
    });
    return { ...contents, ...identity, dir, bytes: totalBytes(identity, manifest) };
  });

/** Where a checkpoint comes from and what its files must be, read from troupe.json alone. Throws as `loadCheckpoint` does. */
export const readCheckpointManifest = (dir: string): Promise<Identity & { readonly meta: CheckpointMeta }> =>
  whileThere(dir, async () => {
    const { identity, meta } = await openManifest(dir);
    return { ...identity, meta };
  });

/**
 * Whether a checkpoint is what was saved: every file is there and has its hash. In 3 MiB of memory, whatever its size.
 * Throws as `loadCheckpoint` does.
 */
export const verifyCheckpoint = (dir: string): Promise<SavedCheckpoint & { readonly meta: CheckpointMeta }> =>
  whileThere(dir, async () => {
    const { identity, meta, manifest } = await openManifest(dir);
    for (const name of Object.keys(identity.files)) checkFacts(identity, name, await hashFile(join(dir, name)));
    return { ...identity, meta, dir, bytes: totalBytes(identity, manifest) };
  });

async function openManifest(dir: string) {
  const names = await listFiles(dir);
  if (!names.includes(MANIFEST)) throw checkpointDamaged(`${MANIFEST} is missing`);
  const { content } = await readSmallFile(join(dir, MANIFEST), 16 << 20);
  const { identity, meta } = readManifest(content);
  checkNames(identity, names);
  for (const [name, { bytes: expected }] of Object.entries(identity.files)) {
    const { size } = await stat(join(dir, name));
    if (size !== expected) throw checkpointDamaged(`${name} has ${size} of ${expected} bytes`);
  }
  return { identity, meta, manifest: content };
}

function mismatch(identity: Identity, name: string, found: FileFacts): TroupeError {
  try {
    checkFacts(identity, name, found);
  } catch (error) {
    return error as TroupeError;
  }
  return checkpointDamaged(`${name} is not what was saved`);
}

/** A directory that is taken away while it is read was not damaged: it is gone. */
async function whileThere<T>(dir: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof TroupeError && error.code !== 'not_found' && error.code !== 'checkpoint_damaged') throw error;
    if ((await stat(dir).catch(() => null)) === null) {
      throw new TroupeError('not_found', `There is no model or checkpoint at ${dir}.`, { cause: error });
    }
    if (error instanceof TroupeError && error.code === 'checkpoint_damaged') throw error;
    throw checkpointDamaged(`${dir} cannot be read (${(error as Error).message})`, error);
  }
}

/** Names of what lies in a model's directory, sorted. Throws `not_found` where there is no directory. */
export async function listFiles(dir: string): Promise<string[]> {
  try {
    return (await readdir(dir)).sort();
  } catch (cause) {
    throw new TroupeError('not_found', `There is no model or checkpoint at ${dir}.`, { cause });
  }
}

/** The bytes of files of a directory. Throws `checkpoint_damaged` for one that cannot be read, a folder for example. */
export async function readFiles(dir: string, names: readonly string[]): Promise<Files> {
  const read = names.map(async (name): Promise<[string, Uint8Array]> => [name, await readFile(join(dir, name))]);
  try {
    return new Map(await Promise.all(read));
  } catch (cause) {
    throw checkpointDamaged(`${dir} cannot be read (${(cause as Error).message})`, cause);
  }
}

/** Lets `latest` of a folder name one of its checkpoints, in one step. Call it after `saveCheckpoint` has come back. */
export async function pointLatest(folder: string, id: string, options: PublishOptions = {}): Promise<void> {
  if (!ID.test(id)) throw new TroupeError('usage', `${id} is not the id of a checkpoint.`);
  await publishFile(join(folder, LATEST), new TextEncoder().encode(`${id}\n`), options);
}

/** Directory of the checkpoint that `latest` names, or null where none was pointed to yet. */
export async function latestCheckpoint(folder: string): Promise<string | null> {
  const id = (await readFile(join(folder, LATEST), 'utf8').catch(() => '')).trim();
  return ID.test(id) ? join(folder, id) : null;
}

/** Ids of the checkpoints a folder shows, whether sound or not; temporaries are not shown. */
export async function listCheckpoints(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => []);
  return names.filter((name) => ID.test(name)).sort();
}
