/**
 * A dataset's directory is not there, or there completely: files are written beside its place and flushed, the folder is renamed into
 * place, and the parent is flushed. A published directory never changes.
 */
import { createHash, type Hash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open, readdir, rename, rm, stat, truncate } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { TroupeError } from '../../errors.ts';
import { makeFolder } from '../../ingest/files/make-folder.ts';
import { isFullDisk } from '../db/faults.ts';

/** How much of a file is written, and the hash of that. */
export type Mark = { readonly sha256: string; readonly bytes: number };
export type FileFacts = Mark & { readonly name: string };

/** A file being written: its bytes are hashed on the way, and flushed by `finish`. */
export type FileSink = { write(bytes: Uint8Array): Promise<void> | void; finish(): Promise<FileFacts> };
/** `mark`: all bytes so far are in the file. */
export type MarkedSink = FileSink & { mark(): Promise<Mark> };

/** A folder being written. `publish` answers false where the place was taken meanwhile; then nothing of this one stays. */
export type Draft = {
  readonly path: string;
  file(name: string): Promise<FileSink>;
  publish(place: string): Promise<boolean>;
  discard(): Promise<void>;
};
/** One on a disk, which another process can go on with. */
export type LocalDraft = Omit<Draft, 'file'> & {
  file(name: string): Promise<MarkedSink>;
  /** A file to go on with behind a mark; what stands behind it is cut off. Null where its bytes are not those of the mark. */
  reopen(name: string, mark: Mark): Promise<MarkedSink | null>;
  /** Closes its files and leaves them. */
  leave(): Promise<void>;
};

const TEMPORARY = '.tmp-';
export const isTemporary = (name: string): boolean => name.startsWith(TEMPORARY);

/** Small writes are gathered: an Arrow batch is a hundred of them. */
const GATHER = 1024 * 1024;
/** In a draft: what is needed to go on with it. */
export const STATE_FILE = 'unfinished.json';

const ABANDONED_AFTER_MS = 60 * 60 * 1000;
const UNFINISHED_AFTER_MS = 7 * 24 * ABANDONED_AFTER_MS;

function fileSink(file: FileHandle, name: string, hash: Hash = createHash('sha256'), written = 0): MarkedSink {
  let gathered: Uint8Array[] = [];
  let held = 0;
  let bytes = written;
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
    async mark() {
      await flush();
      return { sha256: hash.copy().digest('hex'), bytes };
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
export async function draftAt(path: string): Promise<LocalDraft> {
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
  const leave = async () => {
    await Promise.allSettled(handles.map((handle) => handle.close()));
  };
  const discard = async () => {
    await leave();
    await rm(path, { recursive: true, force: true });
  };
  return {
    path,
    async file(name) {
      const handle = await open(join(path, name), 'wx');
      handles.push(handle);
      return fileSink(handle, name);
    },
    async reopen(name, { bytes, sha256 }) {
      const place = join(path, name);
      const hash = createHash('sha256');
      const size = await stat(place).then(
        (facts) => facts.size,
        () => -1,
      );
      if (size < bytes) return null;
      if (bytes > 0) for await (const part of createReadStream(place, { end: bytes - 1 })) hash.update(part as Buffer);
      if (hash.copy().digest('hex') !== sha256) return null;
      await truncate(place, bytes);
      const handle = await open(place, 'a');
      handles.push(handle);
      return fileSink(handle, name, hash, bytes);
    },
    leave,
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

/** Removes drafts that a dead process left more than an hour ago, or a week ago where they can be gone on with. Answers how many. */
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
