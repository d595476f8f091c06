/** Growing columns of lists. Each element goes from the wire into its place; see `column-buffers.ts` for what surrounds them. */
import { TroupeError } from '../../errors.ts';
import type { ColumnKind } from './columns.ts';
import { inTurns, validity } from './growing.ts';
import type { ColumnBuffer } from './growing-column.ts';

const FIRST = 1024;

type Elements = Int8Array | Int16Array | Int32Array | Float32Array;

/** Reads `count` elements from `at`, each its length and its bytes, none of them null, into `out` from `used` on. */
type Items<T> = (view: DataView, at: number, count: number, out: T, used: number) => void;

/** Integers and reals alike: 32 bits are turned round, whatever they mean. */
export function wordItems(view: DataView, at: number, count: number, out: Int32Array, used: number): void {
  for (let i = 0, from = at + 4; i < count; i++, from += 8) out[used + i] = view.getInt32(from);
}

export function int2Items(view: DataView, at: number, count: number, out: Int16Array, used: number): void {
  for (let i = 0, from = at + 4; i < count; i++, from += 6) out[used + i] = view.getInt16(from);
}

/** @throws TroupeError `sql_failed` for what fits no byte */
export function maskItems(view: DataView, at: number, count: number, out: Int8Array, used: number): void {
  for (let i = 0, from = at + 4; i < count; i++, from += 6) {
    const value = view.getInt16(from);
    if (value < -128 || value > 127)
      throw new TroupeError('sql_failed', `A loss mask holds ${value}; it should hold 0 and 1.`, {
        expected: '0 or 1',
        got: `${value}`,
      });
    out[used + i] = value;
  }
}

/**
 * One-dimensional arrays. On the wire: dimensions, whether there may be nulls, the element type, then for each dimension its size and
 * lower bound, then each element as length (-1 for null) and bytes; an empty array has no dimension.
 * @param make what the elements are in the column
 * @param fill `Int32Array` stands for any 32 bits
 */
export function lists<T extends Elements>(
  kind: ColumnKind,
  make: {
    new (length: number): T;
    new (buffer: ArrayBuffer, offset: number, length: number): T;
    BYTES_PER_ELEMENT: number;
  },
  fill: Items<T extends Float32Array ? Int32Array : T>,
): ColumnBuffer {
  const width = make.BYTES_PER_ELEMENT;
  const store = (width === 4 ? Int32Array : make) as new (length: number) => Elements;
  const there = validity();
  const elements = validity();
  let length = 0;
  let used = 0;
  const offsets = inTurns(Int32Array, FIRST + 1);
  const values = inTurns(store, FIRST * 8);

  const one = (view: DataView, at: number) => {
    const dimensions = view.getInt32(at);
    if (dimensions > 1) throw nestedArray();
    const count = dimensions === 0 ? 0 : view.getInt32(at + 12);
    const into = values.room(used + count) as Parameters<typeof fill>[3];
    if (view.getInt32(at + 4) === 0) {
      fill(view, at + 20, count, into, used);
      used += count;
      return;
    }
    for (let i = 0, from = at + 20; i < count; i++, used++) {
      const size = view.getInt32(from);
      if (size < 0) {
        elements.addNull(used);
        into[used] = 0;
      } else fill(view, from, 1, into, used);
      from += 4 + Math.max(size, 0);
    }
  };

  return {
    append({ view, starts, lengths }, from, to) {
      there.add(lengths, from, to, length);
      const ends = offsets.room(length + to - from + 1);
      for (let i = from; i < to; i++) {
        if (lengths[i]! >= 0) one(view, starts[i]!);
        ends[++length] = used;
      }
    },
    size: () => used * width + length * 4,
    take() {
      const taken = {
        kind,
        length,
        ...there.take(length),
        values: new make(0),
        offsets: offsets.turn().subarray(0, length + 1),
        child: {
          length: used,
          ...elements.take(used),
          values: new make(values.turn().buffer as ArrayBuffer, 0, used),
        },
      };
      length = used = 0;
      return taken;
    },
  };
}

export const nestedArray = (): TroupeError =>
  new TroupeError('sql_failed', 'An array has several dimensions; a list column takes one. Unnest it in the query.', {
    expected: 'a one-dimensional array',
    got: 'several dimensions',
  });
