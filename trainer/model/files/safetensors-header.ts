/**
 * The header of a safetensors file: what it may say, and where it says the tensors lie. A header is data from a stranger,
 * so it is read entry by entry, each checked before the next, and costs memory in proportion to what was found sound.
 * Format: huggingface/safetensors README.md.
 */
import { got, TroupeError } from '../../../errors.ts';
import { sniffFile } from './sniff.ts';

/**
 * The format allows 100 MB of header, which is a gigabyte once it is objects. These limits hold 50,000 tensors with names
 * of 200 characters, more than any single file of a published model, in less than 64 MB.
 */
const MAX_HEADER_BYTES = 16 * 1024 * 1024;
const MAX_TENSORS = 50_000;
const MAX_ENTRY_BYTES = 4096;
const MAX_METADATA_BYTES = 1024 * 1024;

export const BYTES = { F32: 4, F16: 2, BF16: 2 } as const;
export type Dtype = keyof typeof BYTES;

/** Where one tensor lies: bytes `begin` to `end` of the file, row-major and little-endian. */
export type Slot = {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly begin: number;
  readonly end: number;
};

export type Header = {
  /** In the order of the header. */
  readonly slots: readonly Slot[];
  readonly metadata: Readonly<Record<string, string>>;
};

export const damagedTensors = (what: string): TroupeError =>
  new TroupeError('checkpoint_damaged', `This is not a sound safetensors file: ${what}.`, {
    expected: 'a safetensors file whose header describes every byte after it exactly once',
    got: what,
    hint: 'Fetch or save the file again, or use the checkpoint before it.',
  });

/** Product of a shape; a product that no longer is an exact integer is refused, also where a later dimension is 0. */
export function elements(name: string, shape: readonly number[]): number {
  let product = 1;
  for (const dimension of shape) {
    product *= dimension;
    if (!Number.isSafeInteger(product)) throw damagedTensors(`tensor ${got(name)} has a shape too large to count`);
  }
  return product;
}

/**
 * The bytes before the data: the length of the header and the header, padded so that the data begins at a multiple of 8.
 * Throws `checkpoint_damaged` for a name that is not allowed and a header over the limit.
 */
export function writeHeader(
  tensors: Iterable<readonly [name: string, dtype: Dtype, shape: readonly number[]]>,
  metadata: Readonly<Record<string, string>>,
): Uint8Array {
  const entries: [string, unknown][] = [['__metadata__', metadata]];
  let end = 0;
  for (const [name, dtype, shape] of tensors) {
    if (name === '__metadata__') throw damagedTensors('a tensor cannot be named __metadata__');
    const begin = end;
    end += elements(name, shape) * BYTES[dtype];
    entries.push([name, { dtype, shape, data_offsets: [begin, end] }]);
  }
  const json = new TextEncoder().encode(JSON.stringify(Object.fromEntries(entries)));
  const length = Math.ceil(json.length / 8) * 8;
  if (length > MAX_HEADER_BYTES) {
    throw damagedTensors(`its header would be ${length} bytes; ${MAX_HEADER_BYTES} are allowed`);
  }
  const bytes = new Uint8Array(8 + length).fill(0x20, 8 + json.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(length), true);
  bytes.set(json, 8);
  return bytes;
}

/**
 * Length of the header of a file of `fileBytes` bytes that begins with `start` (as much of it as is at hand, at least 8).
 * Throws `checkpoint_damaged`, or `model_unsupported` where the file is of another known kind, which is named.
 */
export function headerLength(start: Uint8Array, fileBytes: number): number {
  const { kind, says, hint } = sniffFile(start);
  if (!['empty', 'unknown', 'safetensors', 'json', 'onnx'].includes(kind)) {
    throw new TroupeError('model_unsupported', `This is not a safetensors file: it is ${says}.`, {
      expected: 'a safetensors file',
      got: says,
      ...(hint === null ? {} : { hint }),
    });
  }
  if (fileBytes < 8) throw damagedTensors(`it has ${fileBytes} bytes, fewer than the 8 of the header's length`);
  const announced = new DataView(start.buffer, start.byteOffset, 8).getBigUint64(0, true);
  if (announced > BigInt(MAX_HEADER_BYTES)) {
    throw damagedTensors(`its header claims ${announced} bytes; at most ${MAX_HEADER_BYTES} are read`);
  }
  if (8n + announced > BigInt(fileBytes)) {
    throw damagedTensors(`its header claims ${announced} bytes and only ${fileBytes - 8} follow`);
  }
  return Number(announced);
}

/**
 * Reads a whole header (without its length) of a file of `fileBytes` bytes, and checks that its tensors are all of the
 * data, each byte of it once. Throws `checkpoint_damaged` naming what is wrong; another dtype is `model_unsupported`.
 */
export function readHeader(header: Uint8Array, fileBytes: number): Header {
  const start = 8 + header.length;
  const slots: Slot[] = [];
  const seen = new Set<string>();
  let metadata: Readonly<Record<string, string>> = {};
  for (const [name, text] of fields(header)) {
    if (seen.has(name)) throw damagedTensors(`its header names ${got(name)} twice`);
    seen.add(name);
    if (name === '__metadata__') {
      metadata = readMetadata(parsed(text, MAX_METADATA_BYTES, name));
      continue;
    }
    if (slots.length === MAX_TENSORS) throw damagedTensors(`it has more than ${MAX_TENSORS} tensors`);
    slots.push(readEntry(name, parsed(text, MAX_ENTRY_BYTES, name), start));
  }
  checkCoverage(slots, start, fileBytes);
  return { slots, metadata };
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN = 0x7b;
const CLOSE = 0x7d;

/**
 * The fields of the outermost object, each as its name and the bytes of its value: what lies between commas and brackets,
 * which is all that must be known to parse one field at a time. Brackets nest at most four deep, so a header of nothing
 * but brackets costs nothing.
 */
function* fields(header: Uint8Array): Generator<[name: string, value: Uint8Array]> {
  const notJson = (what: string): TroupeError => damagedTensors(`its header is not JSON (${what})`);
  let at = 0;
  const skipSpace = (): number => {
    while (at < header.length && [0x20, 0x09, 0x0a, 0x0d].includes(header[at]!)) at++;
    return header[at] ?? -1;
  };
  const skipText = (): void => {
    for (at++; at < header.length && header[at] !== QUOTE; at++) if (header[at] === BACKSLASH) at++;
    if (at++ >= header.length) throw notJson('a text has no end');
  };
  const skipValue = (): void => {
    let depth = 1;
    for (; at < header.length; at++) {
      const byte = header[at]!;
      if (byte === QUOTE) {
        skipText();
        at--;
      } else if (byte === OPEN || byte === 0x5b) {
        if (++depth > 4) throw damagedTensors('its header is nested too deeply');
      } else if (byte === CLOSE || byte === 0x5d) {
        if (--depth === 0) return;
      } else if (byte === 0x2c && depth === 1) return;
    }
    throw notJson('it has no end');
  };
  if (header[0] !== OPEN) throw damagedTensors('its header does not start with {');
  at = 1;
  let next = skipSpace();
  if (next === CLOSE) at++;
  while (next !== CLOSE) {
    if (next !== QUOTE) throw notJson(`a name was expected at byte ${at}`);
    const begin = at;
    skipText();
    const name = parsed(header.subarray(begin, at), MAX_ENTRY_BYTES, 'a name') as string;
    if (skipSpace() !== 0x3a) throw notJson(`a colon was expected at byte ${at}`);
    const value = ++at;
    skipValue();
    yield [name, header.subarray(value, at)];
    next = header[at++]!;
    if (next === 0x2c) {
      next = skipSpace();
      if (next === CLOSE) throw notJson(`a name was expected at byte ${at}`);
    }
  }
  if (skipSpace() >= 0) throw notJson(`something follows its end at byte ${at}`);
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function parsed(bytes: Uint8Array, limit: number, name: string): unknown {
  if (bytes.length > limit)
    throw damagedTensors(`${got(name)} has ${bytes.length} bytes in the header; ${limit} are read`);
  let value: unknown;
  let twice: string | null;
  try {
    const text = decoder.decode(bytes);
    value = JSON.parse(text);
    twice = duplicateKey(text);
  } catch (cause) {
    throw damagedTensors(`its header is not JSON (${(cause as Error).message})`);
  }
  if (twice !== null) throw damagedTensors(`its header names ${got(twice)} twice in ${got(name)}`);
  return value;
}

/**
 * The first key that occurs twice in one object of a JSON text, or null. `JSON.parse` keeps the last silently, other
 * readers the first, so a file with such a key would mean different weights to different programs.
 */
function duplicateKey(json: string): string | null {
  const open: Set<string>[] = [];
  for (let i = 0; i < json.length; i++) {
    const c = json[i];
    if (c === '{') open.push(new Set());
    else if (c === '}') open.pop();
    else if (c === '"') {
      const begin = i++;
      while (json[i] !== '"') i += json[i] === '\\' ? 2 : 1;
      let next = i + 1;
      while (next < json.length && ' \t\n\r'.includes(json[next]!)) next++;
      if (json[next] !== ':') continue;
      const key = JSON.parse(json.slice(begin, i + 1)) as string;
      if (open.at(-1)!.has(key)) return key;
      open.at(-1)!.add(key);
    }
  }
  return null;
}

function readMetadata(value: unknown): Readonly<Record<string, string>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw damagedTensors(`__metadata__ is ${got(value)} and not an object`);
  }
  for (const [key, text] of Object.entries(value)) {
    if (typeof text !== 'string') throw damagedTensors(`__metadata__.${key} is ${got(text)} and not a string`);
  }
  return value as Record<string, string>;
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

function readEntry(name: string, entry: unknown, start: number): Slot {
  const { dtype, shape, data_offsets: offsets, ...rest } = (entry ?? {}) as Record<string, unknown>;
  const label = `tensor ${got(name)}`;
  if (typeof dtype !== 'string') throw damagedTensors(`${label} has no dtype`);
  if (!Array.isArray(shape) || !shape.every(isCount)) throw damagedTensors(`${label} has the shape ${got(shape)}`);
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isCount)) {
    throw damagedTensors(`${label} has the data_offsets ${got(offsets)}`);
  }
  const unknown = Object.keys(rest)[0];
  if (unknown !== undefined) throw damagedTensors(`${label} has the unknown field ${got(unknown)}`);
  if (!Object.hasOwn(BYTES, dtype)) {
    throw new TroupeError('model_unsupported', `${label} is stored as ${got(dtype)}; F32, F16 and BF16 can be read.`, {
      expected: 'F32, F16 or BF16',
      got: dtype,
      hint: 'Convert the weights to F32 first, for example with transformers: model.float().save_pretrained(DIR).',
    });
  }
  const [begin, end] = offsets as [number, number];
  const bytes = elements(name, shape) * BYTES[dtype as Dtype];
  if (!Number.isSafeInteger(bytes)) throw damagedTensors(`${label} has a shape too large to count`);
  if (end - begin !== bytes) {
    throw damagedTensors(`${label} of shape [${shape}] needs ${bytes} bytes and its data_offsets hold ${end - begin}`);
  }
  return { name, dtype: dtype as Dtype, shape, begin: start + begin, end: start + end };
}

/** Every byte of the data belongs to exactly one tensor: no hole, no overlap, nothing left over. */
function checkCoverage(slots: readonly Slot[], start: number, fileBytes: number): void {
  let covered = start;
  for (const { name, begin, end } of slots.toSorted((a, b) => a.begin - b.begin || a.end - b.end)) {
    if (begin < covered) throw damagedTensors(`tensor ${got(name)} overlaps the tensor before it`);
    if (begin > covered) throw damagedTensors(`there is a hole of ${begin - covered} bytes before tensor ${got(name)}`);
    covered = end;
  }
  const [needed, available] = [covered - start, fileBytes - start];
  if (needed > available) throw damagedTensors(`its tensors need ${needed} bytes and ${available} follow the header`);
  if (needed < available) throw damagedTensors(`${available - needed} bytes follow the last tensor`);
}
