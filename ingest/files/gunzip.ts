/** Files that were packed with gzip or Zstandard, read as what they hold. */
import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { unzstdEach } from '../log/zstd.ts';

const isGzip = (head: Uint8Array): boolean => head[0] === 0x1f && head[1] === 0x8b;
const isZstd = (head: Buffer): boolean => head.length >= 4 && head.readUInt32LE(0) === 0xfd2fb528;

/**
 * The bytes as they are, or unpacked where they are gzip or Zstandard. What stands before a fault is yielded first; then `onFault` is called, so
 * that a file that was cut off is not taken for a whole one.
 */
export async function* unpacked(
  chunks: AsyncGenerator<Buffer>,
  onFault: (fault: string) => void = () => {},
): AsyncGenerator<Buffer> {
  try {
    const { value: head, done } = await chunks.next();
    if (done) return;
    if (isGzip(head)) yield* inflated(head, chunks, onFault);
    else if (isZstd(head)) yield* unframed(head, chunks, onFault);
    else {
      yield head;
      yield* chunks;
    }
  } finally {
    // Whoever reads on no further closes the file, wherever it stands.
    await chunks.return(undefined);
  }
}

async function* joined(head: Buffer, rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  yield head;
  yield* rest;
}

async function* unframed(
  head: Buffer,
  rest: AsyncGenerator<Buffer>,
  onFault: (fault: string) => void,
): AsyncGenerator<Buffer> {
  try {
    yield* unzstdEach(joined(head, rest));
  } catch (error) {
    onFault((error as Error).message);
  }
}

async function* inflated(
  head: Buffer,
  rest: AsyncGenerator<Buffer>,
  onFault: (fault: string) => void,
): AsyncGenerator<Buffer> {
  const gunzip = createGunzip();
  Readable.from(joined(head, rest))
    .on('error', (error) => gunzip.destroy(error))
    .pipe(gunzip);
  try {
    for await (const chunk of gunzip) yield chunk as Buffer;
  } catch (error) {
    onFault((error as Error).message);
  } finally {
    gunzip.destroy();
  }
}
