/**
 * Snappy, in which many producers of Kafka send their batches (format_description.txt of google/snappy). Blocks may stand one after the
 * other as snappy-java writes them: a mark, two versions in 4 bytes each, then each block behind its length in 4 bytes, the highest first.
 */
import { TroupeError } from '../../errors.ts';

const MARK = Buffer.from([0x82, ...Buffer.from('SNAPPY'), 0]);
const HEADER_BYTES = MARK.length + 8;

/**
 * @param most bytes that they may hold
 * @returns what the bytes hold
 * @throws TroupeError `internal` for bytes that are not of Snappy, `too_large` where they hold more
 */
export function unsnappy(bytes: Uint8Array, most = Number.POSITIVE_INFINITY): Buffer {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  if (!all.subarray(0, MARK.length).equals(MARK)) return readBlock(all, most);
  const blocks: Buffer[] = [];
  let held = 0;
  for (let at = HEADER_BYTES; at < all.length; ) {
    if (at + 4 > all.length) throw damaged();
    const end = at + 4 + all.readUInt32BE(at);
    if (end > all.length) throw damaged();
    const block = readBlock(all.subarray(at + 4, end), most - held);
    blocks.push(block);
    held += block.length;
    at = end;
  }
  return Buffer.concat(blocks);
}

function readBlock(block: Buffer, most: number): Buffer {
  let at = 0;
  /** A number in so many bytes, the lowest first. */
  const number = (bytes: number): number => {
    if (at + bytes > block.length) throw damaged();
    at += bytes;
    return block.readUIntLE(at - bytes, bytes);
  };
  let size = 0;
  for (let shift = 1; ; shift *= 128) {
    const byte = number(1);
    size += (byte & 127) * shift;
    if (byte < 128) break;
    if (shift > 2 ** 28) throw damaged();
  }
  // No element of 3 bytes gives more than 64, so a length beyond that is not allocated.
  if (size > 64 * block.length) throw damaged();
  if (size > most) throw new TroupeError('too_large', `The bytes of Snappy hold more than ${most} bytes.`);
  const out = Buffer.alloc(size);
  let end = 0;
  while (at < block.length) {
    const tag = number(1);
    const kind = tag & 3;
    if (kind === 0) {
      const short = tag >> 2;
      const length = 1 + (short < 60 ? short : number(short - 59));
      if (at + length > block.length || end + length > size) throw damaged();
      out.set(block.subarray(at, at + length), end);
      at += length;
      end += length;
      continue;
    }
    const length = kind === 1 ? 4 + ((tag >> 2) & 7) : 1 + (tag >> 2);
    const offset = kind === 1 ? ((tag >> 5) << 8) | number(1) : number(kind === 2 ? 2 : 4);
    if (offset === 0 || offset > end || end + length > size) throw damaged();
    // Byte by byte: what is repeated may be written by itself.
    for (let n = 0; n < length; n++, end++) out[end] = out[end - offset]!;
  }
  if (end !== size) throw damaged();
  return out;
}

const damaged = (): TroupeError => new TroupeError('internal', 'The bytes are not of Snappy, or damaged.');
