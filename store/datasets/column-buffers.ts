/**
 * Growing columns in Arrow's memory layout, filled from PostgreSQL's binary values without a JavaScript value in between.
 * A bitmap has a bit for each value (1 = there), offsets have one entry more than values, numbers are little-endian as the machine is.
 *
 * Values come many at a time, so that each loop is over one column and one type: a call for each value, of whichever column comes
 * next, was three times as slow.
 */
import type { ColumnKind } from './columns.ts';
import { inTurns, validity } from './growing.ts';
import type { Buffers, ColumnBuffer, Wire } from './growing-column.ts';
import { int2Items, lists, maskItems, wordItems } from './list-buffers.ts';

const FIRST = 1024;

/** From 1970 to 2000 in microseconds, in two words of 32 bits: PostgreSQL counts from 2000. */
const EPOCH_US = 946_684_800_000_000;
const EPOCH_HIGH = Math.floor(EPOCH_US / 2 ** 32);
const EPOCH_LOW = EPOCH_US % 2 ** 32;

type Fill = (wire: Wire, from: number, to: number, out: Int32Array, at: number) => void;

function oneWord({ view, starts, lengths }: Wire, from: number, to: number, out: Int32Array, at: number): void {
  for (let i = from, o = at; i < to; i++, o++) out[o] = lengths[i]! < 0 ? 0 : view.getInt32(starts[i]!);
}

function twoWords({ view, starts, lengths }: Wire, from: number, to: number, out: Int32Array, at: number): void {
  for (let i = from, o = 2 * at; i < to; i++, o += 2) {
    const isThere = lengths[i]! >= 0;
    out[o] = isThere ? view.getInt32(starts[i]! + 4) : 0;
    out[o + 1] = isThere ? view.getInt32(starts[i]!) : 0;
  }
}

/** In halves, because a bigint for each value is slow to make; what is beyond 64 bits falls away as it does with bigints. */
function times({ view, starts, lengths }: Wire, from: number, to: number, out: Int32Array, at: number): void {
  for (let i = from, o = 2 * at; i < to; i++, o += 2) {
    if (lengths[i]! < 0) {
      out[o] = out[o + 1] = 0;
      continue;
    }
    const low = view.getUint32(starts[i]! + 4) + EPOCH_LOW;
    out[o] = low;
    out[o + 1] = view.getInt32(starts[i]!) + EPOCH_HIGH + (low >= 2 ** 32 ? 1 : 0);
  }
}

type Numbers = new (buffer: ArrayBuffer, offset: number, length: number) => Buffers['values'];

/** Numbers of so many words of 32 bits, which `fill` turns round; `make` determines their type. */
function numbers(kind: ColumnKind, words: 1 | 2, make: Numbers, fill: Fill): ColumnBuffer {
  const there = validity();
  let length = 0;
  const values = inTurns(Int32Array, FIRST * words);
  return {
    append(wire, from, to) {
      there.add(wire.lengths, from, to, length);
      fill(wire, from, to, values.room((length + to - from) * words), length);
      length += to - from;
    },
    size: () => length * words * 4,
    take() {
      const taken: Buffers = {
        kind,
        length,
        ...there.take(length),
        values: new make(values.turn().buffer, 0, length),
        offsets: null,
        child: null,
      };
      length = 0;
      return taken;
    },
  };
}

function booleans(): ColumnBuffer {
  const there = validity();
  let length = 0;
  const values = inTurns(Uint8Array, FIRST >> 3);
  return {
    append({ bytes, starts, lengths }, from, to) {
      there.add(lengths, from, to, length);
      const bits = values.room((length + to - from + 7) >> 3);
      for (let i = from; i < to; i++, length++) {
        if ((length & 7) === 0) bits[length >> 3] = 0;
        if (lengths[i]! >= 0 && bytes[starts[i]!] !== 0) bits[length >> 3]! |= 1 << (length & 7);
      }
    },
    size: () => length >> 3,
    take() {
      const taken: Buffers = {
        kind: 'bool',
        length,
        ...there.take(length),
        values: values.turn().subarray(0, (length + 7) >> 3),
        offsets: null,
        child: null,
      };
      length = 0;
      return taken;
    },
  };
}

/** Below this many bytes a loop over words is faster than a copy by the runtime. */
const SHORT = 64;
/** What the last word of a short value may touch behind it. */
const SPILL = 3;

/**
 * A copy from one array into another needs a view of the source first, 70 to 130 ns; one inside an array needs none, 35 ns whatever
 * its length. So values are moved together in the scratch of the wire, and go into the column in one piece.
 */
function texts(kind: ColumnKind): ColumnBuffer {
  const there = validity();
  let length = 0;
  let used = 0;
  const offsets = inTurns(Int32Array, FIRST + 1);
  const values = inTurns(Uint8Array, FIRST * 16);
  const keep = (bytes: Uint8Array, at: number, end: number) => {
    values.room(used + end - at).set(bytes.subarray(at, end), used);
    used += end - at;
  };
  return {
    append(wire, from, to) {
      const { bytes, view, starts, lengths, scratch } = wire;
      const limit = bytes.length - SPILL;
      there.add(lengths, from, to, length);
      const ends = offsets.room(length + to - from + 1);
      let end = scratch;
      for (let i = from; i < to; i++) {
        const size = lengths[i]!;
        if (size > 0) {
          const at = starts[i]!;
          if (end + size > limit) {
            keep(bytes, scratch, end);
            end = scratch;
          }
          if (end + size > limit) keep(bytes, at, at + size);
          else {
            if (size < SHORT) for (let b = 0; b < size; b += 4) view.setInt32(end + b, view.getInt32(at + b));
            else bytes.copyWithin(end, at, at + size);
            end += size;
          }
        }
        ends[++length] = used + end - scratch;
      }
      keep(bytes, scratch, end);
    },
    size: () => used + length * 4,
    take() {
      const taken: Buffers = {
        kind,
        length,
        ...there.take(length),
        values: values.turn().subarray(0, used),
        offsets: offsets.turn().subarray(0, length + 1),
        child: null,
      };
      length = used = 0;
      return taken;
    },
  };
}

/** An empty column of this kind. `append` throws TroupeError `sql_failed` for arrays of more than one dimension. */
export function columnBuffer(kind: ColumnKind): ColumnBuffer {
  switch (kind) {
    case 'text':
    case 'bytes':
    case 'messages':
    case 'named_messages':
    case 'tools':
    case 'steps':
    case 'answers':
    case 'text[]':
    case 'float8[]':
    case 'bool[]':
      return texts(kind);
    case 'bool':
      return booleans();
    case 'int4':
      return numbers(kind, 1, Int32Array, oneWord);
    case 'int8':
      return numbers(kind, 2, BigInt64Array, twoWords);
    case 'timestamptz':
      return numbers(kind, 2, BigInt64Array, times);
    case 'float4':
      return numbers(kind, 1, Float32Array, oneWord);
    case 'float8':
      return numbers(kind, 2, Float64Array, twoWords);
    case 'int4[]':
      return lists(kind, Int32Array, wordItems);
    case 'int2[]':
      return lists(kind, Int16Array, int2Items);
    case 'float4[]':
      return lists(kind, Float32Array, wordItems);
    case 'mask':
      return lists(kind, Int8Array, maskItems);
  }
}
