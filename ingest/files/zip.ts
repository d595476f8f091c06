/**
 * Members of a ZIP archive, one at a time: stored, deflated or compressed with Zstandard. Read from PKWARE's APPNOTE 6.3.10, which
 * numbers those methods 0, 8 and 93.
 */
import type { FileHandle } from 'node:fs/promises';
import { crc32, inflateRawSync } from 'node:zlib';
import { unzstd } from '../log/zstd.ts';

/** Where a member lies in the archive and how it was compressed. */
export type ZipMember = {
  readonly name: string;
  readonly method: number;
  readonly encrypted: boolean;
  readonly crc: number;
  /** Bytes in the archive, and of the member itself. */
  readonly packed: number;
  readonly size: number;
  /** Place of its own header. */
  readonly at: number;
};

/** A fault of an archive or of a member. */
export class BadZip extends Error {}

const MEMBER = 0x04034b50;
const LISTED = 0x02014b50;
const END = 0x06054b50;
const END_64 = 0x06064b50;
const WHERE_64 = 0x07064b50;
const END_BYTES = 22;
const MAX_COMMENT = 65_535;
const MAX_LIST_BYTES = 256 * 1024 * 1024;
/** A 32-bit number that is written in 64 bits elsewhere. */
const ELSEWHERE = 0xffffffff;

export async function isZip(file: FileHandle): Promise<boolean> {
  const head = await bytesAt(file, 0, 4);
  return head.length === 4 && head.readUInt32LE(0) === MEMBER;
}

/**
 * The members of an archive, of one name the last. Where the list at its end is missing, because the writer was stopped, or damaged, those whose
 * own headers can be read; `cut` is then true.
 */
export async function zipMembers(
  file: FileHandle,
): Promise<{ readonly members: readonly ZipMember[]; readonly cut: boolean }> {
  const { size } = await file.stat();
  const list = await listOf(file, size);
  const members = list ? listed(list) : null;
  const found = members ?? (await walked(file, size));
  return { members: [...new Map(found.map((member) => [member.name, member])).values()], cut: members === null };
}

/** The bytes of a member. Throws {@link BadZip} where they cannot be had, or are more than `limit`. */
export async function readMember(file: FileHandle, member: ZipMember, limit: number): Promise<Buffer> {
  const { method, packed, size, at, crc } = member;
  if (member.encrypted) throw new BadZip('it is encrypted');
  if (size > limit) throw new BadZip(`it has ${size} bytes, more than ${limit}`);
  const head = await bytesAt(file, at, 30);
  if (head.length < 30 || head.readUInt32LE(0) !== MEMBER) throw new BadZip('its header is not where the list says');
  const body = await bytesAt(
    file,
    at + 30 + head.readUInt16LE(26) + head.readUInt16LE(28),
    Math.min(packed, 2 * limit),
  );
  if (body.length < packed) throw new BadZip('the archive ends inside it');
  const bytes = unpacked(method, body, size);
  if (bytes.length !== size || crc32(bytes) !== crc) throw new BadZip('its bytes do not give its checksum');
  return bytes;
}

function unpacked(method: number, body: Buffer, size: number): Buffer {
  try {
    if (method === 0) return body;
    if (method === 8) return inflateRawSync(body, { maxOutputLength: Math.max(1, size) });
    if (method === 93) return Buffer.from(unzstd(body, size).buffer);
  } catch (error) {
    throw new BadZip(`it cannot be decompressed: ${(error as Error).message}`);
  }
  throw new BadZip(`its compression method is ${method}; stored (0), deflate (8) and zstd (93) are read`);
}

async function bytesAt(file: FileHandle, at: number, length: number): Promise<Buffer> {
  if (!Number.isSafeInteger(at)) return Buffer.alloc(0);
  const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, at);
  return buffer.subarray(0, bytesRead);
}

/** The list of members at the end of the archive; null where there is none. */
async function listOf(file: FileHandle, size: number): Promise<Buffer | null> {
  const from = Math.max(0, size - END_BYTES - MAX_COMMENT);
  const tail = await bytesAt(file, from, size - from);
  const end = tail.lastIndexOf(signature(END));
  if (end < 0 || end + END_BYTES > tail.length) return null;
  let length = tail.readUInt32LE(end + 12);
  let start = tail.readUInt32LE(end + 16);
  const where = end - 20;
  if (where >= 0 && tail.readUInt32LE(where) === WHERE_64) {
    const end64 = await bytesAt(file, Number(tail.readBigUInt64LE(where + 8)), 56);
    if (end64.length < 56 || end64.readUInt32LE(0) !== END_64) return null;
    length = Number(end64.readBigUInt64LE(40));
    start = Number(end64.readBigUInt64LE(48));
  }
  if (length > MAX_LIST_BYTES || start + length > size) return null;
  return bytesAt(file, start, length);
}

function signature(number: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(number);
  return bytes;
}

/** Null where the list is damaged. */
function listed(list: Buffer): ZipMember[] | null {
  const members: ZipMember[] = [];
  for (let at = 0; at < list.length; ) {
    if (at + 46 > list.length || list.readUInt32LE(at) !== LISTED) return null;
    const nameEnd = at + 46 + list.readUInt16LE(at + 28);
    const extraEnd = nameEnd + list.readUInt16LE(at + 30);
    if (extraEnd > list.length) return null;
    const [size, packed, place] = in64Bits(
      [list.readUInt32LE(at + 24), list.readUInt32LE(at + 20), list.readUInt32LE(at + 42)],
      list.subarray(nameEnd, extraEnd),
    );
    members.push({ ...described(list, at + 8, list.toString('utf8', at + 46, nameEnd)), size, packed, at: place });
    at = extraEnd + list.readUInt16LE(at + 32);
  }
  return members;
}

/** The fields that a header and the list have in the same order, from the flags on. */
const described = (bytes: Buffer, at: number, name: string) => ({
  name,
  encrypted: (bytes.readUInt16LE(at) & 1) !== 0,
  method: bytes.readUInt16LE(at + 2),
  crc: bytes.readUInt32LE(at + 8),
});

/** Size, packed size and place; each that does not fit stands in the extra field 1, in this order. */
function in64Bits([size, packed, place]: [number, number, number], extra: Buffer): [number, number, number] {
  let wide: Buffer = Buffer.alloc(0);
  for (let at = 0; at + 4 <= extra.length; at += 4 + extra.readUInt16LE(at + 2))
    if (extra.readUInt16LE(at) === 1) wide = extra.subarray(at + 4, at + 4 + extra.readUInt16LE(at + 2));
  let next = 0;
  const whole = (number: number): number => {
    if (number !== ELSEWHERE || next + 8 > wide.length) return number;
    next += 8;
    return Number(wide.readBigUInt64LE(next - 8));
  };
  return [whole(size), whole(packed), whole(place)];
}

/** The members that stand one after the other from the beginning, as far as their sizes are in their headers. */
async function walked(file: FileHandle, end: number): Promise<ZipMember[]> {
  const members: ZipMember[] = [];
  for (let at = 0; at + 30 <= end; ) {
    const head = await bytesAt(file, at, 30);
    const sizeFollows = (head.readUInt16LE(6) & 8) !== 0;
    if (head.readUInt32LE(0) !== MEMBER || sizeFollows) break;
    const nameEnd = 30 + head.readUInt16LE(26);
    const names = await bytesAt(file, at, nameEnd + head.readUInt16LE(28));
    const [size, packed] = in64Bits([head.readUInt32LE(22), head.readUInt32LE(18), at], names.subarray(nameEnd));
    if (at + names.length + packed > end) break;
    members.push({ ...described(head, 6, names.toString('utf8', 30, nameEnd)), size, packed, at });
    at += names.length + packed;
  }
  return members;
}
