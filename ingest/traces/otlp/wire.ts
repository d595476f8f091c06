/**
 * Reads protobuf messages by a table of their fields, as the JSON that proto3 prescribes for them: lowerCamelCase names, 64-bit
 * integers as decimal text, fields without a value left out. Fields that the table does not name are passed over.
 *
 * Written here, since the package that could do it may only be imported by the writer of ONNX files, and what is read is small.
 */

type Field =
  | { readonly name: string; readonly as: Scalar; readonly list?: boolean }
  | { readonly name: string; readonly as: () => Fields; readonly list?: boolean; readonly alone?: boolean };
/** By field number. Of a list marked `alone`, a member that cannot be read is null and its neighbours are kept. */
export type Fields = Readonly<Record<number, Field>>;
type Scalar = 'string' | 'hex' | 'base64' | 'fixed64' | 'fixed32' | 'int64' | 'uint32' | 'double' | 'bool';

/** Nesting of messages; an attribute may hold lists of lists. */
const MAX_NESTED = 96;

/** Messages in one request, attributes and their values among them: two bytes can be a message, and each costs memory. */
export const MAX_MESSAGES_IN_ALL = 2_000_000;

/** Bytes that are not a message of these fields. */
export class Malformed extends Error {}

/** One message. Throws {@link Malformed}. */
export function readMessage(bytes: Uint8Array, fields: Fields): Record<string, unknown> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return message({ bytes: buffer, at: 0, left: MAX_MESSAGES_IN_ALL }, buffer.length, fields, 0);
}

/** More messages than are taken; unlike a malformed one, no neighbour of it can be kept. */
export class TooMany extends Error {}

type Reader = {
  readonly bytes: Buffer;
  /** Where the next byte is read. */
  at: number;
  /** Messages that may still come. */
  left: number;
};

/** The message from where the reader is up to `to`. */
function message(reader: Reader, to: number, fields: Fields, depth: number): Record<string, unknown> {
  if (reader.left-- <= 0) throw new TooMany();
  if (depth > MAX_NESTED) throw new Malformed(`messages nested deeper than ${MAX_NESTED}`);
  const found: Record<string, unknown> = {};
  while (reader.at < to) {
    const wire = reader.bytes[reader.at]! & 7;
    const field = fields[Math.floor(varint(reader, to) / 8)];
    const end = endOf(reader, to, wire);
    if (field) keep(found, field, value(reader, end, field, wire, depth));
    reader.at = end;
  }
  return found;
}

/** Where a value of this wire type ends; the reader is left at its first byte, behind a length. */
function endOf(reader: Reader, to: number, wire: number): number {
  if (wire === 2) {
    const length = varint(reader, to);
    if (length > to - reader.at) throw new Malformed('a length that goes beyond its message');
    return reader.at + length;
  }
  const start = reader.at;
  if (wire === 0) {
    varint(reader, to);
    const end = reader.at;
    reader.at = start;
    return end;
  }
  if (wire !== 1 && wire !== 5) throw new Malformed(`wire type ${wire}`);
  const end = start + (wire === 1 ? 8 : 4);
  if (end > to) throw new Malformed('a field that ends after its message');
  return end;
}

function keep(found: Record<string, unknown>, field: Field, read: unknown): void {
  const { name } = field;
  if (!field.list) found[name] = read;
  else if (found[name] === undefined) found[name] = [read];
  else (found[name] as unknown[]).push(read);
}

const WIRE: Readonly<Record<Scalar, number>> = {
  string: 2,
  hex: 2,
  base64: 2,
  fixed64: 1,
  double: 1,
  fixed32: 5,
  int64: 0,
  uint32: 0,
  bool: 0,
};

function value(reader: Reader, to: number, field: Field, wire: number, depth: number): unknown {
  const { as } = field;
  const { bytes, at } = reader;
  if (wire !== (typeof as === 'function' ? 2 : WIRE[as])) throw new Malformed(`${field.name} in another wire type`);
  if (typeof as === 'function') {
    if (!('alone' in field)) return message(reader, to, as(), depth + 1);
    try {
      return message(reader, to, as(), depth + 1);
    } catch (error) {
      if (error instanceof Malformed) return null;
      throw error;
    }
  }
  switch (as) {
    case 'string':
      return text(bytes, at, to);
    case 'hex':
      return bytes.toString('hex', at, to);
    case 'base64':
      return bytes.toString('base64', at, to);
    case 'fixed64':
      return bytes.readBigUInt64LE(at).toString();
    case 'fixed32':
      return bytes.readUInt32LE(at);
    case 'int64':
      return to - at <= SMALL ? String(varint(reader, to)) : BigInt.asIntN(64, longVarint(bytes, at, to)).toString();
    case 'uint32':
      return to - at <= SMALL ? varint(reader, to) : Number(BigInt.asIntN(32, longVarint(bytes, at, to)));
    case 'bool':
      return varint(reader, to) !== 0;
    case 'double': {
      const number = bytes.readDoubleLE(at);
      return Number.isFinite(number) ? number : Number.isNaN(number) ? 'NaN' : number > 0 ? 'Infinity' : '-Infinity';
    }
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function text(bytes: Buffer, from: number, to: number): string {
  const read = bytes.toString('utf8', from, to);
  // This is what other bytes than UTF-8 become, besides being a character of its own.
  if (!read.includes('\uFFFD')) return read;
  try {
    return decoder.decode(bytes.subarray(from, to));
  } catch {
    throw new Malformed('text that is not UTF-8');
  }
}

/** A varint of so many bytes fits in 31 bits. */
const SMALL = 4;

/** The next varint; exact below 2^53, and beyond that no less than it. */
function varint(reader: Reader, to: number): number {
  const { bytes } = reader;
  const last = Math.min(to, reader.at + 10);
  let read = 0;
  let unit = 1;
  while (reader.at < last) {
    const byte = bytes[reader.at++]!;
    read += (byte & 127) * unit;
    if (byte < 128) return read;
    unit *= 128;
  }
  throw new Malformed('a number without an end');
}

/** The whole of a varint whose end is known. */
function longVarint(bytes: Buffer, from: number, to: number): bigint {
  let read = 0n;
  for (let i = from; i < to; i++) read |= BigInt(bytes[i]! & 127) << BigInt(7 * (i - from));
  return read;
}
