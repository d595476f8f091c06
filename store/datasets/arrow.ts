/**
 * The wrapper of Apache Arrow: columns from a binary COPY become an Arrow IPC file, and a file becomes rows or typed arrays again.
 * No column is dictionary-encoded, because a dictionary depends on how rows were cut into batches; the bytes depend on the rows alone.
 */

import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import {
  Binary,
  Bool,
  CompressionType,
  compressionRegistry,
  type Data,
  DataType,
  Field,
  Float32,
  Float64,
  Int8,
  Int16,
  Int32,
  Int64,
  List,
  Message,
  makeData,
  RecordBatch,
  RecordBatchFileWriter,
  RecordBatchReader,
  RecordBatchStreamWriter,
  type RecordBatchWriter,
  Schema,
  Struct,
  Table,
  TimestampMicrosecond,
  tableFromIPC,
  tableToIPC,
  Utf8,
} from 'apache-arrow';
import { TroupeError } from '../../errors.ts';
import { fromLz4, toLz4 } from '../../ingest/log/lz4.ts';
import { columnBuffer } from './column-buffers.ts';
import type { ColumnKind, DatasetColumn } from './columns.ts';
import { type CopyOptions, copyBatches } from './copy-binary.ts';
import type { Buffers, Wire } from './growing-column.ts';
import { type NestedBuffer, type NestedBuffers, nestedBuffer } from './nested-buffers.ts';
import { NESTED } from './nested-columns.ts';
import { featuresOf, type Shapes, type ValueShape } from './shape.ts';

compressionRegistry.set(CompressionType.LZ4_FRAME, { encode: toLz4, decode: fromLz4 });

const item = (type: DataType) => new List(new Field('item', type, true));

const TYPES: Readonly<Partial<Record<ColumnKind, () => DataType>>> = {
  text: () => new Utf8(),
  int4: () => new Int32(),
  int8: () => new Int64(),
  float4: () => new Float32(),
  float8: () => new Float64(),
  bool: () => new Bool(),
  timestamptz: () => new TimestampMicrosecond('UTC'),
  'int4[]': () => item(new Int32()),
  'int2[]': () => item(new Int16()),
  'float4[]': () => item(new Float32()),
  mask: () => item(new Int8()),
  bytes: () => new Binary(),
};

export type ColumnShape = Pick<DatasetColumn, 'name' | 'kind'>;

const fieldOf = ({ name, kind }: ColumnShape): Field => {
  const nested = NESTED[kind];
  return nested ? nestedField(name, nested.shape) : new Field(name, TYPES[kind]!(), true);
};

const schemaOf = (columns: readonly ColumnShape[]): Schema => {
  const shapes = columns.flatMap(({ name, kind }) => (NESTED[kind] ? [[name, NESTED[kind].shape] as const] : []));
  return new Schema(columns.map(fieldOf), shapes.length > 0 ? featuresNamed(Object.fromEntries(shapes)) : undefined);
};

function dataOf(type: DataType, column: Buffers): Data {
  const { length, nullCount, child } = column;
  const nested = NESTED[column.kind];
  if (nested) return nestedData(type, fromTexts(column, nested.stored, nestedBuffer(nested.shape)));
  const nullBitmap = nullCount > 0 ? column.bitmap : undefined;
  if (child !== null) {
    const inner = (type as List).children[0]!.type;
    const data = { type: inner, length: child.length, nullCount: child.nullCount, data: child.values } as const;
    const items = makeData({ ...data, nullBitmap: child.nullCount > 0 ? child.bitmap : undefined } as never);
    return makeData({ type, length, nullCount, nullBitmap, valueOffsets: column.offsets, child: items } as never);
  }
  if (column.offsets !== null) {
    return makeData({
      type,
      length,
      nullCount,
      nullBitmap,
      valueOffsets: column.offsets,
      data: column.values,
    } as never);
  }
  return makeData({ type, length, nullCount, nullBitmap, data: column.values } as never);
}

/** Each text of JSON as a value of lists and structs; memory holds one of them at a time beside the buffers. */
function fromTexts(texts: Buffers, stored: (value: unknown) => unknown, into: NestedBuffer): NestedBuffers {
  const { length, nullCount, bitmap, offsets } = texts;
  const bytes = texts.values as Uint8Array;
  for (let i = 0; i < length; i++) {
    const isNull = nullCount > 0 && !bitAt(bitmap, i);
    into.append(isNull ? null : stored(JSON.parse(utf8.decode(bytes.subarray(offsets![i], offsets![i + 1])))));
  }
  return into.take();
}

function nestedData(type: DataType, { length, nullCount, bitmap, offsets, values, children }: NestedBuffers): Data {
  const about = { type, length, nullCount, nullBitmap: nullCount > 0 ? bitmap : undefined };
  const inner = children.map((child, i) => nestedData(type.children[i]!.type, child));
  if (type instanceof List) return makeData({ ...about, valueOffsets: offsets, child: inner[0] } as never);
  if (type instanceof Struct) return makeData({ ...about, children: inner } as never);
  return makeData({ ...about, ...(offsets ? { valueOffsets: offsets } : {}), data: values } as never);
}

/** Takes batches and hands the bytes of an Arrow IPC file to `sink`, in order. Call `finish` once, after the last batch. */
export type ArrowWriter = {
  /** Settles when `sink` has taken the bytes of the batch; one batch at a time. Throws what `sink` throws. */
  write(batch: readonly Buffers[]): Promise<void>;
  finish(): Promise<void>;
};
/** What an Arrow file begins with: its mark, and two bytes up to a multiple of eight. */
const ARROW_HEAD = 8;

/** Where a batch stands in a file, as its footer says. */
export type ArrowBlock = { readonly metaDataLength: number; readonly bodyLength: number; readonly offset: number };
/** So much of an Arrow file is written: its bytes and the batches in them. */
export type ArrowStart = { readonly bytes: number; readonly blocks: readonly ArrowBlock[] };

/** Has used the bytes when its promise settles, at the latest before the next batch is asked for: they may be changed then. */
type ArrowSink = (bytes: Uint8Array) => Promise<void> | void;

/** @param columns name and kind of each column, in the order of every batch */
export const arrowWriter = (columns: readonly ColumnShape[], sink: ArrowSink): ArrowWriter =>
  writingTo(new RecordBatchFileWriter(), columns, sink);

/** As `arrowWriter`, in the streaming form of Arrow IPC, whose rows can be read before its end has come. */
export const arrowStreamWriter = (columns: readonly ColumnShape[], sink: ArrowSink): ArrowWriter =>
  writingTo(new RecordBatchStreamWriter(), columns, sink);

function writingTo(writer: RecordBatchWriter, columns: readonly ColumnShape[], sink: ArrowSink): ArrowWriter {
  const schema = schemaOf(columns);
  const struct = new Struct(schema.fields);
  writer.reset(undefined, schema);
  const position = () => (writer as unknown as { readonly _position: number })._position;
  let [owed, allTaken] = [position(), () => {}];
  const drained = (async () => {
    for await (const chunk of writer) {
      const wait = sink(chunk as Uint8Array);
      if (wait) await wait;
      owed -= (chunk as Uint8Array).length;
      if (owed === 0) allTaken();
    }
  })();
  drained.catch(() => {}); // Seen again, and thrown, by `write` and `finish`.
  return {
    async write(batch) {
      const children = batch.map((column, i) => dataOf(schema.fields[i]!.type, column));
      const before = position();
      writer.write(
        new RecordBatch(schema, makeData({ type: struct, length: batch[0]?.length ?? 0, nullCount: 0, children })),
      );
      owed += position() - before;
      await Promise.race([drained, new Promise<void>((done) => (allTaken = done))]);
    },
    async finish() {
      writer.finish();
      await drained;
    },
  };
}

/** Before each compressed buffer stands its length uncompressed. The library (21.2) writes the compressed one, by which others refuse the file. */
class Lz4FileWriter extends RecordBatchFileWriter {
  begun(): ArrowStart {
    const blocks = this._recordBatchBlocks.map(({ metaDataLength, bodyLength, offset }) => ({
      metaDataLength,
      bodyLength,
      offset,
    }));
    return { bytes: this._position, blocks };
  }
  /** Goes on behind what another writer of the same schema wrote. */
  goOn({ bytes, blocks }: ArrowStart): void {
    this._position = bytes;
    this._recordBatchBlocks = blocks.map((block) => ({ ...block }));
  }
  protected override _compressBodyBuffers(buffers: ArrayBufferView[]) {
    const compressed = super._compressBodyBuffers(buffers);
    for (const [i, { byteLength }] of buffers.entries()) {
      const length = compressed.buffers[2 * i] as Uint8Array;
      const view = new DataView(length.buffer, length.byteOffset, length.byteLength);
      if (byteLength > 0 && view.getBigInt64(0, true) >= 0n) view.setBigInt64(0, BigInt(byteLength), true);
    }
    return compressed;
  }
}

/**
 * Copies the rows of a query into an Arrow IPC file, its columns compressed: prompts repeat from row to row. `source` is the output of `COPY (…) TO STDOUT (FORMAT BINARY)` whose columns
 * are `columns` (then `options.extra` text columns that stay out of the file). `options.afterBatch` is waited for after each batch.
 * Returns the number of rows.
 * Throws TroupeError `sql_failed` where the bytes do not fit `columns`.
 */
export async function copyToArrow(
  source: AsyncIterable<Uint8Array>,
  columns: readonly ColumnShape[],
  sink: (bytes: Uint8Array) => Promise<void> | void,
  options: CopyOptions & {
    /** What of the file is there already; `source` then begins with the row behind it. */
    readonly begun?: ArrowStart;
    readonly afterBatch?: (batch: readonly Buffers[], begun: ArrowStart) => Promise<void>;
  } = {},
): Promise<number> {
  const { begun, afterBatch } = options;
  const file = new Lz4FileWriter({ compressionType: CompressionType.LZ4_FRAME });
  let head = begun ? ARROW_HEAD : 0;
  const writer = writingTo(file, columns, async (bytes) => {
    const skipped = Math.min(head, bytes.length);
    head -= skipped;
    if (skipped < bytes.length) await sink(bytes.subarray(skipped));
  });
  if (begun) file.goOn(begun);
  let rows = 0;
  for await (const batch of copyBatches(source, columns, options)) {
    rows += batch[0]?.length ?? 0;
    // One batch at a time, however slow the disk is.
    await writer.write(batch);
    await afterBatch?.(batch, file.begun());
  }
  await writer.finish();
  return rows;
}

/**
 * Values of a row: text, numbers, booleans, null; int8 and timestamps (microseconds since 1970) as bigint; bytes and lists as typed arrays, or
 * as arrays where they hold nulls; messages, steps and definitions of tools as objects.
 */
type RowValue =
  | string
  | number
  | bigint
  | boolean
  | null
  | ArrayLike<number>
  | readonly (number | null)[]
  | readonly Readonly<Record<string, unknown>>[]
  | Readonly<Record<string, unknown>>;
export type ArrowRow = Readonly<Record<string, RowValue>>;

/** Kinds that rows are written as. */
const WIRE = {
  text: (value: RowValue) => Buffer.from(value as string),
  bytes: (value: RowValue) => value as Uint8Array,
  int4: (value: RowValue) => {
    const bytes = Buffer.allocUnsafe(4);
    bytes.writeInt32BE(Number(value));
    return bytes;
  },
  int8: (value: RowValue) => {
    const bytes = Buffer.allocUnsafe(8);
    bytes.writeBigInt64BE(BigInt(value as number | bigint));
    return bytes;
  },
};

export type RowColumn = { readonly name: string; readonly kind: keyof typeof WIRE | 'timestamptz' };

/** Values as they would have come, one behind the other. */
function wireOf(values: readonly (Uint8Array | null)[]): Wire {
  const lengths = Int32Array.from(values, (value) => value?.length ?? -1);
  const bytes = new Uint8Array(lengths.reduce((sum, length) => sum + Math.max(length, 0), 0));
  let end = 0;
  const starts = Int32Array.from(values, (value) => {
    const at = end;
    if (value !== null) bytes.set(value, at);
    end += value?.length ?? 0;
    return at;
  });
  return { bytes, view: new DataView(bytes.buffer), scratch: bytes.length, starts, lengths };
}

/** Rows as an Arrow IPC file in memory: what `readArrow` reads, values as it gives them. */
export async function arrowOfRows(columns: readonly RowColumn[], rows: readonly ArrowRow[]): Promise<Uint8Array> {
  const batch = columns.map(({ name, kind }) => {
    // A timestamp is counted from 1970 already, where the wire counts from 2000.
    const buffer = columnBuffer(kind === 'timestamptz' ? 'int8' : kind);
    const wire = WIRE[kind === 'timestamptz' ? 'int8' : kind];
    const values = rows.map((row) => ((row[name] ?? null) === null ? null : wire(row[name]!)));
    buffer.append(wireOf(values), 0, rows.length);
    return buffer.take();
  });
  const parts: Uint8Array[] = [];
  const writer = arrowWriter(columns, (bytes) => void parts.push(bytes));
  await writer.write(batch);
  await writer.finish();
  return Buffer.concat(parts);
}

/** The rows of an Arrow file. */
export type Frame = {
  readonly rows: number;
  readonly columns: readonly string[];
  /** Values of a column, each as in a row. @returns null where there is no such column */
  readonly column: (name: string) => readonly RowValue[] | null;
  /** Rows as objects, in order, made one at a time. */
  readonly each: () => Generator<ArrowRow, void, undefined>;
};

/** Reads an Arrow IPC file. Throws what the Arrow library throws for bytes that are none; check their hash first. */
export function readArrow(bytes: Uint8Array): Frame {
  const { schema, batches, numRows } = tableFromIPC(bytes);
  return frameOf(schema, [], numRows, () => batches);
}

/**
 * The rows of an Arrow IPC file on the disk, of any length: memory holds one batch while they are read.
 * @param rows how many there are
 * @param columns as they were written, where some hold messages or the like
 */
export function readArrowFile(path: string, rows: number, columns: readonly ColumnShape[] = []): Frame {
  const batches = batchesIn(path);
  const { value: schema } = batches.next();
  batches.return();
  return frameOf(schema as Schema, columns, rows, () => onlyBatches(path));
}

/**
 * The schema, then the batches. What stands between the mark of a file and its footer is a stream without the schema, which this library
 * writes into the footer alone.
 */
function* batchesIn(path: string): Generator<Schema | RecordBatch, void, undefined> {
  const file = openSync(path, 'r');
  try {
    const footer = footerOf(file);
    yield footer.schema;
    yield* RecordBatchReader.from(streamOf(file, footer));
  } finally {
    closeSync(file);
  }
}

function* onlyBatches(path: string): Generator<RecordBatch, void, undefined> {
  for (const part of batchesIn(path)) if (part instanceof RecordBatch) yield part;
}

const MARK = Buffer.from('ARROW1\0\0');
/** Behind the footer: its length and the mark without padding. */
const TAIL = 4 + 6;

type Footer = { readonly schema: Schema; readonly blocks: readonly ArrowBlock[] };

/** Read from a file of the footer alone, which is one without batches, whatever batches the footer lists. */
function footerOf(file: number): Footer {
  const { size } = fstatSync(file);
  const length = bytesAt(file, size - TAIL, 4).readInt32LE();
  const end = size - TAIL - length;
  const { schema, footer } = RecordBatchReader.from(Buffer.concat([MARK, bytesAt(file, end, size - end)])).open();
  return { schema, blocks: [...footer!.recordBatches()] };
}

const bytesAt = (file: number, from: number, length: number): Buffer =>
  readInto(Buffer.allocUnsafeSlow(length), file, from);

function readInto<T extends Uint8Array>(bytes: T, file: number, from: number): T {
  for (let read = 0; read < bytes.length; ) {
    const more = readSync(file, bytes, read, bytes.length - read, from + read);
    if (more === 0) throw new TroupeError('internal', `An Arrow file ended at byte ${from + read}.`);
    read += more;
  }
  return bytes;
}

/** A read for each batch: one that lay in several reads would be put together by a copy. */
function* streamOf(file: number, { schema, blocks }: Footer): Generator<Uint8Array, void, undefined> {
  yield startOf(schema);
  for (const { offset, metaDataLength, bodyLength } of blocks) yield bytesAt(file, offset, metaDataLength + bodyLength);
}

/** What a stream of this schema begins with. */
function startOf(schema: Schema): Uint8Array {
  const start = new RecordBatchStreamWriter();
  start.reset(undefined, schema);
  return start.finish().toUint8Array(true).subarray(0, -END_OF_STREAM);
}

const END_OF_STREAM = 8;
/** What a batch begins with, before what it says about itself: a mark and the length. */
const BATCH_HEAD = 8;

/**
 * The batches of an Arrow IPC file, each as a stream of Arrow IPC of its own; one without batches where the file has none. The bytes of a
 * stream are used again for the next one. Batches that are not compressed are passed on as they are in the file.
 */
export function* streamsIn(path: string): Generator<Uint8Array, void, undefined> {
  const file = openSync(path, 'r');
  try {
    const { schema, blocks } = footerOf(file);
    if (blocks.length === 0) yield tableToIPC(new Table(schema), 'stream');
    const start = startOf(schema);
    const longest = Math.max(0, ...blocks.map(({ metaDataLength, bodyLength }) => metaDataLength + bodyLength));
    const room = new Uint8Array(start.length + longest);
    room.set(start);
    for (const { offset, metaDataLength, bodyLength } of blocks) {
      const stream = room.subarray(0, start.length + metaDataLength + bodyLength);
      readInto(stream.subarray(start.length), file, offset);
      const about = Message.decode(stream.subarray(start.length + BATCH_HEAD, start.length + metaDataLength));
      const isPlain = about.isRecordBatch() && about.header().compression === null;
      yield isPlain ? stream : streamOfBatch(RecordBatchReader.from(stream).next().value);
    }
  } finally {
    closeSync(file);
  }
}

function streamOfBatch(batch: RecordBatch): Uint8Array {
  const writer = new RecordBatchStreamWriter();
  writer.write(batch);
  return writer.finish().toUint8Array(true);
}

const frameOf = (
  schema: Schema,
  written: readonly ColumnShape[],
  rows: number,
  batches: () => Iterable<RecordBatch>,
): Frame => {
  const columns = schema.fields.map(({ name }) => ({ name, kind: written.find((one) => one.name === name)?.kind }));
  return {
    rows,
    columns: columns.map(({ name }) => name),
    column: (name) => {
      const i = columns.findIndex((column) => column.name === name);
      if (i < 0) return null;
      return Array.from(batches(), (batch) => {
        const at = readerOf(batch.data.children[i]!, columns[i]!.kind);
        return Array.from({ length: batch.numRows }, (_, row) => at(row));
      }).flat();
    },
    each: () => eachRow(batches(), columns),
  };
};

type KnownColumn = { readonly name: string; readonly kind: ColumnKind | undefined };

function* eachRow(
  batches: Iterable<RecordBatch>,
  columns: readonly KnownColumn[],
): Generator<ArrowRow, void, undefined> {
  for (const batch of batches) {
    const readers = batch.data.children.map((data, i) => readerOf(data, columns[i]!.kind));
    for (let row = 0; row < batch.numRows; row++) {
      yield Object.fromEntries(columns.map(({ name }, i) => [name, readers[i]!(row)]));
    }
  }
}

/** Flat columns are read whole, which is much faster than one value after the other; nested ones would fill the memory with objects. */
function readerOf(data: Data, kind: ColumnKind | undefined): (row: number) => RowValue {
  const nested = kind === undefined ? undefined : NESTED[kind];
  if (nested) return (row) => nested.read(nestedAt(data, nested.shape, row)) as RowValue;
  const values = valuesOf(data);
  return (row) => values[row]!;
}

const bitAt = (bits: Uint8Array, at: number): boolean => (bits[at >> 3]! & (1 << (at & 7))) !== 0;
const isThere = (data: Data, at: number): boolean => data.nullCount === 0 || bitAt(data.nullBitmap, data.offset + at);
const utf8 = new TextDecoder();

/** All values of one column of one batch; much faster than asking the library for each. */
function valuesOf(data: Data): RowValue[] {
  const out = new Array<RowValue>(data.length);
  const { type, values, valueOffsets, length } = data;
  for (let i = 0; i < length; i++) {
    if (!isThere(data, i)) out[i] = null;
    else if (type instanceof Utf8)
      out[i] = utf8.decode((values as Uint8Array).subarray(valueOffsets[i], valueOffsets[i + 1]));
    else if (type instanceof Binary) out[i] = (values as Uint8Array).slice(valueOffsets[i], valueOffsets[i + 1]);
    else if (type instanceof List) out[i] = listAt(data.children[0]!, valueOffsets[i]!, valueOffsets[i + 1]!);
    else if (type instanceof Bool) out[i] = bitAt(values as Uint8Array, data.offset + i);
    else out[i] = (values as Float64Array)[i]!;
  }
  return out;
}

function listAt(child: Data, from: number, to: number): RowValue {
  const values = (child.values as Int32Array).subarray(from, to);
  if (child.nullCount === 0) return values;
  return Array.from(values, (value, i) => (isThere(child, from + i) ? value : null));
}

/** The value at a place of a column of lists and structs; every member of a struct is there, a missing one is null. */
function nestedAt(data: Data, shape: ValueShape, at: number): unknown {
  if (!isThere(data, at)) return null;
  if (typeof shape !== 'string') {
    if ('list' in shape) {
      const [from, to] = [data.valueOffsets[at]!, data.valueOffsets[at + 1]!];
      return Array.from({ length: to - from }, (_, i) => nestedAt(data.children[0]!, shape.list, from + i));
    }
    const members = Object.entries(shape.struct);
    return Object.fromEntries(members.map(([name, inner], i) => [name, nestedAt(data.children[i]!, inner, at)]));
  }
  if (shape === 'bool') return bitAt(data.values as Uint8Array, data.offset + at);
  if (shape === 'int' || shape === 'number') return (data.values as Float64Array)[at];
  const text = utf8.decode((data.values as Uint8Array).subarray(data.valueOffsets[at], data.valueOffsets[at + 1]));
  return shape === 'json' ? JSON.parse(text) : text;
}

const NESTED_BATCH = 1000;

/** JSON is text with a mark that Arrow readers know, so that a list of differing objects needs no common fields. */
const JSON_MARK = new Map([
  ['ARROW:extension:name', 'arrow.json'],
  ['ARROW:extension:metadata', ''],
]);

function nestedField(name: string, shape: ValueShape): Field {
  if (shape === 'json') return new Field(name, new Utf8(), true, JSON_MARK);
  return new Field(name, nestedType(shape), true);
}

function nestedType(shape: Exclude<ValueShape, 'json'>): DataType {
  if (shape === 'text') return new Utf8();
  if (shape === 'int') return new Int32();
  if (shape === 'number') return new Float64();
  if (shape === 'bool') return new Bool();
  if ('list' in shape) return new List(nestedField('element', shape.list));
  return new Struct(Object.entries(shape.struct).map(([name, inner]) => nestedField(name, inner)));
}

/** The schema names the features of Hugging Face datasets, so that JSON is read back as values. */
const featuresNamed = (shapes: Shapes): Map<string, string> =>
  new Map([['huggingface', JSON.stringify({ info: { features: featuresOf(shapes) } })]]);

/**
 * Rows of lists and structs in the streaming form of Arrow IPC, a thousand rows in each stream. A member that `shapes` does not name is
 * not written, one that a row lacks is null.
 */
export function* nestedStreams(
  shapes: Shapes,
  rows: readonly Readonly<Record<string, unknown>>[],
): Generator<Uint8Array, void, undefined> {
  const fields = Object.entries(shapes).map(([name, shape]) => nestedField(name, shape));
  const schema = new Schema(fields, featuresNamed(shapes));
  const struct = new Struct(fields);
  for (let from = 0; from < rows.length || from === 0; from += NESTED_BATCH) {
    const some = rows.slice(from, from + NESTED_BATCH);
    const children = Object.entries(shapes).map(([name, shape], i) => {
      const column = nestedBuffer(shape);
      for (const row of some) column.append(row[name]);
      return nestedData(fields[i]!.type, column.take());
    });
    const batch = new RecordBatch(schema, makeData({ type: struct, length: some.length, nullCount: 0, children }));
    yield streamOfBatch(batch);
  }
}

/** What decides how a column is best written: whether texts are in its lists or structs, or how its values look where it has none of these. */
export type ColumnUse =
  | { readonly name: string; readonly nested: true; readonly holdsText: boolean }
  | ({ readonly name: string; readonly nested: false; readonly values: 'bytes' | 'whole' | 'other' } & Looks);

/** `recurs`: values come again after others. `isLong`: they are long texts. */
type Looks = { readonly recurs: boolean; readonly isLong: boolean };

/** The columns of a stream of Arrow IPC, by the beginning of its first batch; nothing recurs where there is none. */
export function columnUses(stream: Uint8Array): readonly ColumnUse[] {
  const reader = RecordBatchReader.from(stream).open();
  const { value: batch } = reader.next() as { value: RecordBatch | null };
  return reader.schema.fields.map(({ name, type }, i) => {
    if (type instanceof List || type instanceof Struct) return { name, nested: true, holdsText: holdsText(type) };
    const looks = batch ? looksOf(batch.data.children[i]!) : { recurs: false, isLong: false };
    return { name, nested: false, values: valuesAs(type), ...looks };
  });
}

function valuesAs(type: DataType): 'bytes' | 'whole' | 'other' {
  if (type instanceof Utf8 || type instanceof Binary) return 'bytes';
  return DataType.isInt(type) || DataType.isTimestamp(type) ? 'whole' : 'other';
}

const holdsText = (type: DataType): boolean =>
  type instanceof Utf8 || (type.children ?? []).some((child) => holdsText(child.type));

/** So many values are looked at. */
const LOOKED_AT = 4096;
/** Values recur where at most such a part of those that are not the value of the row before is new. */
const NEW = 0.9;
/** Texts of more bytes on average are long. */
const LONG = 64;

function looksOf(data: Data): Looks {
  const { values, valueOffsets: ends } = data;
  const bytes = Buffer.from(values.buffer, values.byteOffset, values.byteLength);
  const different = new Set<unknown>();
  const count = Math.min(data.length, LOOKED_AT);
  let [there, changes] = [0, 0];
  let before: unknown;
  for (let i = 0; i < count; i++) {
    if (!isThere(data, i)) continue;
    const value = ends ? bytes.toString('latin1', ends[i], ends[i + 1]) : values[i];
    there++;
    if (value === before) continue;
    changes++;
    different.add(value);
    before = value;
  }
  return { recurs: different.size <= NEW * changes, isLong: ends ? ends[count]! > LONG * there : false };
}

/** The same table in the streaming form of Arrow IPC, for readers that take no file. */
export const arrowStream = (file: Uint8Array): Uint8Array => tableToIPC(tableFromIPC(file), 'stream');
