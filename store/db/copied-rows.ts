/** The rows of a `COPY … TO STDOUT (FORMAT BINARY)` whose columns are all text, json or cast to text, held in memory as a whole. */
import { brokenCopy, copyHeader, copyRow, ENDED, PARTIAL } from './copy-frames.ts';

/**
 * Reads it to its end; `count` is the number of its columns. Of rows that have more than `most` bytes together the first are kept, at
 * least one: what follows is read and forgotten. @throws TroupeError `sql_failed` where the bytes are no such COPY. */
export async function copiedRows(
  copy: AsyncIterable<Buffer>,
  count: number,
  most = Number.POSITIVE_INFINITY,
): Promise<{
  /** Each row's texts in the order of the columns; null where there is none. */
  readonly rows: readonly (readonly (string | null)[])[];
  /** Of all rows, as they came. */
  readonly bytes: number;
  /** Whether there were more rows than fit. */
  readonly cut: boolean;
}> {
  const [starts, lengths] = [new Int32Array(count), new Int32Array(count)];
  const fields = { starts, lengths, stride: 1, count, longest: Number.POSITIVE_INFINITY };
  const viewOf = (bytes: Buffer) => new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let chunks: Buffer[] = [];
  let [held, enough] = [0, most];
  let cut = false;
  for await (const chunk of copy) {
    if (cut) continue;
    chunks.push(chunk);
    held += chunk.length;
    if (held < enough) continue;
    const bytes = Buffer.concat(chunks);
    chunks = [bytes];
    cut = copyRow(viewOf(bytes), copyHeader(viewOf(bytes), held), held, fields, 0) !== PARTIAL;
    enough = 2 * held;
  }
  const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
  const view = viewOf(bytes);
  const rows: (string | null)[][] = [];
  for (let at = copyHeader(view, bytes.length); at !== PARTIAL; ) {
    at = copyRow(view, at, bytes.length, fields, 0);
    if (at === ENDED) return { rows, bytes: bytes.length, cut: false };
    if (at === PARTIAL && cut) return { rows, bytes: bytes.length, cut };
    if (at === PARTIAL) break;
    const row = new Array<string | null>(count);
    for (let i = 0; i < count; i++)
      row[i] = lengths[i]! < 0 ? null : bytes.toString('utf8', starts[i], starts[i]! + lengths[i]!);
    rows.push(row);
  }
  throw brokenCopy('the end of the COPY', 'the end of the connection');
}
