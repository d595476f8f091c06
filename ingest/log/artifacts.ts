/**
 * Bodies of artifacts as files named by their content: `<dir>/ab/cdef…` is the body whose SHA-256 is `abcdef…`. A name that exists
 * is complete and durable, because a body is written aside, synced and then renamed.
 */
import { randomUUID } from 'node:crypto';
import { access, mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { TroupeError } from '../../errors.ts';
import { sha256 } from '../events/json.ts';
import type { ArtifactStore } from './log.ts';

/** Bodies written at a time; more only queue in the thread pool. */
const PARALLEL = 16;

/**
 * A store of artifacts in a folder. `get` throws `not_found` for a body that was never put and `dataset_damaged` for one whose
 * bytes have changed.
 */
export function fileArtifacts(dir: string): ArtifactStore {
  return {
    put: async (bodies) => {
      const named = bodies.map((body) => ({ body, sha256: sha256(body), size: Buffer.byteLength(body) }));
      const waiting = [...new Map(named.map((one) => [one.sha256, one])).values()];
      const folders = new Set<string>();
      const writer = async (): Promise<void> => {
        for (let one = waiting.pop(); one; one = waiting.pop()) {
          if (await write(dir, one.sha256, one.body)) folders.add(folderOf(dir, one.sha256));
        }
      };
      await Promise.all(Array.from({ length: Math.min(PARALLEL, waiting.length) }, writer));
      await Promise.all([...folders].map(syncFolder));
      return named.map(({ sha256, size }) => ({ sha256, size }));
    },
    get: async (name) => {
      if (!/^[0-9a-f]{64}$/.test(name)) {
        throw new TroupeError('not_found', `An artifact is named by 64 hex digits, not by ${JSON.stringify(name)}.`);
      }
      let body: Buffer;
      try {
        body = await readFile(pathOf(dir, name));
      } catch (cause) {
        if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause;
        throw new TroupeError('not_found', `No artifact ${name} is kept in ${dir}.`, { cause });
      }
      const found = sha256(body);
      if (found !== name) {
        throw new TroupeError('dataset_damaged', `The artifact ${name} in ${dir} was changed: its hash is ${found}.`, {
          hint: 'Restore the file from a backup, or import its source again.',
        });
      }
      return body;
    },
    remove: async (name) => {
      if (!/^[0-9a-f]{64}$/.test(name) || !(await exists(pathOf(dir, name)))) return false;
      await rm(pathOf(dir, name), { force: true });
      await syncFolder(folderOf(dir, name));
      return true;
    },
  };
}

const folderOf = (dir: string, name: string): string => join(dir, name.slice(0, 2));
const pathOf = (dir: string, name: string): string => join(folderOf(dir, name), name.slice(2));

/** Answers whether the body was new. */
async function write(dir: string, name: string, body: string | Uint8Array): Promise<boolean> {
  const path = pathOf(dir, name);
  if (await exists(path)) return false;
  const aside = `${path}.${randomUUID()}.part`;
  await mkdir(folderOf(dir, name), { recursive: true });
  try {
    const file = await open(aside, 'wx');
    try {
      await file.writeFile(body);
      await file.datasync();
    } finally {
      await file.close();
    }
    await rename(aside, path);
  } catch (cause) {
    await rm(aside, { force: true });
    throw cause;
  }
  return true;
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
