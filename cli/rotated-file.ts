/** A log file that stays small: once it is full it becomes `FILE.1`, what was `FILE.1` becomes `FILE.2`, and the oldest is removed. */
import { closeSync, fstatSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';

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

/** The file is opened with the first line, readable by this user only. */
export function rotatedFile(path: string, { maxBytes, keep, onTrouble }: RotatedFileOptions): RotatedFile {
  let file: number | null = null;
  let size = 0;
  const open = (): number => {
    file = openSync(path, 'a', 0o600);
    size = fstatSync(file).size;
    return file;
  };
  const rotate = (): void => {
    closeSync(file!);
    file = null;
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
        if (file === null) open();
        if (size > 0 && size + bytes.length > maxBytes) {
          rotate();
          open();
        }
        writeSync(file!, bytes);
        size += bytes.length;
      } catch (error) {
        onTrouble(error);
      }
    },
  };
}
