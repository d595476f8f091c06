/**
 * The calls to the disk that a publication is made of. Files are written while their bytes are still being made: what is
 * hashed or converted piece by piece costs no time beside the device, and no memory for a second copy.
 */
import { type FileHandle, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';

/** A file's bytes, in pieces that are made when they are asked for. */
export type FileParts = Iterable<Uint8Array>;

/** The calls a publication is made of, so that a test can let each of them fail in turn. */
export type Disk = {
  /** Makes a folder and its parents; where `flush` is true the folders that name the new ones are flushed. */
  makeFolder(path: string, flush: boolean): Promise<void>;
  /** Creates the file, which must not exist, and writes all of it; flushed to the device where `flush` is true. */
  writeFile(path: string, parts: FileParts, flush: boolean): Promise<void>;
  /** Flushes a folder's entries to the device. */
  flushFolder(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
};

export const disk: Disk = {
  async makeFolder(path, flush) {
    const first = await mkdir(path, { recursive: true });
    if (!flush || first === undefined) return;
    for (let at = path; at.length >= first.length; at = dirname(at)) await disk.flushFolder(dirname(at));
  },
  async writeFile(path, parts, flush) {
    const file = await open(path, 'wx');
    try {
      await writeParts(file, parts, flush);
      // Once only: after a failed flush the kernel may have dropped the pages and would call a second one a success.
      if (flush) await file.sync();
    } finally {
      await file.close();
    }
  },
  async flushFolder(path) {
    const folder = await open(path, 'r');
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  },
  rename,
  remove: (path) => rm(path, { recursive: true, force: true }),
};

const BATCH_BYTES = 1 << 20;
const BATCH_PIECES = 512;
/**
 * Bytes written before the device is asked to start; it then works while the next bytes are made and hashed. With
 * 16 MiB a save of 144 MB took as long as the slower of hash and device, without it as long as both together.
 */
const FLUSH_BYTES = 16 << 20;

/**
 * Writes while the next parts are being made: a part is asked for when the write before it is already on its way, and
 * the device empties its queue beside both. The first failure of any of them is the last call to the file.
 */
async function writeParts(file: FileHandle, parts: FileParts, flush: boolean): Promise<void> {
  let writing = Promise.resolve();
  let flushing = Promise.resolve();
  let unflushed = 0;
  try {
    for (const batch of batches(parts)) {
      await writing;
      if (flush && unflushed >= FLUSH_BYTES) {
        await flushing;
        flushing = seen(file.datasync());
        unflushed = 0;
      }
      unflushed += bytesOf(batch);
      writing = seen(writeAll(file, batch));
    }
    await writing;
    await flushing;
  } finally {
    await Promise.allSettled([writing, flushing]);
  }
}

/** A promise that is looked at later: its failure is no unhandled one meanwhile. */
function seen(promise: Promise<void>): Promise<void> {
  promise.catch(() => {});
  return promise;
}

const bytesOf = (batch: readonly Uint8Array[]): number => batch.reduce((sum, { length }) => sum + length, 0);

/** Small parts together, so that a model of a thousand small tensors is not a thousand calls. */
export function* batches<Part extends { readonly length: number }>(parts: Iterable<Part>): Generator<Part[]> {
  let batch: Part[] = [];
  let bytes = 0;
  for (const part of parts) {
    batch.push(part);
    bytes += part.length;
    if (bytes < BATCH_BYTES && batch.length < BATCH_PIECES) continue;
    yield batch;
    batch = [];
    bytes = 0;
  }
  if (batch.length > 0) yield batch;
}

async function writeAll(file: FileHandle, batch: readonly Uint8Array[]): Promise<void> {
  let { bytesWritten } = await file.writev(batch);
  // The kernel may take less than it is given; what is left goes piece by piece.
  for (const piece of batch) {
    let done = Math.min(bytesWritten, piece.length);
    bytesWritten -= done;
    while (done < piece.length) done += (await file.write(piece, done)).bytesWritten;
  }
}
