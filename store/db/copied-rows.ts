/** The rows of a `COPY … TO STDOUT (FORMAT BINARY)` whose columns are all text, json or cast to text, held in memory as a whole. */
import { brokenCopy, copyHeader, copyRow, ENDED, PARTIAL } from './copy-frames.ts';

export type CopiedRows = {
  /** Each row's texts in the order of the columns; null where there is none. */
  readonly rows: readonly (readonly (string | null)[])[];
  /** Of all rows, as they came. */
  readonly bytes: number;
};

/** Reads it to its end; `count` is the number of its columns. @throws TroupeError `sql_failed` where the bytes are no such COPY. */
export async function copiedRows(copy: AsyncIterable<Buffer>, count: number): Promise<CopiedRows> {
  const chunks: Buffer[] = [];
  for await (const chunk of copy) chunks.push(chunk);
  const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const [starts, lengths] = [new Int32Array(count), new Int32Array(count)];
  const fields = { starts, lengths, stride: 1, count, longest: Number.POSITIVE_INFINITY };
  const rows: (string | null)[][] = [];
  for (let at = copyHeader(view, bytes.length); at !== PARTIAL; ) {
    at = copyRow(view, at, bytes.length, fields, 0);
    if (at === ENDED) return { rows, bytes: bytes.length };
    if (at === PARTIAL) break;
    const row = new Array<string | null>(count);
    for (let i = 0; i < count; i++)
      row[i] = lengths[i]! < 0 ? null : bytes.toString('utf8', starts[i], starts[i]! + lengths[i]!);
    rows.push(row);
  }
  throw brokenCopy('the end of the COPY', 'the end of the connection');
}
