/** One entry of a corpus of hostile files: how it is made, and what must become of it. */
import { open, truncate, writeFile } from 'node:fs/promises';

export type Outcome = 'read' | 'checkpoint_damaged' | 'model_unsupported' | 'not_found';

export type Entry = {
  readonly name: string;
  readonly make: (path: string) => Promise<void>;
  readonly expected: Outcome;
  /** What the refusal must say. */
  readonly says: RegExp;
};

export const entry = (
  name: string,
  content: Uint8Array | string | ((path: string) => Promise<void>),
  expected: Outcome,
  says: RegExp = /./,
): Entry => ({
  name,
  make: typeof content === 'function' ? content : (path) => writeFile(path, content),
  expected,
  says,
});

/** A file that claims many bytes and has these first; the rest is a hole of zeros. */
export const sparse =
  (first: Uint8Array, bytes: number) =>
  async (path: string): Promise<void> => {
    await writeFile(path, first);
    await truncate(path, bytes);
  };

/** A large file written in pieces. */
export const repeated =
  (first: Uint8Array | string, piece: string, times: number, last = '') =>
  async (path: string): Promise<void> => {
    const file = await open(path, 'w');
    try {
      await file.write(Buffer.from(first as string));
      const each = 1 << 18;
      const block = piece.repeat(each);
      for (let i = 0; i < times; i += each) {
        await file.write(Buffer.from(times - i >= each ? block : piece.repeat(times - i)));
      }
      await file.write(Buffer.from(last));
    } finally {
      await file.close();
    }
  };
