/** Looking at checkpoints in folders. */
import { existsSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import { erasuresOf } from '../../../store/keep/marks.ts';
import {
  latestCheckpoint,
  listCheckpoints,
  readCheckpointManifest,
  verifyCheckpoint,
} from '../../../trainer/model/checkpoints/checkpoint.ts';
import { adapterText } from '../../../trainer/model/lora.ts';
import { checkpointAt } from '../checkpoint-places.ts';
import type { ReadContext } from '../operation.ts';

type InFolder = { readonly dir?: string };
type One = { readonly checkpoint: string; readonly in?: string };

/** The given folder, or the home's. */
export const folderOf = ({ home }: Pick<ReadContext, 'home'>, dir: string | undefined): string =>
  dir === undefined ? home.checkpoints : resolve(dir);

export async function folder(context: ReadContext, { dir, quick }: InFolder & { readonly quick: boolean }) {
  const directory = folderOf(context, dir);
  const pointer = await latestCheckpoint(directory);
  const latest = pointer && basename(pointer);
  const found = [];
  for (const id of await listCheckpoints(directory)) found.push(await factsOf(join(directory, id), quick));
  const ids = found.map((one) => one.checkpoint_id);
  const marks = await context.inProject((db) => erasuresOf(db, 'checkpoint', ids));
  const checkpoints = found
    .toSorted((a, b) => (b.step ?? -1) - (a.step ?? -1) || (a.checkpoint_id < b.checkpoint_id ? -1 : 1))
    .map((one) => ({
      ...{ ...one, latest: latest === one.checkpoint_id },
      erasures: marks?.get(one.checkpoint_id) ?? null,
    }));
  return { directory, quick, latest, checkpoints };
}

export async function latest(context: ReadContext, { dir }: InFolder) {
  const folder = folderOf(context, dir);
  const directory = await latestCheckpoint(folder);
  if (directory === null) throw new TroupeError('not_found', `${folder} has no latest checkpoint.`);
  if (!existsSync(directory))
    throw new TroupeError('not_found', `latest of ${folder} names ${basename(directory)}, which is not there.`);
  return { checkpoint_id: basename(directory), directory };
}

export async function show(context: ReadContext, { checkpoint, in: within }: One) {
  const directory = checkpointAt(context.home, checkpoint, folderOf(context, within));
  const { id, sha256, files, meta } = await readCheckpointManifest(directory);
  const ancestors = await ancestorsOf(meta.parent, [dirname(directory), context.home.checkpoints]);
  const adapter = meta.adapter && `${adapterText(meta.adapter)}, over ${meta.adapter.base}`;
  return {
    checkpoint_id: id,
    sha256,
    directory,
    bytes: bytesOf(files),
    ...meta,
    adapter_text: adapter,
    ancestors,
    files,
  };
}

export async function verify(context: ReadContext, { checkpoint, in: within }: One) {
  const directory = checkpointAt(context.home, checkpoint, folderOf(context, within));
  const ids = existsSync(join(directory, 'troupe.json')) ? [] : await listCheckpoints(directory);
  const checkpoints = [];
  for (const id of ids) checkpoints.push(await factsOf(join(directory, id), false));
  if (ids.length === 0) {
    await readCheckpointManifest(directory);
    checkpoints.push(await factsOf(directory, false));
  }
  return { directory, sound: checkpoints.every(({ sound }) => sound), checkpoints };
}

const bytesOf = (files: Readonly<Record<string, { readonly bytes: number }>>): number =>
  Object.values(files).reduce((sum, { bytes }) => sum + bytes, 0);

/** What is known of a checkpoint; of a damaged one what is wrong with it, and what can still be read. */
async function factsOf(dir: string, quick: boolean) {
  const manifest = await readCheckpointManifest(dir).catch((error: TroupeError) => error);
  const known = manifest instanceof Error ? null : manifest;
  const looked = quick || known === null ? manifest : await verifyCheckpoint(dir).catch((error: TroupeError) => error);
  const fault = looked instanceof Error ? looked.message : null;
  return {
    ...{ checkpoint_id: basename(dir), step: known?.meta.step ?? null, parent: known?.meta.parent ?? null },
    ...{ metrics: known?.meta.metrics ?? null, bytes: known && bytesOf(known.files), sound: fault === null, fault },
  };
}

/** Parents, nearest first, as far as they lie in one of the folders; the first that does not is named and is the last. */
async function ancestorsOf(parent: string | null, folders: readonly string[]) {
  const found = [];
  const seen = new Set<string>();
  for (let id = parent; id !== null && !seen.has(id); ) {
    seen.add(id);
    const dir = folders.map((folder) => join(folder, id!)).find((one) => existsSync(one));
    const manifest = dir === undefined ? null : await readCheckpointManifest(dir).catch(() => null);
    const { step = null, datasets = [], metrics = {}, parent: next = null } = manifest?.meta ?? {};
    found.push({ checkpoint_id: id, found: manifest !== null, step, datasets, metrics });
    id = next;
  }
  return found;
}
