/**
 * Archives in the format of POSIX ustar, which `tar` lists and unpacks, written and read from front to end. Sizes beyond 8 GiB and names
 * beyond 100 bytes are written as GNU tar writes them (https://www.gnu.org/software/tar/manual/html_node/Standard.html).
 */
import { TroupeError } from '../../../errors.ts';

const BLOCK = 512;
const LONGEST_NAME = 100;
const LARGEST_OCTAL = 0o77777777777;
const LONG_NAME = '././@LongLink';
/** Bytes of a name that is read. No system has longer ones, and a packed archive may hold gigabytes of one. */
const MOST_NAME = 64 * 1024;

export type TarEntry = {
  readonly name: string;
  readonly size: number;
  /** The bytes in order. They must be read to the end before the next entry is asked for. */
  readonly content: AsyncIterable<Buffer>;
};

/** What stands before the content of a file. */
export function entryHead(name: string, size: number): Buffer {
  const bytes = Buffer.from(name);
  if (bytes.length <= LONGEST_NAME) return header(bytes, size, '0');
  const long = Buffer.concat([bytes, Buffer.alloc(1)]);
  return Buffer.concat([
    header(Buffer.from(LONG_NAME), long.length, 'L'),
    long,
    padding(long.length),
    header(bytes.subarray(0, LONGEST_NAME), size, '0'),
  ]);
}

/** What stands after a content of this size. */
export const padding = (size: number): Buffer => Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);

/** The end of an archive. */
export const archiveEnd = (): Buffer => Buffer.alloc(2 * BLOCK);

function header(name: Buffer, size: number, kind: '0' | 'L'): Buffer {
  const block = Buffer.alloc(BLOCK);
  name.copy(block, 0);
  block.write('0000600\0', 100);
  block.write('0000000\0', 108);
  block.write('0000000\0', 116);
  if (size <= LARGEST_OCTAL) block.write(`${size.toString(8).padStart(11, '0')}\0`, 124);
  else {
    block[124] = 0x80;
    block.writeBigUInt64BE(BigInt(size), 128);
  }
  block.write('00000000000\0', 136);
  block.write('        ', 148);
  block.write(kind, 156);
  block.write('ustar\x0000', 257);
  block.write(`${sumOf(block).toString(8).padStart(6, '0')}\0 `, 148);
  return block;
}

/** The sum of all bytes, those of the sum itself counted as blanks. */
function sumOf(block: Buffer): number {
  let sum = 0;
  for (let i = 0; i < BLOCK; i++) sum += i >= 148 && i < 156 ? 32 : block[i]!;
  return sum;
}

/**
 * The entries of an archive, one after the other.
 * @throws TroupeError `dataset_damaged` for bytes that are no archive, and for one that ends early
 */
export async function* entriesOf(archive: AsyncIterable<Buffer>): AsyncGenerator<TarEntry, void, undefined> {
  const source = archive[Symbol.asyncIterator]();
  let held: Buffer = Buffer.alloc(0);
  const more = async (): Promise<boolean> => {
    const { done, value } = await source.next();
    if (done) return false;
    held = held.length === 0 ? value : Buffer.concat([held, value]);
    return true;
  };
  const take = async (size: number): Promise<Buffer> => {
    while (held.length < size) if (!(await more())) throw damaged('it ends early');
    const taken = held.subarray(0, size);
    held = held.subarray(size);
    return taken;
  };
  async function* contentOf(size: number): AsyncGenerator<Buffer, void, undefined> {
    for (let left = size; left > 0; ) {
      if (held.length === 0 && !(await more())) throw damaged('it ends early');
      const piece = held.subarray(0, left);
      held = held.subarray(piece.length);
      left -= piece.length;
      yield piece;
    }
    await take(padding(size).length);
  }

  for (let longName: string | null = null; ; ) {
    const block = await take(BLOCK);
    if (block.every((byte) => byte === 0)) return;
    const sum = Number.parseInt(block.toString('latin1', 148, 156), 8);
    if (sum !== sumOf(block)) throw damaged('a header is not one of an archive');
    const size = block[124] === 0x80 ? Number(block.readBigUInt64BE(128)) : Number.parseInt(text(block, 124, 12), 8);
    if (!Number.isSafeInteger(size) || size < 0) throw damaged('a header names no size');
    if (block[156] === 'L'.charCodeAt(0)) {
      if (size > MOST_NAME) throw damaged(`a name has ${size} bytes`);
      longName = (await take(size)).toString('utf8', 0, size - 1);
      await take(padding(size).length);
      continue;
    }
    const name: string = longName ?? text(block, 0, LONGEST_NAME);
    longName = null;
    yield { name, size, content: contentOf(size) };
  }
}

function text(block: Buffer, from: number, length: number): string {
  const end = block.indexOf(0, from);
  return block.toString('utf8', from, end < 0 || end > from + length ? from + length : end);
}

export const damaged = (why: string): TroupeError =>
  new TroupeError(
    'dataset_damaged',
    `The backup cannot be read: ${why.replaceAll(/\s+/g, ' ')}. Nothing was restored; take another copy of it.`,
  );
