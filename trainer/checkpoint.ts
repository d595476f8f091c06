/**
 * Checkpoints on disk: a folder of them, one directory each, named by its identity, and a file `latest` that names one.
 * A name is only ever seen when everything under it is on the device, whatever was killed in between.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { TroupeError } from '../errors.ts';
import { type Files, type PublishOptions, publishDirectory, publishFile, removeWhole } from './atomic.ts';
import {
  type CheckpointContents,
  checkpointDamaged,
  decodeCheckpoint,
  encodeCheckpoint,
  type Identity,
} from './checkpoint-format.ts';

export type SavedCheckpoint = Identity & {
  readonly dir: string;
  /** All files together. */
  readonly bytes: number;
};

export type LoadedCheckpoint = SavedCheckpoint & CheckpointContents;

const LATEST = 'latest';
const ID = /^[0-9a-f]{16}$/;
const total = (files: Files): number => [...files.values()].reduce((sum, { length }) => sum + length, 0);

/**
 * Publishes a checkpoint as `folder/<id>`. Saving the same contents again changes nothing; a damaged directory of that
 * name is replaced. `latest` is not moved: see `pointLatest`.
 * Throws `training_failed` for a weight that is not finite and for a disk that refuses, with its reason.
 */
export async function saveCheckpoint(
  folder: string,
  contents: CheckpointContents,
  options: PublishOptions = {},
): Promise<SavedCheckpoint> {
  const { identity, bytes } = encodeCheckpoint(contents);
  const saved = { ...identity, dir: join(folder, identity.id), bytes: total(bytes) };
  const there = await idAt(saved.dir);
  if (there === identity.id) return saved;
  if (there === 'other') await removeWhole(saved.dir);
  await publishDirectory(saved.dir, bytes, options).catch(async (error) => {
    // Two writers of the same contents: the one that comes second finds the other's work and is done.
    if ((error as TroupeError).code !== 'conflict' || (await idAt(saved.dir)) !== identity.id) throw error;
  });
  return saved;
}

/** Publishes a checkpoint at exactly `dir`. Throws `conflict` where something else is there. */
export async function saveCheckpointAt(
  dir: string,
  contents: CheckpointContents,
  options: PublishOptions = {},
): Promise<SavedCheckpoint> {
  const { identity, bytes } = encodeCheckpoint(contents);
  const there = await idAt(dir);
  if (there === 'other' || (there !== null && there !== identity.id)) {
    throw new TroupeError('conflict', `${dir} holds something else already; choose another name or remove it first.`);
  }
  if (there === null) await publishDirectory(dir, bytes, options);
  return { ...identity, dir, bytes: total(bytes) };
}

/** Id of the sound checkpoint at a path, `other` if something else is there, null if nothing is. */
async function idAt(dir: string): Promise<string | null> {
  try {
    return (await loadCheckpoint(dir)).id;
  } catch (error) {
    return (error as TroupeError).code === 'not_found' ? null : 'other';
  }
}

/**
 * A checkpoint's contents, every file verified before it is parsed.
 * Throws `not_found` where no directory is, `checkpoint_damaged` naming the file and what is wrong with it.
 */
export async function loadCheckpoint(dir: string): Promise<LoadedCheckpoint> {
  const bytes = await readFiles(dir, await listFiles(dir));
  const { identity, ...contents } = decodeCheckpoint(bytes);
  return { ...contents, ...identity, dir, bytes: total(bytes) };
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
