/**
 * Growing columns in Arrow's memory layout, filled from PostgreSQL's binary values without a JavaScript value in between.
 * A bitmap has a bit for each value (1 = there), offsets have one entry more than values, numbers are little-endian as the machine is.
 */
import { TroupeError } from '../../errors.ts';
import type { ColumnKind } from './columns.ts';

/** The buffers of a finished column of `length` values. Lists have a `child`, text has `offsets` and bytes in `values`. */
export type Buffers = {
  readonly kind: ColumnKind;
  readonly length: number;
  readonly nullCount: number;
  readonly bitmap: Uint8Array;
  readonly values: Uint8Array | Int8Array | Int16Array | Int32Array | BigInt64Array | Float32Array | Float64Array;
  readonly offsets: Int32Array | null;
  readonly child: Pick<Buffers, 'length' | 'nullCount' | 'bitmap' | 'values'> | null;
};

/** One column under construction. `at` and `length` (bytes) say where the value lies in `bytes`; `view` is over the same bytes. */
export type ColumnBuffer = {
  append(bytes: Uint8Array, view: DataView, at: number, length: number): void;
  appendNull(): void;
  /** Bytes held so far, for bounding a batch. */
  size(): number;
  /** Gives the column away and starts an empty one. */
  take(): Buffers;
};

const FIRST = 1024;
/** Days from 1970 to 2000, in microseconds: PostgreSQL counts from 2000. */
const EPOCH_US = 946_684_800_000_000n;

type Numbers = Int8Array | Int16Array | Int32Array | BigInt64Array | Float32Array | Float64Array;
type NumbersOf<T> = new (length: number) => T;

const grownBits = (bits: Uint8Array<ArrayBuffer>, length: number): Uint8Array<ArrayBuffer> => {
  if (length >> 3 < bits.length) return bits;
  const larger = new Uint8Array(bits.length * 2);
  larger.set(bits);
  return larger;
};

const grown = <T extends Numbers | Uint8Array<ArrayBuffer>>(make: NumbersOf<T>, values: T, needed: number): T => {
  if (needed <= values.length) return values;
  const larger = new make(Math.max(needed, values.length * 2));
  larger.set(values as never);
  return larger;
};

const bitmapOf = (bits: Uint8Array, length: number): Uint8Array => bits.subarray(0, (length + 7) >> 3);

function numbers<T extends Numbers>(
  kind: ColumnKind,
  make: NumbersOf<T>,
  read: (view: DataView, at: number) => T[number],
): ColumnBuffer {
  let length = 0;
  let nullCount = 0;
  let bits = new Uint8Array(FIRST >> 3);
  let values = new make(FIRST);
  const room = () => {
    bits = grownBits(bits, length);
    values = grown(make, values, length + 1);
  };
  return {
    append(_bytes, view, at) {
      room();
      bits[length >> 3]! |= 1 << (length & 7);
      values[length++] = read(view, at);
    },
    appendNull() {
      room();
      nullCount++;
      length++;
    },
    size: () => length * values.BYTES_PER_ELEMENT,
    take() {
      const taken: Buffers = {
        kind,
        length,
        nullCount,
        bitmap: bitmapOf(bits, length),
        values: values.subarray(0, length) as Numbers,
        offsets: null,
        child: null,
      };
      length = nullCount = 0;
      bits = new Uint8Array(FIRST >> 3);
      values = new make(FIRST);
      return taken;
    },
  };
}

function booleans(): ColumnBuffer {
  let length = 0;
  let nullCount = 0;
  let bits = new Uint8Array(FIRST >> 3);
  let values = new Uint8Array(FIRST >> 3);
  const room = () => {
    bits = grownBits(bits, length);
    values = grownBits(values, length);
  };
  return {
    append(bytes, _view, at) {
      room();
      bits[length >> 3]! |= 1 << (length & 7);
      if (bytes[at] !== 0) values[length >> 3]! |= 1 << (length & 7);
      length++;
    },
    appendNull() {
      room();
      nullCount++;
      length++;
    },
    size: () => length >> 3,
    take() {
      const bitmap = bitmapOf(bits, length);
      const taken: Buffers = {
        kind: 'bool',
        length,
        nullCount,
        bitmap,
        values: bitmapOf(values, length),
        offsets: null,
        child: null,
      };
      length = nullCount = 0;
      bits = new Uint8Array(FIRST >> 3);
      values = new Uint8Array(FIRST >> 3);
      return taken;
    },
  };
}

/** Below this many bytes a loop is faster than a copy by the runtime. */
const SHORT = 24;

function texts(kind: ColumnKind): ColumnBuffer {
  let length = 0;
  let nullCount = 0;
  let used = 0;
  let bits = new Uint8Array(FIRST >> 3);
  let offsets = new Int32Array(FIRST + 1);
  let values = new Uint8Array(FIRST * 16);
  const room = () => {
    bits = grownBits(bits, length);
    offsets = grown(Int32Array, offsets, length + 2);
  };
  return {
    append(bytes, _view, at, size) {
      room();
      values = grown(Uint8Array, values, used + size);
      if (size < SHORT) for (let i = 0; i < size; i++) values[used + i] = bytes[at + i]!;
      else values.set(bytes.subarray(at, at + size), used);
      used += size;
      bits[length >> 3]! |= 1 << (length & 7);
      offsets[++length] = used;
    },
    appendNull() {
      room();
      nullCount++;
      offsets[++length] = used;
    },
    size: () => used + length * 4,
    take() {
      const taken: Buffers = {
        kind,
        length,
        nullCount,
        bitmap: bitmapOf(bits, length),
        values: values.subarray(0, used),
        offsets: offsets.subarray(0, length + 1),
        child: null,
      };
      length = nullCount = used = 0;
      bits = new Uint8Array(FIRST >> 3);
      offsets = new Int32Array(FIRST + 1);
      values = new Uint8Array(FIRST * 16);
      return taken;
    },
  };
}

/**
 * A one-dimensional array. On the wire: dimensions, a flag, the element type, then for each dimension its size and lower bound,
 * then each element as length (-1 for null) and bytes; an empty array has no dimension.
 */
function lists<T extends Numbers>(
  kind: ColumnKind,
  make: NumbersOf<T>,
  width: number,
  read: (view: DataView, at: number) => T[number],
): ColumnBuffer {
  let length = 0;
  let nullCount = 0;
  let used = 0;
  let childNulls = 0;
  let bits = new Uint8Array(FIRST >> 3);
  let childBits = new Uint8Array(FIRST);
  let offsets = new Int32Array(FIRST + 1);
  let values = new make(FIRST * 8);
  const room = () => {
    bits = grownBits(bits, length);
    offsets = grown(Int32Array, offsets, length + 2);
  };
  return {
    append(_bytes, view, at) {
      room();
      const dimensions = view.getInt32(at);
      if (dimensions > 1) {
        throw new TroupeError(
          'sql_failed',
          `An array has ${dimensions} dimensions; a list column takes one. Unnest it in the query.`,
          {
            expected: 'a one-dimensional array',
            got: `${dimensions} dimensions`,
          },
        );
      }
      const count = dimensions === 0 ? 0 : view.getInt32(at + 12);
      values = grown(make, values, used + count);
      childBits = grown(Uint8Array, childBits, ((used + count) >> 3) + 1);
      let from = at + 20;
      for (let i = 0; i < count; i++) {
        if (view.getInt32(from) < 0) {
          childNulls++;
          from += 4;
        } else {
          childBits[used >> 3]! |= 1 << (used & 7);
          values[used] = read(view, from + 4);
          from += 4 + width;
        }
        used++;
      }
      bits[length >> 3]! |= 1 << (length & 7);
      offsets[++length] = used;
    },
    appendNull() {
      room();
      nullCount++;
      offsets[++length] = used;
    },
    size: () => used * width + length * 4,
    take() {
      const taken: Buffers = {
        kind,
        length,
        nullCount,
        bitmap: bitmapOf(bits, length),
        values: values.subarray(0, 0) as Numbers,
        offsets: offsets.subarray(0, length + 1),
        child: {
          length: used,
          nullCount: childNulls,
          bitmap: bitmapOf(childBits, used),
          values: values.subarray(0, used) as Numbers,
        },
      };
      length = nullCount = used = childNulls = 0;
      bits = new Uint8Array(FIRST >> 3);
      childBits = new Uint8Array(FIRST);
      offsets = new Int32Array(FIRST + 1);
      values = new make(FIRST * 8);
      return taken;
    },
  };
}

function maskOf(view: DataView, at: number): number {
  const value = view.getInt16(at);
  if (value >= -128 && value <= 127) return value;
  throw new TroupeError('sql_failed', `A loss mask holds ${value}; it should hold 0 and 1.`, {
    expected: '0 or 1',
    got: `${value}`,
  });
}

/** An empty column of this kind. `append` throws TroupeError `sql_failed` for arrays of more than one dimension. */
export function columnBuffer(kind: ColumnKind): ColumnBuffer {
  switch (kind) {
    case 'text':
    case 'bytes':
      return texts(kind);
    case 'bool':
      return booleans();
    case 'int4':
      return numbers(kind, Int32Array, (view, at) => view.getInt32(at));
    case 'int8':
      return numbers(kind, BigInt64Array, (view, at) => view.getBigInt64(at));
    case 'timestamptz':
      return numbers(kind, BigInt64Array, (view, at) => view.getBigInt64(at) + EPOCH_US);
    case 'float4':
      return numbers(kind, Float32Array, (view, at) => view.getFloat32(at));
    case 'float8':
      return numbers(kind, Float64Array, (view, at) => view.getFloat64(at));
    case 'int4[]':
      return lists(kind, Int32Array, 4, (view, at) => view.getInt32(at));
    case 'int2[]':
      return lists(kind, Int16Array, 2, (view, at) => view.getInt16(at));
    case 'float4[]':
      return lists(kind, Float32Array, 4, (view, at) => view.getFloat32(at));
    case 'mask':
      return lists(kind, Int8Array, 2, maskOf);
  }
}
