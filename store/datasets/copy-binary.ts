/**
 * Reads PostgreSQL's `COPY … (format binary)`: an 11-byte signature, 4 bytes of flags, the length of a header extension, then rows
 * (field count, and for each field its length, -1 for null, and its bytes), and -1 where a field count would stand at the end.
 * Rows go into columns directly; no row object is made.
 */
import { hash } from 'node:crypto';
import { TroupeError } from '../../errors.ts';
import { type Buffers, columnBuffer } from './column-buffers.ts';
import type { Column } from './columns.ts';

/** A batch ends after so many rows or bytes, whichever comes first: by content alone, so that its cut is the same each time. */
const BATCH_ROWS = 65_536;
const BATCH_BYTES = 32 * 1024 * 1024;

export type CopyOptions = {
  /** Called for each row: the SHA-256 of its columns as they came, and the text of the extra columns. */
  readonly onRow?: (sha256: Buffer, extra: readonly (string | null)[]) => void;
  /** Text columns after `columns` that go to `onRow` and not into the batches. */
  readonly extra?: number;
  readonly batchRows?: number;
  readonly batchBytes?: number;
};

const SIGNATURE = Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1');

/**
 * Turns the bytes of a COPY into batches of columns. `columns` says the kind of each field in order; only its kinds are used.
 * @throws TroupeError `sql_failed` where the bytes are not such a COPY, end early, or have another number of fields.
 */
export async function* copyBatches(
  source: AsyncIterable<Uint8Array>,
  columns: readonly Pick<Column, 'kind'>[],
  options: CopyOptions = {},
): AsyncGenerator<readonly Buffers[], void, undefined> {
  const { onRow, extra = 0, batchRows = BATCH_ROWS, batchBytes = BATCH_BYTES } = options;
  const buffers = columns.map((column) => columnBuffer(column.kind));
  const width = columns.length;
  const fields = width + extra;
  let rows = 0;
  let started = false;
  let ended = false;
  let waiting: Uint8Array[] = [];
  let held = 0;
  /** So many bytes must be there before it is worth looking again: a long row does not get joined once for each chunk. */
  let needed = SIGNATURE.length + 8;

  for await (const chunk of source) {
    waiting.push(chunk);
    held += chunk.length;
    if (held < needed) continue;
    const bytes =
      waiting.length === 1 ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length) : Buffer.concat(waiting, held);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    let at = 0;
    if (!started) {
      if (!bytes.subarray(0, SIGNATURE.length).equals(SIGNATURE))
        throw broken('a COPY in binary format', bytes.subarray(0, 11).toString('latin1'));
      const header = SIGNATURE.length + 8 + view.getInt32(SIGNATURE.length + 4);
      if (bytes.length < header) {
        needed = header;
        waiting = [bytes];
        continue;
      }
      at = header;
      started = true;
    }
    for (;;) {
      if (ended) break;
      const end = rowEnd(view, at, fields);
      if (end < 0) {
        ended = true;
        at += 2;
        break;
      }
      if (end > bytes.length) {
        needed = end - at;
        break;
      }
      let from = at + 2;
      for (let i = 0; i < width; i++) {
        const length = view.getInt32(from);
        from += 4;
        if (length < 0) buffers[i]!.appendNull();
        else {
          buffers[i]!.append(bytes, view, from, length);
          from += length;
        }
      }
      if (onRow) onRow(hash('sha256', bytes.subarray(at + 2, from), 'buffer'), textsAt(bytes, view, from, extra));
      at = end;
      if (
        ++rows === batchRows ||
        (rows % 64 === 0 && buffers.reduce((sum, buffer) => sum + buffer.size(), 0) >= batchBytes)
      ) {
        yield buffers.map((buffer) => buffer.take());
        rows = 0;
      }
    }
    held = bytes.length - at;
    waiting = held === 0 ? [] : [bytes.subarray(at)];
    if (held === 0) needed = 2;
  }
  if (!ended) throw broken('the end of the COPY', 'the end of the connection');
  if (rows > 0) yield buffers.map((buffer) => buffer.take());
}

/** Where the row at `at` ends, at least: beyond the bytes when it is not all there, -1 at the end mark. */
function rowEnd(view: DataView, at: number, fields: number): number {
  const size = view.byteLength;
  if (at + 2 > size) return at + 2;
  const count = view.getInt16(at);
  if (count === -1) return -1;
  if (count !== fields) throw broken(`rows of ${fields} fields`, `a row of ${count}`);
  let end = at + 2;
  for (let i = 0; i < fields; i++) {
    if (end + 4 > size) return end + 4;
    const length = view.getInt32(end);
    end += 4 + Math.max(length, 0);
  }
  return end;
}

function textsAt(bytes: Buffer, view: DataView, at: number, count: number): (string | null)[] {
  const texts: (string | null)[] = [];
  let from = at;
  for (let i = 0; i < count; i++) {
    const length = view.getInt32(from);
    from += 4;
    texts.push(length < 0 ? null : bytes.toString('utf8', from, from + length));
    if (length > 0) from += length;
  }
  return texts;
}

const broken = (expected: string, came: string): TroupeError =>
  new TroupeError('sql_failed', `Reading a COPY, ${expected} was expected and ${JSON.stringify(came)} came.`, {
    expected,
    got: came,
  });
