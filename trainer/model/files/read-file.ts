/**
 * Reading large files once, straight to where their bytes belong: the next read is on its way while the bytes before it
 * are hashed, and nothing is held twice.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { basename } from 'node:path';
import { TroupeError } from '../../../errors.ts';
import type { FileFacts } from './atomic.ts';
import { batches } from './disk.ts';

export type OpenFile = { readonly file: FileHandle; readonly bytes: number };

/**
 * Opens a regular file and runs `work` on it. A pipe or a device is refused before a byte of it is read, and opening one
 * does not wait. Throws `not_found` where there is no file, `checkpoint_damaged` where it is none or cannot be read.
 */
export async function withFile<T>(path: string, work: (open: OpenFile) => Promise<T>): Promise<T> {
  let file: FileHandle;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw new TroupeError('not_found', `There is no file at ${path}.`, { cause });
    throw unreadable(path, message, cause);
  }
  try {
    const facts = await file.stat();
    if (!facts.isFile()) throw unreadable(path, 'it is not a regular file');
    return await work({ file, bytes: facts.size });
  } catch (cause) {
    if (cause instanceof TroupeError) throw cause;
    throw unreadable(path, (cause as Error).message, cause);
  } finally {
    await file.close();
  }
}

const unreadable = (path: string, why: string, cause?: unknown): TroupeError =>
  new TroupeError('checkpoint_damaged', `${basename(path)} cannot be read: ${why}.`, {
    expected: 'a regular file that can be read to its end',
    got: why,
    hint: `Look at ${path}; fetch the model again or use the checkpoint before it.`,
    cause,
  });

/** Memory that bytes of a file go to, in the order of the file. */
export type Target = { readonly into: Uint8Array; readonly filled?: () => void };

/**
 * Reads the bytes from `at` on into one target after another; `seen` gets them in order, and then `filled` of the target
 * is called. Targets are asked for when their turn comes. Throws where the file ends before they do.
 */
export async function fill(
  file: FileHandle,
  at: number,
  targets: Iterable<Target>,
  seen: (bytes: Uint8Array) => void,
): Promise<void> {
  let before: readonly Target[] = [];
  const process = (): void => {
    for (const { into, filled } of before) {
      seen(into);
      filled?.();
    }
  };
  let position = at;
  for (const batch of batches(lengths(targets))) {
    const reading = readAll(
      file,
      position,
      batch.map(({ target }) => target.into),
    );
    reading.catch(() => {});
    process();
    await reading;
    position += batch.reduce((sum, { length }) => sum + length, 0);
    before = batch.map(({ target }) => target);
  }
  process();
}

function* lengths(targets: Iterable<Target>): Generator<{ length: number; target: Target }> {
  for (const target of targets) yield { length: target.into.length, target };
}

async function readAll(file: FileHandle, at: number, pieces: readonly Uint8Array[]): Promise<void> {
  let { bytesRead } = await file.readv(pieces, at);
  let position = at;
  for (const piece of pieces) {
    let done = Math.min(bytesRead, piece.length);
    bytesRead -= done;
    while (done < piece.length) {
      const { bytesRead: more } = await file.read(piece, done, piece.length - done, position + done);
      if (more === 0) throw new Error('it became shorter while it was read');
      done += more;
    }
    position += piece.length;
  }
}

const BLOCK = 1 << 20;

/** Three blocks of memory in turn: one is being read into, one is being looked at, and one is about to be asked for. */
function* blocks(bytes: number): Generator<Target> {
  const ring = Array.from({ length: Math.min(3, Math.ceil(bytes / BLOCK)) }, () => new Uint8Array(BLOCK));
  for (let at = 0, turn = 0; at < bytes; at += BLOCK, turn++) {
    yield { into: ring[turn % ring.length]!.subarray(0, Math.min(BLOCK, bytes - at)) };
  }
}

/** Size and SHA-256 of a file, in 3 MiB of memory whatever its size. Throws as `withFile` does. */
export const hashFile = (path: string): Promise<FileFacts> =>
  withFile(path, async ({ file, bytes }) => {
    const hash = createHash('sha256');
    await fill(file, 0, blocks(bytes), (part) => hash.update(part));
    return { bytes, sha256: hash.digest('hex') };
  });

/** A small file in one piece, with its hash. Throws `checkpoint_damaged` where it is larger than `limit`, and as `withFile` does. */
export const readSmallFile = (path: string, limit = 256 << 20): Promise<{ content: Uint8Array; facts: FileFacts }> =>
  withFile(path, async ({ file, bytes }) => {
    if (bytes > limit) throw unreadable(path, `it has ${bytes} bytes and at most ${limit} are read`);
    const content = new Uint8Array(bytes);
    await fill(file, 0, [{ into: content }], () => {});
    return { content, facts: { bytes, sha256: createHash('sha256').update(content).digest('hex') } };
  });
