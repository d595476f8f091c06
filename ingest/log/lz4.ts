/**
 * LZ4 frames, in which producers of Kafka send batches and every reader of Arrow takes compressed columns (lz4_Frame_format.md 1.6.4 and
 * lz4_Block_format.md of the LZ4 project). Written in TypeScript: Node has no LZ4, and the same bytes in give the same bytes out everywhere.
 */
import { TroupeError } from '../../errors.ts';

/** The mark, version 1 with independent blocks and no checksums, blocks of up to 4 MiB, and the second byte of XXH32 of these two. */
const HEADER = Uint8Array.of(0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73);
const BLOCK = 4 * 1024 * 1024;
const STORED = 0x8000_0000;

const SHORTEST = 4;
const FARTHEST = 65_535;
/** A match begins so many bytes before the end of a block, and ends so many before it. */
const [LAST_BEGIN, LAST_END] = [12, 5];
const TABLE_BITS = 14;

/** Room for a block that does not repeat, and its length. Room for a whole column each time made V8 collect garbage a few times in each batch. */
const room = Buffer.allocUnsafeSlow(4 + BLOCK + Math.ceil(BLOCK / 255) + 16);

/** @returns the frame that holds `bytes` */
export function toLz4(bytes: Uint8Array): Uint8Array {
  const parts: Uint8Array[] = [HEADER];
  for (let from = 0; from < bytes.length; from += BLOCK) {
    const block = bytes.subarray(from, from + BLOCK);
    const end = writeBlock(block, room, 4);
    const isSmaller = end - 4 < block.length;
    room.writeUInt32LE(isSmaller ? end - 4 : block.length + STORED);
    if (isSmaller) parts.push(Buffer.from(room.subarray(0, end)));
    else parts.push(Buffer.from(room.subarray(0, 4)), block);
  }
  parts.push(new Uint8Array(4));
  return Buffer.concat(parts);
}

const places = new Int32Array(1 << TABLE_BITS);
/** Below this many bytes a loop is faster than a copy by the runtime. */
const SHORT = 64;

/** What goes on alike for so many bytes is compared by the runtime, so many at a time. */
const PIECE = 256;

/** Greedy: of each four bytes the last place is known, and what goes on alike there is a match. @returns where the block ends */
function writeBlock(from: Uint8Array, out: Uint8Array, start: number): number {
  places.fill(-1);
  const view = new DataView(from.buffer, from.byteOffset, from.length);
  const four = (i: number) => view.getInt32(i, true);
  const bytes = Buffer.from(from.buffer, from.byteOffset, from.length);
  /** Whether a piece is the same at both places. */
  const alike = (i: number, before: number) => bytes.compare(bytes, before, before + PIECE, i, i + PIECE) === 0;
  let at = start;
  const length = (rest: number) => {
    for (; rest >= 255; rest -= 255) out[at++] = 255;
    out[at++] = rest;
  };
  const sequence = (anchor: number, end: number, match: number, offset: number) => {
    const literals = end - anchor;
    const more = match - SHORTEST;
    out[at++] = (Math.min(literals, 15) << 4) | (offset === 0 ? 0 : Math.min(more, 15));
    if (literals >= 15) length(literals - 15);
    if (literals < SHORT) for (let i = anchor; i < end; i++) out[at++] = from[i]!;
    else {
      out.set(from.subarray(anchor, end), at);
      at += literals;
    }
    if (offset === 0) return;
    out[at++] = offset & 255;
    out[at++] = offset >> 8;
    if (more >= 15) length(more - 15);
  };
  let [anchor, misses] = [0, 64];
  for (let i = 0; i <= from.length - LAST_BEGIN; ) {
    const here = four(i);
    const slot = Math.imul(here, 0x9e37_79b1) >>> (32 - TABLE_BITS);
    const before = places[slot]!;
    places[slot] = i;
    if (before < 0 || i - before > FARTHEST || four(before) !== here) {
      // What does not repeat is passed in ever longer steps.
      i += misses++ >> 6;
      continue;
    }
    let match = SHORTEST;
    const near = Math.min(i + PIECE, from.length - LAST_BEGIN);
    while (i + match < near && four(i + match) === four(before + match)) match += 4;
    if (match === PIECE) {
      while (i + match + PIECE <= from.length - LAST_END && alike(i + match, before + match)) match += PIECE;
      while (i + match < from.length - LAST_BEGIN && four(i + match) === four(before + match)) match += 4;
    }
    while (i + match < from.length - LAST_END && from[i + match] === from[before + match]) match++;
    sequence(anchor, i, match, i - before);
    i += match;
    [anchor, misses] = [i, 64];
  }
  sequence(anchor, from.length, 0, 0);
  return at;
}

/**
 * @param most bytes that the frame may hold
 * @returns what a frame without dictionary holds, whoever wrote it; checksums are not verified
 * @throws TroupeError `internal` for bytes that are none, `too_large` where they hold more
 */
export function fromLz4(frame: Uint8Array, most = Number.POSITIVE_INFINITY): Uint8Array {
  const bytes = Buffer.from(frame.buffer, frame.byteOffset, frame.length);
  const flags = bytes[4] ?? 0;
  if (!HEADER.subarray(0, 4).every((one, i) => bytes[i] === one) || flags >> 6 !== 1 || (flags & 1) === 1)
    throw damaged();
  const checksum = (flags & 16) === 0 ? 0 : 4;
  let out = Buffer.alloc(4 * frame.length);
  let [at, end] = [HEADER.length + ((flags & 8) === 0 ? 0 : 8), 0];
  const room = (more: number) => {
    if (end + more > most) throw new TroupeError('too_large', `The frame of LZ4 holds more than ${most} bytes.`);
    if (end + more > out.length) out = Buffer.concat([out], Math.max(2 * out.length, end + more));
  };
  for (;;) {
    if (at + 4 > bytes.length) throw damaged();
    const size = bytes.readUInt32LE(at);
    if (size === 0) return out.subarray(0, end);
    const block = bytes.subarray(at + 4, at + 4 + (size & ~STORED));
    at += 4 + (size & ~STORED) + checksum;
    if (size >= STORED) {
      room(block.length);
      out.set(block, end);
      end += block.length;
    } else readBlock(block);
  }

  function readBlock(block: Uint8Array): void {
    let i = 0;
    const length = (nibble: number): number => {
      let sum = nibble;
      if (nibble < 15) return sum;
      for (;;) {
        const more = block[i++] ?? 0;
        sum += more;
        if (more < 255) return sum;
      }
    };
    while (i < block.length) {
      const token = block[i++]!;
      const literals = length(token >> 4);
      if (i + literals > block.length) throw damaged();
      room(literals);
      out.set(block.subarray(i, i + literals), end);
      i += literals;
      end += literals;
      if (i === block.length) return;
      const offset = block[i]! | ((block[i + 1] ?? 0) << 8);
      i += 2;
      const match = SHORTEST + length(token & 15);
      if (offset === 0 || offset > end) throw damaged();
      room(match);
      // Byte by byte: what a match repeats may be written by itself.
      for (let n = 0; n < match; n++, end++) out[end] = out[end - offset]!;
    }
  }
}

const damaged = (): TroupeError => new TroupeError('internal', 'The bytes are no frame of LZ4, or a damaged one.');
