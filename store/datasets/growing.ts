/** Arrays that grow under a column, and the bitmap of what is there. */

type Growing = Uint8Array<ArrayBuffer> | Int8Array | Int16Array | Int32Array | Float32Array | Float64Array;

/** The array itself where it holds `needed` values, else a copy at least twice as long, with zeros behind. */
export const grown = <T extends Growing>(make: new (length: number) => T, values: T, needed: number): T => {
  if (needed <= values.length) return values;
  const larger = new make(Math.max(needed, values.length * 2));
  larger.set(values);
  return larger;
};

/** The same for as many bits. */
export const grownBits = (bits: Uint8Array<ArrayBuffer>, needed: number): Uint8Array<ArrayBuffer> =>
  grown(Uint8Array, bits, (needed + 7) >> 3);

/**
 * Two arrays that grow in turns: one is filled while the bytes of the other are on their way out. New ones for each batch were most of
 * the time of the garbage collector, which was half of that of an export. What one holds from before is not cleared.
 */
export type InTurns<T> = {
  /** The array being filled, with room for `needed` values, of which those before are kept. */
  room(needed: number): T;
  /** Gives the array away until the next call but one, and begins the other, which is as long. */
  turn(): T;
};

export function inTurns<T extends Growing>(make: new (length: number) => T, first: number): InTurns<T> {
  let filling = new make(first);
  let other: T | null = null;
  return {
    room: (needed) => (filling = grown(make, filling, needed)),
    turn() {
      const full = filling;
      filling = other !== null && other.length >= full.length ? other : new make(full.length);
      other = full;
      return full;
    },
  };
}

export type Nulls = { readonly nullCount: number; readonly bitmap: Uint8Array };

/** Which values of a column are there. Until the first null there is no bitmap. */
export type Validity = {
  /** Takes the lengths `from` to `to` (excluded) of values that follow `length` others; -1 is a null. */
  add(lengths: Int32Array, from: number, to: number, length: number): void;
  /** The value that follows `length` others is null. */
  addNull(length: number): void;
  /** Gives away what is known of `length` values and starts again. */
  take(length: number): Nulls;
};

export function validity(): Validity {
  let nullCount = 0;
  /** A bit for each null, which is turned round at the end: the other values are present. */
  let nulls = new Uint8Array(0);
  const addNull = (length: number) => {
    nulls = grownBits(nulls, length + 1);
    nulls[length >> 3]! |= 1 << (length & 7);
    nullCount++;
  };
  return {
    add(lengths, from, to, length) {
      for (let i = from; i < to; i++) if (lengths[i]! < 0) addNull(length + i - from);
    },
    addNull,
    take(length) {
      const taken = { nullCount, bitmap: nullCount === 0 ? nulls : thereOf(nulls, length) };
      nullCount = 0;
      nulls = new Uint8Array(0);
      return taken;
    },
  };
}

/** Bits beyond `length` are 0, so that the same values are the same bytes. */
function thereOf(nulls: Uint8Array, length: number): Uint8Array {
  const there = new Uint8Array((length + 7) >> 3);
  for (let i = 0; i < there.length; i++) there[i] = ~(nulls[i] ?? 0);
  if (length % 8 !== 0) there[there.length - 1]! &= (1 << (length % 8)) - 1;
  return there;
}
