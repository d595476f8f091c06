/** Growing columns of lists and structs in Arrow's memory layout, filled from JavaScript values. The same values are the same bytes. */
import { writtenJson } from '../../ingest/events/spelling.ts';
import { grown, grownBits, type Nulls, validity } from './growing.ts';
import type { ValueShape } from './shape.ts';

/** A finished column: text and lists have `offsets`, numbers and text have `values`, a list has one child and a struct one for each member. */
export type NestedBuffers = Nulls & {
  readonly length: number;
  readonly offsets: Int32Array | null;
  readonly values: Uint8Array | Int32Array | Float64Array | null;
  readonly children: readonly NestedBuffers[];
};

export type NestedBuffer = {
  /** Null and undefined are null; members that the shape does not name are not taken. */
  append(value: unknown): void;
  /** The column as it is now; it is not to be used afterwards. */
  take(): NestedBuffers;
};

/** An empty column of this shape. JSON becomes text, in the order and spelling of its source. */
export function nestedBuffer(shape: ValueShape): NestedBuffer {
  if (shape === 'text') return texts(String);
  if (shape === 'json') return texts(writtenJson);
  if (shape === 'bool') return booleans();
  if (shape === 'int') return numbers(Int32Array);
  if (shape === 'number') return numbers(Float64Array);
  return 'list' in shape ? lists(nestedBuffer(shape.list)) : structs(shape.struct);
}

const FIRST = 64;

/** Counts values and nulls; `put` is given what is not null. */
function counted(put: (value: NonNullable<unknown>, at: number) => void, skip: (at: number) => void = () => {}) {
  const there = validity();
  let length = 0;
  return {
    append(value: unknown): void {
      if (value === null || value === undefined) {
        there.addNull(length);
        skip(length++);
      } else put(value, length++);
    },
    taken: () => ({ length, ...there.take(length) }),
  };
}

/** Where each value ends among its bytes or items. */
function offsets() {
  let all = new Int32Array(FIRST);
  return {
    put(at: number, end: number): void {
      all = grown(Int32Array, all, at + 2);
      all[at + 1] = end;
    },
    take: (length: number): Int32Array => all.subarray(0, length + 1),
  };
}

function texts(textOf: (value: unknown) => string): NestedBuffer {
  const ends = offsets();
  let bytes = new Uint8Array(FIRST * 16);
  let used = 0;
  const end = (at: number): void => ends.put(at, used);
  const { append, taken } = counted((value, at) => {
    const text = textOf(value);
    // A character of UTF-16 is at most three bytes.
    bytes = grown(Uint8Array, bytes, used + 3 * text.length);
    used += utf8.encodeInto(text, bytes.subarray(used)).written;
    end(at);
  }, end);
  return {
    append,
    take: () => {
      const { length, ...nulls } = taken();
      return {
        length,
        ...nulls,
        offsets: ends.take(length),
        values: bytes.subarray(0, used),
        children: [],
      };
    },
  };
}

const utf8 = new TextEncoder();

function booleans(): NestedBuffer {
  let bits = new Uint8Array(FIRST);
  const { append, taken } = counted((value, at) => {
    bits = grownBits(bits, at + 1);
    if (value) bits[at >> 3]! |= 1 << (at & 7);
  });
  return {
    append,
    take: () => {
      const { length, ...nulls } = taken();
      return {
        length,
        ...nulls,
        offsets: null,
        values: grownBits(bits, length).subarray(0, (length + 7) >> 3),
        children: [],
      };
    },
  };
}

function numbers<T extends Int32Array | Float64Array>(make: new (length: number) => T): NestedBuffer {
  let values: T = new make(FIRST);
  const { append, taken } = counted((value, at) => {
    values = grown(make, values, at + 1);
    values[at] = Number(value);
  });
  return {
    append,
    take: () => {
      const { length, ...nulls } = taken();
      return { length, ...nulls, offsets: null, values: grown(make, values, length).subarray(0, length), children: [] };
    },
  };
}

function lists(items: NestedBuffer): NestedBuffer {
  const ends = offsets();
  let used = 0;
  const end = (at: number): void => ends.put(at, used);
  const { append, taken } = counted((value, at) => {
    const list = value as ArrayLike<unknown>;
    for (let i = 0; i < list.length; i++) items.append(list[i]);
    used += list.length;
    end(at);
  }, end);
  return {
    append,
    take: () => {
      const { length, ...nulls } = taken();
      return { length, ...nulls, offsets: ends.take(length), values: null, children: [items.take()] };
    },
  };
}

function structs(shapes: Readonly<Record<string, ValueShape>>): NestedBuffer {
  const members = Object.entries(shapes).map(([name, shape]) => ({ name, column: nestedBuffer(shape) }));
  const { append, taken } = counted(
    (value) => {
      const record = value as Readonly<Record<string, unknown>>;
      for (const { name, column } of members) column.append(record[name]);
    },
    () => {
      for (const { column } of members) column.append(null);
    },
  );
  return {
    append,
    take: () => ({ ...taken(), offsets: null, values: null, children: members.map(({ column }) => column.take()) }),
  };
}
