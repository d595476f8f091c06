/** The records of whole files, for formats in which a run is a file or a folder. */
import type { Refusal } from '../../errors.ts';
import type { Place } from './import-batches.ts';
import type { InputFile } from './import-files.ts';
import { MAX_DOCUMENT_BYTES } from './parse-piece.ts';
import { openRecordFile } from './read-file.ts';

/** One record of a file, as part of a native record. */
export type Member = { readonly place: Place; readonly raw: Uint8Array };

export type FileRecords = {
  /** The values of each file in their order. */
  readonly lists: readonly (readonly unknown[])[];
  /** Where each value stands, file after file. */
  readonly members: readonly Member[];
  readonly refused: readonly (Member & { readonly refusal: Refusal })[];
};

/**
 * Reads all records of these files. What cannot be read is refused by itself; together they may have as many bytes as a document,
 * beyond which nothing of them is taken. `check` is called before each record and may throw.
 */
export async function gatherRecords(paths: readonly string[], check: () => void): Promise<FileRecords> {
  const members: Member[] = [];
  const refused: (Member & { refusal: Refusal })[] = [];
  const lists: unknown[][] = [];
  let held = 0;
  for (const path of paths) {
    const { records } = await openRecordFile(path);
    const values: unknown[] = [];
    for await (const { line, raw, value, refusal } of records) {
      check();
      const member = { place: { file: path, line }, raw };
      held += raw.length;
      if (held > MAX_DOCUMENT_BYTES) {
        const expected = `files of one run of at most ${MAX_DOCUMENT_BYTES} bytes`;
        return {
          lists: [],
          members: [],
          refused: [{ ...member, refusal: { code: 'too_large', field: '', expected, got: 'more' } }],
        };
      }
      if (refusal) refused.push({ ...member, refusal });
      else {
        values.push(value);
        members.push(member);
      }
    }
    lists.push(values);
  }
  return { lists, members, refused };
}

/** Reads whole files, as many at a time as can be held together; a file alone may be larger. */
export async function* gatherFiles(
  files: readonly InputFile[],
  check: () => void,
  limit = PART_BYTES,
): AsyncGenerator<FileRecords> {
  for (let from = 0; from < files.length; ) {
    let to = from + 1;
    for (let held = files[from]!.bytes; to < files.length && held + files[to]!.bytes <= limit; to++)
      held += files[to]!.bytes;
    const paths = files.slice(from, to).map(({ path }) => path);
    yield await gatherRecords(paths, check);
    from = to;
  }
}

/** Bytes of records that are held at once of a group that may be cut. */
const PART_BYTES = 64 * 1024 * 1024;

/**
 * Reads all records of these files in parts that can be held at once: what belongs together but lies further apart than a part is
 * imported in two. What cannot be read is refused by itself. `check` is called before each record and may throw.
 */
export async function* gatherParts(
  paths: readonly string[],
  check: () => void,
  limit = PART_BYTES,
): AsyncGenerator<FileRecords> {
  let members: Member[] = [];
  let refused: (Member & { refusal: Refusal })[] = [];
  let lists: unknown[][] = [];
  let held = 0;
  for (const path of paths) {
    const { records } = await openRecordFile(path);
    lists.push([]);
    for await (const { line, raw, value, refusal } of records) {
      check();
      const member = { place: { file: path, line }, raw };
      if (held > 0 && held + raw.length > limit) {
        yield { lists, members, refused };
        [members, refused, lists, held] = [[], [], [[]], 0];
      }
      held += raw.length;
      if (refusal) refused.push({ ...member, refusal });
      else {
        lists.at(-1)!.push(value);
        members.push(member);
      }
    }
  }
  yield { lists, members, refused };
}
