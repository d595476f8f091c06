/**
 * Where rows and fields lie in the bytes of a `COPY … TO STDOUT (FORMAT BINARY)`: an 11-byte signature, 4 bytes of flags, the length of a
 * header extension, then rows (field count, and for each field its length, -1 for null, and its bytes), and -1 where a field count
 * would stand at the end. What the fields hold is read by whoever needs them.
 */
import { TroupeError } from '../../errors.ts';
import { valueTooLarge } from './faults.ts';

const SIGNATURE = Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1');
const HEADER = SIGNATURE.length + 8;

/** Fields of rows: those of one row are `stride` apart, where value i has `lengths[i]` bytes from `starts[i]`; -1 is a null. */
export type Fields = {
  readonly starts: Int32Array;
  readonly lengths: Int32Array;
  readonly stride: number;
  /** Of each row. */
  readonly count: number;
  /** Bytes of one value at most. */
  readonly longest: number;
};

/** In place of where a row ends: it is not all there yet. */
export const PARTIAL = 0;
/** The same after the last row. */
export const ENDED = -1;

/**
 * Where the first row begins among the first `to` bytes, or `PARTIAL`.
 * @throws TroupeError `sql_failed` where the bytes are no such COPY.
 */
export function copyHeader(view: DataView, to: number): number {
  if (to < HEADER) return PARTIAL;
  const signature = Buffer.from(view.buffer, view.byteOffset, SIGNATURE.length);
  if (!signature.equals(SIGNATURE)) throw brokenCopy('a COPY in binary format', signature.toString('latin1'));
  const header = HEADER + view.getInt32(HEADER - 4);
  return to < header ? PARTIAL : header;
}

/**
 * Where the row at `at` ends among the first `to` bytes, `PARTIAL` or `ENDED`; notes its fields from value `first` on.
 * @throws TroupeError `sql_failed` where the row has another number of fields, `too_large` for a longer value.
 */
export function copyRow(view: DataView, at: number, to: number, fields: Fields, first: number): number {
  if (at + 2 > to) return PARTIAL;
  const count = view.getInt16(at);
  if (count === -1) return ENDED;
  if (count !== fields.count) throw brokenCopy(`rows of ${fields.count} fields`, `a row of ${count}`);
  const { starts, lengths, stride } = fields;
  let end = at + 2;
  for (let i = 0, place = first; i < count; i++, place += stride) {
    if (end + 4 > to) return PARTIAL;
    const length = view.getInt32(end);
    if (length > fields.longest) throw valueTooLarge(fields.longest);
    end += 4;
    starts[place] = end;
    lengths[place] = length;
    if (length > 0) end += length;
  }
  return end > to ? PARTIAL : end;
}

/** The error for bytes that are no COPY of the columns that were asked for. */
export const brokenCopy = (expected: string, came: string): TroupeError =>
  new TroupeError('sql_failed', `Reading a COPY, ${expected} was expected and ${JSON.stringify(came)} came.`, {
    expected,
    got: came,
  });
