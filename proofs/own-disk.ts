/** A disk of its own for a folder, small enough to be filled, and filling it. */
import { spawnSync } from 'node:child_process';
import { chmodSync, closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';

export type OwnDisk = {
  /** Writes until the disk takes no more, at most twice its size. */
  readonly fill: () => void;
  readonly free: () => void;
  /** Takes it away again, with what is on it. */
  readonly remove: () => void;
};

/** The line that a proof says where there is none. */
export const NO_DISK = 'no disk is filled: only root may make one of its own (tmpfs)';

/** Makes the folder, on a disk of so many MiB; null where this user may make none, and the folder is an ordinary one. */
export function ownDisk(folder: string, mib: number): OwnDisk | null {
  mkdirSync(folder, { mode: 0o755 });
  // Otherwise the user that PostgreSQL runs as could not enter, and its data would lie elsewhere, on a disk that is not filled.
  chmodSync(dirname(folder), 0o711);
  const made = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${mib}m,mode=755`, 'troupe', folder]);
  if (made.status !== 0) return null;
  const filler = join(folder, 'fill');
  return {
    fill: () => {
      const file = openSync(filler, 'w');
      try {
        // The last pages too.
        for (const size of [1024 * 1024, 4096]) writeUntilFull(file, Buffer.alloc(size, 'x'), 2 * mib);
      } finally {
        closeSync(file);
      }
    },
    free: () => rmSync(filler, { force: true }),
    remove: () => void spawnSync('umount', ['-l', folder]),
  };
}

function writeUntilFull(file: number, block: Uint8Array, times: number): void {
  try {
    for (let n = 0; n < times; n++) writeSync(file, block);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  }
}
