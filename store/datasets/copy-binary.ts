/** The rows of a `COPY … TO STDOUT (FORMAT BINARY)` go into columns directly, batch by batch; no row object is made. */
import { hash } from 'node:crypto';
import { TroupeError } from '../../errors.ts';
import { brokenCopy, copyHeader, copyRow, ENDED, PARTIAL } from '../db/copy-frames.ts';
import { columnBuffer } from './column-buffers.ts';
import type { DatasetColumn } from './columns.ts';
import type { Buffers, Wire } from './growing-column.ts';

/** A batch ends after so many rows or bytes, whichever comes first: by content alone, so that its cut is the same each time. */
const BATCH_ROWS = 65_536;
const BATCH_BYTES = 32 * 1024 * 1024;

export type CopyOptions = {
  /** Called for each row: the SHA-256 of its columns as they came, in hex, and the text of the extra columns. */
  readonly onRow?: (sha256: string, extra: readonly (string | null)[]) => void;
  /** Called for each row with its columns as they came. The bytes are used again afterwards. */
  readonly onBytes?: (row: Buffer) => void;
  /** Text columns after `columns` that go to `onRow` and not into the batches. */
  readonly extra?: number;
  readonly batchRows?: number;
  readonly batchBytes?: number;
  /** Bytes of one row at most; a longer one throws `too_large`. Default: no bound. */
  readonly maxRowBytes?: number;
  /** Bytes of one value at most; a longer one throws `too_large`. Default: no bound. */
  readonly maxValueBytes?: number;
};

/** Rows are decoded so many at a time, column by column; after each such slice it is looked whether the batch is full. */
const SLICE = 64;
/** Within a slice of long rows it is full at so many times its bytes. */
const LONG_ROWS = 2;
/** Unread bytes that are held, unless a row is longer, and as many again to move text in. */
const ROOM = 256 * 1024;

/**
 * Turns the bytes of a COPY into batches of columns. `columns` gives the kind of each field in order; only its kinds are used.
 * The arrays of a batch are used again when the next but one is asked for.
 * @throws TroupeError `sql_failed` where the bytes are not such a COPY, end early, or have another number of fields.
 */
export async function* copyBatches(
  source: AsyncIterable<Uint8Array>,
  columns: readonly Pick<DatasetColumn, 'kind'>[],
  options: CopyOptions = {},
): AsyncGenerator<readonly Buffers[], void, undefined> {
  const { onRow, onBytes, extra = 0, batchRows = BATCH_ROWS, batchBytes = BATCH_BYTES } = options;
  const buffers = columns.map((column) => columnBuffer(column.kind));
  const input = rowInput(columns.length, extra, options);
  let [rows, bytes] = [0, 0];

  /** Decodes what is there; true where a batch is full. */
  const decode = (): boolean => {
    for (;;) {
      const most = Math.min(SLICE - (rows % SLICE), batchRows - rows);
      const { found, size } = input.rows(most, LONG_ROWS * batchBytes - bytes);
      if (found === 0) return false;
      bytes += size;
      for (let i = 0; i < buffers.length; i++) buffers[i]!.append(input.wire(), i * SLICE, i * SLICE + found);
      for (let row = 0; row < found && (onRow || onBytes); row++) {
        const came = input.bytes(row);
        onRow?.(hash('sha256', came), input.extra(row));
        onBytes?.(came);
      }
      rows += found;
      if (rows === batchRows || bytes >= LONG_ROWS * batchBytes) return true;
      if (rows % SLICE === 0 && buffers.reduce((sum, buffer) => sum + buffer.size(), 0) >= batchBytes) return true;
    }
  };
  const taken = () => {
    [rows, bytes] = [0, 0];
    return buffers.map((buffer) => buffer.take());
  };

  for await (const chunk of source) {
    for (let at = 0; at < chunk.length; ) {
      at += input.feed(chunk, at);
      if (!input.isFull()) continue;
      while (decode()) yield taken();
    }
  }
  while (decode()) yield taken();
  if (!input.ended()) throw brokenCopy('the end of the COPY', 'the end of the connection');
  if (rows > 0) yield taken();
}

/** The unread bytes of a COPY, in which rows are found; those of a slice stay where they are until more is fed. */
function rowInput(
  width: number,
  extra: number,
  { maxRowBytes = Number.POSITIVE_INFINITY, maxValueBytes = Number.POSITIVE_INFINITY }: CopyOptions,
) {
  const count = width + extra;
  const [starts, lengths] = [new Int32Array(SLICE * count), new Int32Array(SLICE * count)];
  const fields = { starts, lengths, stride: SLICE, count, longest: maxValueBytes };
  let room = ROOM;
  let wire = wireOf(room, starts, lengths);
  let [from, to] = [0, 0];
  let started = false;
  let ended = false;

  return {
    wire: () => wire,
    ended: () => ended,
    isFull: () => to === room,
    /** Takes bytes of `chunk` from `at` on, as many as there is room for, and answers how many. */
    feed(chunk: Uint8Array, at: number): number {
      if (ended) return chunk.length - at;
      if (from > 0) {
        wire.bytes.copyWithin(0, from, to);
        to -= from;
        from = 0;
      } else if (to === room) {
        if (room >= maxRowBytes) {
          throw new TroupeError('too_large', `A row should have at most ${maxRowBytes} bytes; one has more.`, {
            expected: `at most ${maxRowBytes} bytes`,
            hint: 'Select fewer columns, or the beginning of long text: left(text, 1000).',
          });
        }
        room *= 2;
        const larger = wireOf(room, starts, lengths);
        larger.bytes.set(wire.bytes.subarray(0, to));
        wire = larger;
      }
      const more = Math.min(chunk.length - at, room - to);
      wire.bytes.set(chunk.subarray(at, at + more), to);
      to += more;
      return more;
    },
    /**
     * Finds the next rows, at most so many, up to the one that reaches so many bytes; answers how many there are and their bytes. Field i
     * of row j is value `i * SLICE + j` of the wire.
     */
    rows(most: number, bytes: number): { readonly found: number; readonly size: number } {
      if (!started) {
        from = copyHeader(wire.view, to);
        started = from !== PARTIAL;
      }
      let [found, size] = [0, 0];
      while (started && !ended && found < most && size < bytes) {
        const end = copyRow(wire.view, from, to, fields, found);
        if (end === PARTIAL) break;
        if (end === ENDED) ended = true;
        else {
          size += end - from;
          from = end;
          found++;
        }
      }
      return { found, size };
    },
    /** The columns of a row as they came. */
    bytes(row: number): Buffer {
      const last = (width - 1) * SLICE + row;
      const start = starts[row]! - 4;
      return wire.bytes.subarray(start, starts[last]! + Math.max(0, lengths[last]!));
    },
    /** The text of the columns behind them. */
    extra(row: number): (string | null)[] {
      const texts: (string | null)[] = [];
      for (let place = width * SLICE + row; place < count * SLICE; place += SLICE) {
        const [at, length] = [starts[place]!, lengths[place]!];
        texts.push(length < 0 ? null : wire.bytes.toString('utf8', at, at + length));
      }
      return texts;
    },
  };
}

function wireOf(
  room: number,
  starts: Int32Array,
  lengths: Int32Array,
): Omit<Wire, 'bytes'> & { readonly bytes: Buffer<ArrayBuffer> } {
  const bytes = Buffer.from(new ArrayBuffer(room + ROOM));
  return { bytes, view: new DataView(bytes.buffer), scratch: room, starts, lengths };
}
