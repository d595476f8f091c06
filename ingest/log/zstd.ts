/** Zstandard, which zlib of Node 20 does not read. */
import { Decompress, decompress } from 'fzstd';

/** What was compressed, of one frame or several; `size` is how many bytes it has, where that is known. Throws where the bytes are no such frames. */
export const unzstd = (bytes: Uint8Array, size?: number): Uint8Array =>
  decompress(bytes, size === undefined ? undefined : new Uint8Array(size));

/** Bytes that are unpacked at a time: what repeats may become 32,000 times as long. */
const PIECE = 4096;

/** The same of a stream. Throws where the bytes are no such frames, or end within one, after what stands before the fault. */
export async function* unzstdEach(chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): AsyncGenerator<Buffer> {
  const out: Buffer[] = [];
  const frames = new Decompress((bytes) => {
    if (bytes.length > 0) out.push(Buffer.from(bytes));
  });
  try {
    for await (const chunk of chunks) {
      for (let at = 0; at < chunk.length; at += PIECE) {
        frames.push(chunk.subarray(at, at + PIECE));
        yield* out.splice(0);
      }
    }
    frames.push(new Uint8Array(0), true);
  } catch (error) {
    yield* out.splice(0);
    throw error;
  }
  yield* out.splice(0);
}
