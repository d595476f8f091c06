/** A log file that stays small: once it is full it becomes `FILE.1`, what was `FILE.1` becomes `FILE.2`, and the oldest is removed. */
import { closeSync, fstatSync, ftruncateSync, openSync, renameSync, rmSync, statSync, writeSync } from 'node:fs';

export type RotatedFile = {
  /** Appends one line. Never throws: `onTrouble` gets the error of the disk. */
  readonly write: (line: string) => void;
};

export type RotatedFileOptions = {
  /** Bytes after which the next line goes to a new file. */
  readonly maxBytes: number;
  /** Files that are kept beside the one that is written. */
  readonly keep: number;
  readonly onTrouble: (error: unknown) => void;
};

/**
 * The file is opened with the first line, readable by this user only, and again where somebody else moved, removed or emptied it. A line
 * is in it whole or not at all: of one that a full disk cut nothing stays.
 */
export function rotatedFile(path: string, { maxBytes, keep, onTrouble }: RotatedFileOptions): RotatedFile {
  let file: { readonly fd: number; readonly ino: number } | null = null;
  const close = (): void => {
    if (file !== null) closeSync(file.fd);
    file = null;
  };
  /** The bytes of the file, which is open then. */
  const open = (): number => {
    const there = statSync(path, { throwIfNoEntry: false });
    if (file !== null && there?.ino === file.ino) return there.size;
    close();
    const fd = openSync(path, 'a', 0o600);
    const { ino, size } = fstatSync(fd);
    file = { fd, ino };
    return size;
  };
  const rotate = (): void => {
    close();
    rmSync(`${path}.${keep}`, { force: true });
    for (let n = keep - 1; n >= 0; n--) {
      try {
        renameSync(n === 0 ? path : `${path}.${n}`, `${path}.${n + 1}`);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      }
    }
  };
  return {
    write: (line) => {
      const bytes = Buffer.from(`${line}\n`);
      try {
        let size = open();
        if (size > 0 && size + bytes.length > maxBytes) {
          rotate();
          size = open();
        }
        if (writeSync(file!.fd, bytes) === bytes.length) return;
        ftruncateSync(file!.fd, size);
        throw Object.assign(new Error(`ENOSPC: no space left on device, write '${path}'`), { code: 'ENOSPC' });
      } catch (error) {
        onTrouble(error);
      }
    },
  };
}
