/** Zstandard, which zlib of Node 20 does not read. */
import { decompress } from 'fzstd';

/** What was compressed, of one frame or several; `size` is how many bytes it has. Throws where the bytes are no such frames. */
export const unzstd = (bytes: Uint8Array, size: number): Uint8Array => decompress(bytes, new Uint8Array(size));
