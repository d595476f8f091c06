/** What a growing column is, whatever its type. */
import type { ColumnKind } from './columns.ts';

/** The buffers of a finished column of `length` values. Lists have a `child`, text has `offsets` and bytes in `values`. */
export type Buffers = {
  readonly kind: ColumnKind;
  readonly length: number;
  readonly nullCount: number;
  /** Empty where nothing is null. */
  readonly bitmap: Uint8Array;
  readonly values: Uint8Array | Int8Array | Int16Array | Int32Array | BigInt64Array | Float32Array | Float64Array;
  readonly offsets: Int32Array | null;
  readonly child: Pick<Buffers, 'length' | 'nullCount' | 'bitmap' | 'values'> | null;
};

/**
 * Values as they came. One array of bytes (`view` is over all of it), where those of value i are `lengths[i]` many from `starts[i]`; a
 * length of -1 is a null. From `scratch` on the bytes are free, and whoever is given them may write there.
 */
export type Wire = {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  readonly scratch: number;
  readonly starts: Int32Array;
  readonly lengths: Int32Array;
};

/** One column under construction. */
export type ColumnBuffer = {
  /** Takes the values `from` to `to` (excluded) of `wire`. */
  append(wire: Wire, from: number, to: number): void;
  /** Bytes held so far, for bounding a batch. */
  size(): number;
  /** Gives the column away, until the next call but one, and starts an empty one. */
  take(): Buffers;
};
