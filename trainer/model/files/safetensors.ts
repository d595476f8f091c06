/**
 * Tensors in a file that runs no code: 8 bytes of header length, a JSON header, then the bytes of every tensor, row-major
 * and little-endian. Here as a pure function each way between tensors and bytes; `safetensors-file.ts` reads from disk.
 * Format: huggingface/safetensors README.md.
 */
import { got, TroupeError } from '../../../errors.ts';
import type { Tensor, Weights } from '../weights.ts';
import { narrow, overflowing, widen } from './half-floats.ts';
import {
  BYTES,
  type Dtype,
  damagedTensors,
  elements,
  headerLength,
  readHeader,
  writeHeader,
} from './safetensors-header.ts';

export type SafetensorsFile = { readonly tensors: Weights; readonly metadata: Readonly<Record<string, string>> };

export type SafetensorsOptions = {
  /** Has `format: "pt"`, without which transformers refuses the file, unless it says otherwise itself. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** How values are stored; F32 if left out. The 16-bit types round to the nearest, ties to even. */
  readonly dtype?: Dtype;
  /** Sees every piece of a tensor, which begins at its value `at`, before it is stored; may throw. */
  readonly check?: (name: string, values: Float32Array, at: number) => void;
};

/** Values checked, converted and hashed in one go: 1 MiB of F32, which stays in the processor's cache. */
const CHUNK = 1 << 18;

/**
 * A safetensors file in parts, with the tensors in the map's order: the header, then pieces of at most 1 MiB, each made
 * when it is asked for. F32 pieces are the tensors' own memory, so nothing is copied and nothing may change meanwhile.
 * Throws `checkpoint_damaged` where a tensor's shape does not fit its data, and while it is read `model_unsupported`
 * where a 16-bit type would make an infinity of a finite value.
 */
export function safetensorsParts(
  tensors: Weights,
  { metadata = {}, dtype = 'F32', check }: SafetensorsOptions = {},
): Iterable<Uint8Array> {
  for (const [name, { shape, data }] of tensors) {
    if (elements(name, shape) !== data.length) {
      throw damagedTensors(`tensor ${got(name)} has shape [${shape}] but ${data.length} values`);
    }
  }
  const named = [...tensors].map(([name, { shape }]) => [name, dtype, shape] as const);
  const header = writeHeader(named, { format: 'pt', ...metadata });
  return {
    *[Symbol.iterator]() {
      yield header;
      for (const [name, { data }] of tensors) {
        for (let at = 0; at < data.length; at += CHUNK) {
          const values = data.subarray(at, at + CHUNK);
          check?.(name, values, at);
          yield stored(name, dtype, values);
        }
      }
    },
  };
}

function stored(name: string, dtype: Dtype, values: Float32Array): Uint8Array {
  if (dtype !== 'F32') {
    const at = overflowing(dtype, values);
    if (at >= 0) {
      throw new TroupeError('model_unsupported', `Tensor ${got(name)} holds ${values[at]}, too large for ${dtype}.`, {
        expected: `values that ${dtype} can hold`,
        got: String(values[at]),
        hint: dtype === 'F16' ? 'Store it as BF16 or F32, which hold larger values.' : 'Store it as F32.',
      });
    }
  }
  const { buffer, byteOffset, byteLength } = dtype === 'F32' ? values : narrow(dtype, values);
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** The bytes of a safetensors file: `safetensorsParts` in one piece, and throws as it does. */
export const encodeSafetensors = (tensors: Weights, options: SafetensorsOptions = {}): Uint8Array =>
  joined(safetensorsParts(tensors, options));

/** Parts in one piece of memory of its own. */
export function joined(parts: Iterable<Uint8Array>): Uint8Array {
  const all = [...parts];
  const bytes = new Uint8Array(all.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of all) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/**
 * Reads F32, F16 and BF16 tensors as 32-bit floats, in the order of the header. Each tensor owns its memory.
 * Nothing is allocated for a tensor before the whole header has been checked against the file's length.
 * Throws `checkpoint_damaged` naming what is wrong; another dtype or kind of file is `model_unsupported`.
 */
export function decodeSafetensors(file: Uint8Array): SafetensorsFile {
  const length = headerLength(file, file.length);
  const { slots, metadata } = readHeader(file.subarray(8, 8 + length), file.length);
  const tensors = new Map<string, Tensor>();
  for (const { name, dtype, shape, begin, end } of slots) {
    const data = new Float32Array((end - begin) / BYTES[dtype]);
    if (dtype === 'F32') new Uint8Array(data.buffer).set(file.subarray(begin, end));
    else widen(dtype, new Uint16Array(Uint8Array.from(file.subarray(begin, end)).buffer), data);
    tensors.set(name, { shape, data });
  }
  return { tensors, metadata };
}
