/**
 * Where checkpoints are kept besides the folder they are saved in: what every such place can do, whatever it is made of.
 * A checkpoint is seen there only when all of it is there, and only what has its hashes comes back.
 */
import { copyFile, open } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import { type FileFacts, publishMade, removeWhole } from '../files/atomic.ts';
import { hashFile, readSmallFile } from '../files/read-file.ts';
import {
  isCheckpointId,
  latestCheckpoint,
  listCheckpoints,
  pointLatest,
  readCheckpointManifest,
  type SavedCheckpoint,
  verifyCheckpoint,
} from './checkpoint.ts';
import { checkFacts, type Identity, MANIFEST } from './checkpoint-format.ts';

/** What `latest` names, and the version of that statement, which changes with it. */
export type Latest = { readonly id: string; readonly version: string };

/**
 * Every call throws `not_found` for a checkpoint that is not there, `checkpoint_damaged` for one that is not what was
 * saved, `unreachable` where the place does not answer (trying again can help), `config_invalid` where it refuses.
 */
export type CheckpointStore = {
  /** Where this is, as it was written by its user; without credentials. */
  readonly address: string;
  /** Brings a checkpoint's directory here, verified first. What is there already is not sent again. */
  put(dir: string): Promise<{
    readonly id: string;
    /** Files that were sent, and those that were there already with the same hash. */
    readonly sent: readonly string[];
    readonly kept: readonly string[];
    /** Bytes of the files that were sent. */
    readonly bytes: number;
  }>;
  /** Ids of the checkpoints that are completely here, sorted. */
  list(): Promise<string[]>;
  /** Brings a checkpoint to `folder/<id>`, every file verified before its name is seen, and answers it. */
  get(id: string, folder: string): Promise<SavedCheckpoint>;
  latest(): Promise<Latest | null>;
  /**
   * Lets `latest` name a checkpoint that is here. With `expected` only if `latest` still is that version (null: is not
   * there): throws `conflict` otherwise. Left out, whatever it is.
   */
  pointLatest(id: string, expected?: string | null): Promise<void>;
  /** Takes a checkpoint away; it is not seen any more from the first step on. Throws `conflict` for the latest one. */
  remove(id: string): Promise<void>;
};

export function checkId(id: string): void {
  if (!isCheckpointId(id)) throw new TroupeError('usage', `${id} is not the id of a checkpoint.`);
}

export const latestMoved = (address: string): TroupeError =>
  new TroupeError('conflict', `latest in ${address} was moved by somebody else meanwhile and is left as it is.`, {
    hint: 'Read it again and decide again: the other checkpoint may be newer than this one.',
  });

export const isLatest = (id: string, address: string): TroupeError =>
  new TroupeError('conflict', `${id} is the latest checkpoint of ${address} and is not removed.`, {
    hint: 'Point latest to another checkpoint first.',
  });

/**
 * Fetches every file of a checkpoint into a temporary directory, compares it with its hash, and publishes the whole.
 * `fetch` writes one file, flushed, and answers its size and hash.
 */
export async function publishFetched(
  folder: string,
  identity: Identity,
  manifest: Uint8Array,
  fetch: (name: string, path: string) => Promise<FileFacts>,
): Promise<SavedCheckpoint> {
  const dir = join(folder, identity.id);
  const there = await verifyCheckpoint(dir).catch(() => null);
  if (there) return there;
  await removeWhole(dir).catch(() => {});
  await publishMade(folder, identity.id, async (temporary) => {
    for (const name of Object.keys(identity.files)) {
      checkFacts(identity, name, await fetch(name, join(temporary, name)));
    }
    const file = await open(join(temporary, MANIFEST), 'wx');
    try {
      await file.writeFile(manifest);
      await file.sync();
    } finally {
      await file.close();
    }
  });
  return verifyCheckpoint(dir);
}

/** A folder as a store: a disk of this machine or one that is mounted. It has one writer at a time. */
export function localStore(folder: string): CheckpointStore {
  const root = resolve(folder);
  const latest = async (): Promise<Latest | null> => {
    const dir = await latestCheckpoint(root);
    const id = dir?.slice(root.length + 1);
    return id === undefined ? null : { id, version: id };
  };
  const copy = async (dir: string, into: string): Promise<SavedCheckpoint> => {
    const identity = await verifyCheckpoint(dir);
    const { content: manifest } = await readSmallFile(join(dir, MANIFEST));
    return publishFetched(into, identity, manifest, async (name, path) => {
      await copyFile(join(dir, name), path);
      const file = await open(path, 'r+');
      try {
        await file.sync();
      } finally {
        await file.close();
      }
      return hashFile(path);
    });
  };
  return {
    address: folder,
    async put(dir) {
      const { id, files } = await readCheckpointManifest(dir);
      const names = [...Object.keys(files), MANIFEST];
      if (resolve(dir) === join(root, id) || (await verifyCheckpoint(join(root, id)).catch(() => null))) {
        await verifyCheckpoint(dir);
        return { id, sent: [], kept: names, bytes: 0 };
      }
      const { bytes } = await copy(dir, root);
      return { id, sent: names, kept: [], bytes };
    },
    list: () => listCheckpoints(root),
    async get(id, into) {
      checkId(id);
      return copy(join(root, id), resolve(into));
    },
    latest,
    async pointLatest(id, expected) {
      checkId(id);
      await readCheckpointManifest(join(root, id));
      if (expected !== undefined && ((await latest())?.version ?? null) !== expected) throw latestMoved(folder);
      await pointLatest(root, id);
    },
    async remove(id) {
      checkId(id);
      if ((await latest())?.id === id) throw isLatest(id, folder);
      await readCheckpointManifest(join(root, id)).catch((error: TroupeError) => {
        if (error.code === 'not_found') throw error;
      });
      await removeWhole(join(root, id));
    },
  };
}
