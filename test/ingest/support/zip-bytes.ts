/** A ZIP archive of stored members; `wide` writes sizes and places in the 64-bit fields that large archives use. */
import { crc32 } from 'node:zlib';

const FULL = 0xffffffff;

export function zipBytes(members: Readonly<Record<string, string>>, wide = false): Buffer {
  const bodies: Buffer[] = [];
  const list: Buffer[] = [];
  let at = 0;
  for (const [name, text] of Object.entries(members)) {
    const body = Buffer.from(text);
    const extra = wide ? wideField(body.length, body.length, at) : Buffer.alloc(0);
    const known = Buffer.concat([
      u16(0, 0, 0, 0),
      u32(crc32(body), ...(wide ? [FULL, FULL] : [body.length, body.length])),
    ]);
    const names = u16(Buffer.byteLength(name), extra.length);
    const local = Buffer.concat([u32(0x04034b50), u16(45), known, names, Buffer.from(name), extra, body]);
    const place = u32(wide ? FULL : at);
    list.push(
      Buffer.concat([u32(0x02014b50), u16(45, 45), known, names, u16(0, 0, 0, 0, 0), place, Buffer.from(name), extra]),
    );
    bodies.push(local);
    at += local.length;
  }
  const listed = Buffer.concat(list);
  const end64 = Buffer.concat([
    u32(0x06064b50),
    u64(44),
    u16(45, 45),
    u32(0, 0),
    u64(list.length, list.length, listed.length, at),
  ]);
  const where64 = Buffer.concat([u32(0x07064b50, 0), u64(at + listed.length), u32(1)]);
  const end = Buffer.concat([
    u32(0x06054b50),
    u16(0, 0, list.length, list.length),
    u32(wide ? FULL : listed.length, wide ? FULL : at),
    u16(0),
  ]);
  return Buffer.concat([...bodies, listed, ...(wide ? [end64, where64] : []), end]);
}

const wideField = (...numbers: number[]): Buffer => Buffer.concat([u16(1, 8 * numbers.length), u64(...numbers)]);

const u16 = (...numbers: number[]): Buffer => Buffer.from(new Uint16Array(numbers).buffer);
const u32 = (...numbers: number[]): Buffer => Buffer.from(new Uint32Array(numbers).buffer);
const u64 = (...numbers: number[]): Buffer => Buffer.from(new BigUint64Array(numbers.map(BigInt)).buffer);
