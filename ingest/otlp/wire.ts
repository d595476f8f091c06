/**
 * Reads protobuf messages by a table of their fields, as the JSON that proto3 prescribes for them: lowerCamelCase names, 64-bit
 * integers as decimal text, fields without a value left out. Fields that the table does not name are passed over.
 *
 * Written here, since the package that could do it has its one door in the writer of ONNX files, and what is read is small.
 */

export type Field =
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
  return message(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), 0, bytes.byteLength, fields, 0, {
    left: MAX_MESSAGES_IN_ALL,
  });
}

/** More messages than are taken; unlike a malformed one, no neighbour of it can be kept. */
export class TooMany extends Error {}

type Budget = { left: number };

function message(
  bytes: Buffer,
  from: number,
  to: number,
  fields: Fields,
  depth: number,
  budget: Budget,
): Record<string, unknown> {
  if (budget.left-- <= 0) throw new TooMany();
  if (depth > MAX_NESTED) throw new Malformed(`messages nested deeper than ${MAX_NESTED}`);
  const found: Record<string, unknown> = {};
  let at = from;
  while (at < to) {
    const tag = varint(bytes, at, to);
    at = tag.next;
    const wire = Number(tag.value & 7n);
    const end = wire === 0 ? varint(bytes, at, to).next : at + sizeOf(bytes, at, to, wire);
    if (end > to) throw new Malformed('a field that ends after its message');
    const start = wire === 2 ? varint(bytes, at, to).next : at;
    const field = fields[Number(tag.value >> 3n)];
    if (field) keep(found, field, value(bytes, start, end, field, wire, depth, budget));
    at = end;
  }
  return found;
}

function keep(found: Record<string, unknown>, field: Field, read: unknown): void {
  if (!field.list) found[field.name] = read;
  else if (Array.isArray(found[field.name])) (found[field.name] as unknown[]).push(read);
  else found[field.name] = [read];
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

function value(
  bytes: Buffer,
  from: number,
  to: number,
  field: Field,
  wire: number,
  depth: number,
  budget: Budget,
): unknown {
  const { as } = field;
  if (wire !== (typeof as === 'function' ? 2 : WIRE[as])) throw new Malformed(`${field.name} in another wire type`);
  if (typeof as === 'function') {
    if (!('alone' in field)) return message(bytes, from, to, as(), depth + 1, budget);
    try {
      return message(bytes, from, to, as(), depth + 1, budget);
    } catch (error) {
      if (error instanceof Malformed) return null;
      throw error;
    }
  }
  switch (as) {
    case 'string':
      return text(bytes.subarray(from, to));
    case 'hex':
      return bytes.toString('hex', from, to);
    case 'base64':
      return bytes.toString('base64', from, to);
    case 'fixed64':
      return bytes.readBigUInt64LE(from).toString();
    case 'fixed32':
      return bytes.readUInt32LE(from);
    case 'int64':
      return BigInt.asIntN(64, varint(bytes, from, to).value).toString();
    case 'uint32':
      return Number(BigInt.asIntN(32, varint(bytes, from, to).value));
    case 'bool':
      return varint(bytes, from, to).value !== 0n;
    case 'double': {
      const number = bytes.readDoubleLE(from);
      return Number.isFinite(number) ? number : Number.isNaN(number) ? 'NaN' : number > 0 ? 'Infinity' : '-Infinity';
    }
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function text(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw new Malformed('text that is not UTF-8');
  }
}

/** Bytes of a value that is not a varint, its length included. */
function sizeOf(bytes: Buffer, at: number, to: number, wire: number): number {
  if (wire === 1) return 8;
  if (wire === 5) return 4;
  if (wire !== 2) throw new Malformed(`wire type ${wire}`);
  const length = varint(bytes, at, to);
  if (length.value > BigInt(to - length.next)) throw new Malformed('a length that goes beyond its message');
  return length.next - at + Number(length.value);
}

function varint(bytes: Buffer, at: number, to: number): { readonly value: bigint; readonly next: number } {
  let value = 0n;
  let small = 0;
  for (let i = at; i < to && i < at + 10; i++) {
    const byte = bytes[i]!;
    // Nearly all are of one to four bytes: these need no big number until the end.
    if (i < at + 4) small |= (byte & 127) << (7 * (i - at));
    else value |= BigInt(byte & 127) << BigInt(7 * (i - at));
    if (byte < 128) return { value: value | BigInt(small), next: i + 1 };
  }
  throw new Malformed('a number without an end');
}
