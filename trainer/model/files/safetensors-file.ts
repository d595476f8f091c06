/** A safetensors file on disk, read once: its header first, checked as a whole against the file's size, then each tensor into its own memory. */
import { createHash } from 'node:crypto';
import { TroupeError } from '../../../errors.ts';
import type { Tensor } from '../weights.ts';
import type { FileFacts } from './atomic.ts';
import { widen } from './half-floats.ts';
import { fill, hashFile, type OpenFile, type Target, withFile } from './read-file.ts';
import type { SafetensorsFile } from './safetensors.ts';
import { BYTES, type Header, headerLength, readHeader, type Slot } from './safetensors-header.ts';
import { SNIFFED_BYTES } from './sniff.ts';

/**
 * Reads F32, F16 and BF16 tensors as 32-bit floats, in the order of the header, and hashes the file on the way. Memory is
 * that of the tensors and 3 MiB; a file that is refused costs no more than its header, at most 16 MiB.
 * Throws `not_found`, `checkpoint_damaged` naming what is wrong, `model_unsupported` for another dtype or kind of file.
 * With `expected`, a file that is not that one is refused with `mismatch`, whatever its header contains.
 */
export const readSafetensorsFile = (
  path: string,
  options: {
    /** What the file must be. Its size is compared before anything is read, its hash before anything is given out. */
    readonly expected?: FileFacts;
    /** Makes the error for a file that is not what was expected. */
    readonly mismatch?: (found: FileFacts) => TroupeError;
  } = {},
): Promise<SafetensorsFile & { readonly facts: FileFacts }> =>
  withFile(path, async (open) => {
    const { expected, mismatch = defaultMismatch } = options;
    const refused = (facts: FileFacts): boolean => expected !== undefined && facts.sha256 !== expected.sha256;
    if (expected && open.bytes !== expected.bytes) throw mismatch({ bytes: open.bytes, sha256: '' });
    const hash = createHash('sha256');
    const header = await openHeader(open, hash).catch(async (error) => {
      // A damaged file is called damaged, not what its damage made of its header.
      const facts = expected ? await hashFile(path) : null;
      throw facts && refused(facts) ? mismatch(facts) : error;
    });
    const tensors = await readTensors(open, header, hash);
    const facts = { bytes: open.bytes, sha256: hash.digest('hex') };
    if (refused(facts)) throw mismatch(facts);
    return { tensors, metadata: header.metadata, facts };
  });

const defaultMismatch = ({ bytes, sha256 }: FileFacts): TroupeError =>
  new TroupeError(
    'checkpoint_damaged',
    `The file has ${bytes} bytes and the SHA-256 ${sha256}, which is not the one named.`,
  );

type Hash = ReturnType<typeof createHash>;

async function openHeader({ file, bytes }: OpenFile, hash: Hash): Promise<Header & { readonly start: number }> {
  const first = new Uint8Array(Math.min(SNIFFED_BYTES, bytes));
  await fill(file, 0, [{ into: first }], () => {});
  const header = new Uint8Array(headerLength(first, bytes));
  hash.update(first.subarray(0, 8));
  await fill(file, 8, [{ into: header }], (part) => hash.update(part));
  return { ...readHeader(header, bytes), start: 8 + header.length };
}

async function readTensors(
  { file }: OpenFile,
  { slots, start }: Header & { readonly start: number },
  hash: Hash,
): Promise<Map<string, Tensor>> {
  const read = new Map<string, Float32Array>();
  await fill(file, start, targets(slots, read), (part) => hash.update(part));
  return new Map(slots.map(({ name, shape }) => [name, { shape, data: read.get(name)! }]));
}

/** Values read in one go, so that the hash of one piece and the read of the next run beside each other. */
const PIECE = 1 << 18;

/** Where the bytes of each tensor go, in the order of the file: F32 into place, 16-bit values through a block and widened. */
function* targets(slots: readonly Slot[], read: Map<string, Float32Array>): Generator<Target> {
  for (const { name, dtype, begin, end } of slots.toSorted((a, b) => a.begin - b.begin)) {
    const data = new Float32Array((end - begin) / BYTES[dtype]);
    read.set(name, data);
    for (let at = 0; at < data.length; at += PIECE) {
      const values = data.subarray(at, at + PIECE);
      if (dtype === 'F32') yield { into: new Uint8Array(values.buffer, values.byteOffset, values.byteLength) };
      else {
        const halves = new Uint16Array(values.length);
        yield { into: new Uint8Array(halves.buffer), filled: () => widen(dtype, halves, values) };
      }
    }
  }
}
