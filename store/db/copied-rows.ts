/** The rows of a `COPY … TO STDOUT (FORMAT BINARY)` whose columns are all text, json or cast to text, held in memory as a whole. */
import type { Readable } from 'node:stream';

/** Signature, flags and the length of an extension that no server sends yet. */
const HEADER = 19;

export type CopiedRows = {
  /** Each row's texts in the order of the columns; null where there is none. */
  readonly rows: readonly (readonly (string | null)[])[];
  /** Of all rows, as they came. */
  readonly bytes: number;
};

/** Reads it to its end. */
export async function copiedRows(copy: Readable): Promise<CopiedRows> {
  const chunks: Buffer[] = [];
  for await (const chunk of copy) chunks.push(chunk);
  const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  const rows: (string | null)[][] = [];
  let at = HEADER + bytes.readInt32BE(HEADER - 4);
  const fieldAt = (): string | null => {
    const length = bytes.readInt32BE(at);
    at += 4;
    if (length < 0) return null;
    at += length;
    return bytes.toString('utf8', at - length, at);
  };
  for (let fields = bytes.readInt16BE(at); fields >= 0; fields = bytes.readInt16BE(at)) {
    at += 2;
    const row = new Array<string | null>(fields);
    for (let i = 0; i < fields; i++) row[i] = fieldAt();
    rows.push(row);
  }
  return { rows, bytes: bytes.length };
}
