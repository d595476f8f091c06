/**
 * A dataset's directory is not there, or there completely: files are written beside its place and flushed, the folder is renamed into
 * place, and the parent is flushed. A published directory never changes.
 */
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type FileHandle, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createGzip } from 'node:zlib';
import { TroupeError } from '../../errors.ts';
import { makeFolder } from '../../ingest/make-folder.ts';
import { isFullDisk } from '../db/faults.ts';

export type FileFacts = { readonly name: string; readonly sha256: string; readonly bytes: number };

/** A file being written: its bytes are hashed on the way, and flushed by `finish`. */
export type FileSink = { write(bytes: Uint8Array): Promise<void> | void; finish(): Promise<FileFacts> };

/** A folder being written. `publish` answers false where the place was taken meanwhile; then nothing of this one stays. */
export type Draft = {
  readonly path: string;
  file(name: string): Promise<FileSink>;
  publish(place: string): Promise<boolean>;
  discard(): Promise<void>;
};

const TEMPORARY = '.tmp-';
export const isTemporary = (name: string): boolean => name.startsWith(TEMPORARY);

/** Small writes are gathered: an Arrow batch is a hundred of them. */
const GATHER = 1024 * 1024;
/** In a draft whose rows are all written: what is needed to finish it. */
export const STATE_FILE = 'unfinished.json';

const ABANDONED_AFTER_MS = 60 * 60 * 1000;
const UNFINISHED_AFTER_MS = 7 * 24 * ABANDONED_AFTER_MS;

async function fileSink(file: FileHandle, name: string): Promise<FileSink> {
  const hash = createHash('sha256');
  let gathered: Uint8Array[] = [];
  let held = 0;
  let bytes = 0;
  const flush = async () => {
    const parts = gathered;
    gathered = [];
    held = 0;
    if (parts.length > 0) await file.writeFile(parts.length === 1 ? parts[0]! : Buffer.concat(parts));
  };
  return {
    write(part) {
      hash.update(part);
      gathered.push(part);
      held += part.length;
      bytes += part.length;
      return held >= GATHER ? flush() : undefined;
    },
    async finish() {
      try {
        await flush();
        // Once only: after a failed flush the kernel may have dropped the pages and would call a second one a success.
        await file.sync();
      } finally {
        await file.close();
      }
      return { name, sha256: hash.digest('hex'), bytes };
    },
  };
}

/** What is written to it goes to the sink as gzip; the bytes do not depend on how they were cut into writes, nor on the time. */
export function gzipped(sink: FileSink): FileSink {
  const gzip = createGzip();
  const written = (async () => {
    for await (const part of gzip) await sink.write(part as Uint8Array);
  })();
  written.catch(() => {}); // Seen again, and thrown, by whoever writes next.
  return {
    async write(bytes) {
      if (!gzip.write(bytes)) await Promise.race([once(gzip, 'drain'), written]);
    },
    async finish() {
      gzip.end();
      await written;
      return sink.finish();
    },
  };
}

async function flushFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** A path inside `parent` for a draft that nobody has begun. */
export const draftPath = (parent: string): string =>
  join(parent, `${TEMPORARY}${process.pid}-${randomUUID().slice(0, 8)}`);

/**
 * Begins the draft at a path of `draftPath`; the folder around it is made where missing.
 * @throws TroupeError `home_unwritable` where the folder cannot be made.
 */
export async function draftAt(path: string): Promise<Draft> {
  const parent = dirname(path);
  try {
    makeFolder(path);
  } catch (cause) {
    const code = isFullDisk(cause) ? 'disk_full' : 'home_unwritable';
    throw new TroupeError(code, `Nothing can be written under ${parent}: ${(cause as Error).message}.`, {
      cause,
    });
  }
  const handles: FileHandle[] = [];
  const discard = async () => {
    await Promise.allSettled(handles.map((handle) => handle.close()));
    await rm(path, { recursive: true, force: true });
  };
  return {
    path,
    async file(name) {
      const handle = await open(join(path, name), 'wx');
      handles.push(handle);
      return fileSink(handle, name);
    },
    discard,
    async publish(place) {
      await flushFolder(path);
      try {
        await rename(path, place);
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error;
        await discard();
        return false;
      }
      await flushFolder(parent);
      return true;
    },
  };
}

/** Removes drafts that a dead process left more than an hour ago, or a week ago where they can be finished. Answers how many. */
export async function sweepDrafts(parent: string): Promise<number> {
  let removed = 0;
  for (const name of await readdir(parent).catch(() => [] as string[])) {
    if (!isTemporary(name)) continue;
    const facts = await stat(join(parent, name)).catch(() => null);
    if (facts === null) continue;
    const state = await stat(join(parent, name, STATE_FILE)).catch(() => null);
    if (Date.now() - facts.mtimeMs < (state === null ? ABANDONED_AFTER_MS : UNFINISHED_AFTER_MS)) continue;
    await rm(join(parent, name), { recursive: true, force: true });
    removed++;
  }
  return removed;
}

const DISK: readonly string[] = ['ENOSPC', 'EDQUOT', 'EROFS', 'EACCES', 'EPERM', 'EIO', 'EMFILE'];

/** What the disk refused, as an error of ours; any other error as it is. `what`: The dataset. */
export function writeError(error: unknown, what: string, parent: string): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof TroupeError || !DISK.includes(String(code))) return error;
  return new TroupeError(
    isFullDisk(error) ? 'disk_full' : 'home_unwritable',
    `${what} could not be written under ${parent}: ${message}. Nothing was published.`,
    { cause: error },
  );
}
