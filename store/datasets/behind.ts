/** Writing behind the work that makes the bytes: a disk that is slow holds it up only when much is waiting. */
import type { FileHandle } from 'node:fs/promises';

/** Bytes of one write; a batch of columns is a hundred small pieces. */
const GATHER = 1024 * 1024;

export type Behind = {
  /** Takes the next bytes of the file, which must not be changed until they are written. */
  write(bytes: Uint8Array): void;
  /** Waits until so many bytes are written, of those taken. Throws what a write has thrown. */
  written(bytes: number): Promise<void>;
  /** Waits until all of it is written. Throws what a write has thrown; then nothing more is written. */
  finish(): Promise<void>;
  /** Bytes taken. */
  bytes(): number;
};

/** Writes to the end of `file` in the order in which bytes come. */
export function writeBehind(file: FileHandle): Behind {
  let parts: Uint8Array[] = [];
  let gathered = 0;
  let [taken, written] = [0, 0];
  let writing = Promise.resolve();
  let failure: { readonly error: unknown } | null = null;

  const flush = () => {
    const [now, size] = [parts, gathered];
    parts = [];
    gathered = 0;
    writing = writing.then(async () => {
      if (failure !== null) return;
      try {
        await writeAll(file, now, size);
        written += size;
      } catch (error) {
        failure = { error };
      }
    });
  };
  const check = () => {
    if (failure !== null) throw failure.error;
  };
  return {
    write(bytes) {
      parts.push(bytes);
      gathered += bytes.length;
      taken += bytes.length;
      if (gathered >= GATHER) flush();
    },
    async written(bytes) {
      if (bytes > taken - gathered) flush();
      while (failure === null && written < bytes) await writing;
      check();
    },
    async finish() {
      flush();
      await writing;
      check();
    },
    bytes: () => taken,
  };
}

/** In one call where the system takes it all. */
async function writeAll(file: FileHandle, parts: readonly Uint8Array[], size: number): Promise<void> {
  if (size === 0) return;
  const { bytesWritten } = await file.writev(parts);
  if (bytesWritten < size) await file.writeFile(Buffer.concat(parts).subarray(bytesWritten));
}
