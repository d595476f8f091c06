/**
 * Tensors in a file that runs no code: 8 bytes of header length, a JSON header, then the bytes of every tensor, row-major
 * and little-endian. A header is data from a stranger, so each claim it makes is checked before any memory is spent on it.
 * Format: huggingface/safetensors README.md.
 */
import { got, TroupeError } from '../errors.ts';
import type { Tensor, Weights } from './weights.ts';

/** The format's own limit; what is larger is an attack or a mistake. */
const MAX_HEADER_BYTES = 100_000_000;

const BYTES = { F32: 4, F16: 2, BF16: 2 } as const;
type Dtype = keyof typeof BYTES;

const damaged = (what: string): TroupeError =>
  new TroupeError('checkpoint_damaged', `This is not a sound safetensors file: ${what}.`, {
    expected: 'a safetensors file whose header describes every byte after it exactly once',
    got: what,
    hint: 'Fetch or save the file again, or use the checkpoint before it.',
  });

export type SafetensorsFile = { readonly tensors: Weights; readonly metadata: Readonly<Record<string, string>> };

/**
 * The bytes of a safetensors file with F32 tensors in the map's order; the data starts at a multiple of 8.
 * `metadata` has `format: "pt"`, without which transformers refuses the file, unless it says otherwise itself.
 * Throws `checkpoint_damaged` where a tensor's shape does not fit its data.
 */
export function encodeSafetensors(
  tensors: Weights,
  { metadata = {} }: { readonly metadata?: Readonly<Record<string, string>> } = {},
): Uint8Array {
  const entries: [string, unknown][] = [['__metadata__', { format: 'pt', ...metadata }]];
  let end = 0;
  for (const [name, { shape, data }] of tensors) {
    if (name === '__metadata__') throw damaged('a tensor cannot be named __metadata__');
    if (elements(name, shape) !== data.length) {
      throw damaged(`tensor ${got(name)} has shape [${shape}] but ${data.length} values`);
    }
    entries.push([name, { dtype: 'F32', shape, data_offsets: [end, end + data.byteLength] }]);
    end += data.byteLength;
  }
  const json = new TextEncoder().encode(JSON.stringify(Object.fromEntries(entries)));
  const header = Math.ceil(json.length / 8) * 8;
  if (header > MAX_HEADER_BYTES) throw damaged(`its header would be ${header} bytes; ${MAX_HEADER_BYTES} are allowed`);
  const file = new Uint8Array(8 + header + end).fill(0x20, 8 + json.length, 8 + header);
  new DataView(file.buffer).setBigUint64(0, BigInt(header), true);
  file.set(json, 8);
  let at = 8 + header;
  for (const { data } of tensors.values()) {
    file.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
    at += data.byteLength;
  }
  return file;
}

/**
 * Reads F32, F16 and BF16 tensors as 32-bit floats, in the order of the header. Each tensor owns its memory.
 * Nothing is allocated for a tensor before the whole header has been checked against the file's length.
 * Throws `checkpoint_damaged` naming what is wrong; another dtype is `model_unsupported`.
 */
export function decodeSafetensors(file: Uint8Array): SafetensorsFile {
  if (file.length < 8) throw damaged(`it has ${file.length} bytes, fewer than the 8 of the header's length`);
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const announced = view.getBigUint64(0, true);
  if (announced > BigInt(MAX_HEADER_BYTES)) {
    throw damaged(`its header claims ${announced} bytes; at most ${MAX_HEADER_BYTES} are allowed`);
  }
  const headerLength = Number(announced);
  if (8 + headerLength > file.length) {
    throw damaged(`its header claims ${headerLength} bytes and only ${file.length - 8} follow`);
  }
  const header = readHeader(file.subarray(8, 8 + headerLength));
  const start = 8 + headerLength;
  const entries = Object.entries(header).filter(([name]) => name !== '__metadata__');
  const parts = entries.map(([name, entry]) => readEntry(name, entry));
  checkCoverage(parts, file.length - start);
  const tensors = new Map<string, Tensor>();
  for (const { name, dtype, shape, begin, end } of parts) {
    const bytes = new Uint8Array(end - begin);
    bytes.set(file.subarray(start + begin, start + end));
    tensors.set(name, { shape, data: toFloats(dtype, bytes.buffer) });
  }
  return { tensors, metadata: readMetadata(header.__metadata__) };
}

type Part = {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly begin: number;
  readonly end: number;
};

function readHeader(bytes: Uint8Array): Record<string, unknown> {
  if (bytes[0] !== 0x7b) throw damaged('its header does not start with {');
  let header: unknown;
  let twice: string | null;
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    twice = duplicateKey(text);
    header = JSON.parse(text);
  } catch (cause) {
    throw cause instanceof TroupeError ? cause : damaged(`its header is not JSON (${(cause as Error).message})`);
  }
  if (twice !== null) throw damaged(`its header names ${got(twice)} twice`);
  return header as Record<string, unknown>;
}

/**
 * The first key that occurs twice in one object, or null. `JSON.parse` keeps the last silently, other readers the first,
 * so a file with such a key would mean different weights to different programs. Brackets are counted before anything is
 * parsed, so a header of nothing but brackets costs no memory.
 */
function duplicateKey(json: string): string | null {
  const open: Set<string>[] = [];
  for (let i = 0; i < json.length; i++) {
    const c = json[i];
    if (c === '{' || c === '[') {
      open.push(new Set());
      if (open.length > 4) throw damaged('its header is nested too deeply');
    } else if (c === '}' || c === ']') open.pop();
    else if (c === '"') {
      const begin = i++;
      while (i < json.length && json[i] !== '"') i += json[i] === '\\' ? 2 : 1;
      let next = i + 1;
      while (next < json.length && ' \t\n\r'.includes(json[next]!)) next++;
      if (json[next] !== ':') continue;
      const key = JSON.parse(json.slice(begin, i + 1)) as string;
      const keys = open.at(-1);
      if (keys?.has(key)) return key;
      keys?.add(key);
    }
  }
  return null;
}

function readMetadata(value: unknown): Readonly<Record<string, string>> {
  if (value === undefined) return {};
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw damaged(`__metadata__ is ${got(value)} and not an object`);
  }
  for (const [key, text] of Object.entries(value)) {
    if (typeof text !== 'string') throw damaged(`__metadata__.${key} is ${got(text)} and not a string`);
  }
  return value as Record<string, string>;
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

function readEntry(name: string, entry: unknown): Part {
  const { dtype, shape, data_offsets: offsets, ...rest } = (entry ?? {}) as Record<string, unknown>;
  const label = `tensor ${got(name)}`;
  if (typeof dtype !== 'string') throw damaged(`${label} has no dtype`);
  if (!Array.isArray(shape) || !shape.every(isCount)) throw damaged(`${label} has the shape ${got(shape)}`);
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isCount)) {
    throw damaged(`${label} has the data_offsets ${got(offsets)}`);
  }
  const unknown = Object.keys(rest)[0];
  if (unknown !== undefined) throw damaged(`${label} has the unknown field ${got(unknown)}`);
  if (!Object.hasOwn(BYTES, dtype)) {
    throw new TroupeError('model_unsupported', `${label} is stored as ${got(dtype)}; F32, F16 and BF16 can be read.`, {
      expected: 'F32, F16 or BF16',
      got: dtype,
      hint: 'Convert the weights to F32 first, for example with transformers: model.float().save_pretrained(DIR).',
    });
  }
  const [begin, end] = offsets as [number, number];
  const bytes = elements(name, shape) * BYTES[dtype as Dtype];
  if (!Number.isSafeInteger(bytes)) throw damaged(`${label} has a shape too large to count`);
  if (end - begin !== bytes) {
    throw damaged(`${label} of shape [${shape}] needs ${bytes} bytes and its data_offsets hold ${end - begin}`);
  }
  return { name, dtype: dtype as Dtype, shape, begin, end };
}

/** Product of a shape; a product that no longer is an exact integer is refused, also where a later dimension is 0. */
function elements(name: string, shape: readonly number[]): number {
  let product = 1;
  for (const dimension of shape) {
    product *= dimension;
    if (!Number.isSafeInteger(product)) throw damaged(`tensor ${got(name)} has a shape too large to count`);
  }
  return product;
}

/** Every byte of the data belongs to exactly one tensor: no hole, no overlap, nothing left over. */
function checkCoverage(parts: readonly Part[], available: number): void {
  let covered = 0;
  for (const { name, begin, end } of parts.toSorted((a, b) => a.begin - b.begin || a.end - b.end)) {
    if (begin < covered) throw damaged(`tensor ${got(name)} overlaps the tensor before it`);
    if (begin > covered) throw damaged(`there is a hole of ${begin - covered} bytes before tensor ${got(name)}`);
    covered = end;
  }
  if (covered > available) throw damaged(`its tensors need ${covered} bytes and ${available} follow the header`);
  if (covered < available) throw damaged(`${available - covered} bytes follow the last tensor`);
}

function toFloats(dtype: Dtype, bytes: ArrayBuffer): Float32Array {
  if (dtype === 'F32') return new Float32Array(bytes);
  const halves = new Uint16Array(bytes);
  const bits = new Uint32Array(halves.length);
  if (dtype === 'BF16') for (let i = 0; i < halves.length; i++) bits[i] = halves[i]! << 16;
  else for (let i = 0; i < halves.length; i++) bits[i] = halfToFloatBits(halves[i]!);
  return new Float32Array(bits.buffer);
}

/** IEEE 754 binary16 to the bits of binary32, subnormals and NaN payloads included. */
function halfToFloatBits(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0x1f) return sign | 0x7f800000 | (fraction << 13);
  if (exponent > 0) return sign | ((exponent + 112) << 23) | (fraction << 13);
  if (fraction === 0) return sign;
  const shift = Math.clz32(fraction) - 21;
  return sign | ((113 - shift) << 23) | (((fraction << shift) & 0x3ff) << 13);
}
