/**
 * The fields of a protobuf message that is read where it lies: in memory, or in a file of which a window is held. Unlike a
 * decoder it makes nothing of what it passes, so a message of a gigabyte costs no more than one of a kilobyte.
 * Wire format: protobuf.dev/programming-guides/encoding.
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { got, TroupeError } from '../../../errors.ts';

export type Source = {
  readonly size: number;
  /** `length` bytes from `at` on, at most `WINDOW` of them and not beyond the end; valid until the next call. */
  readonly view: (at: number, length: number) => Uint8Array;
};

/** One field: its number, and either its value or where its bytes lie. */
export type Field = {
  readonly number: number;
  /** Value of a varint as a signed 64-bit number, rounded beyond 2^53; 0 for the other kinds. */
  readonly value: number;
  readonly kind: 'varint' | 'bytes' | 'fixed32' | 'fixed64';
  readonly begin: number;
  readonly end: number;
};

const WINDOW = 64 * 1024;

export const damagedMessage = (what: string): TroupeError =>
  new TroupeError('checkpoint_damaged', `This is not a sound ONNX file: ${what}.`, {
    expected: 'an ONNX model whose every message ends inside the one around it',
    got: what,
    hint: 'Export or fetch the file again.',
  });

export const bytesSource = (bytes: Uint8Array): Source => ({
  size: bytes.length,
  view: (at, length) => bytes.subarray(at, at + length),
});

/** Runs `work` on a regular file, of which 64 KiB are held. Throws `not_found`, `checkpoint_damaged` where it cannot be read. */
export function withFileSource<T>(path: string, work: (source: Source) => T): T {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code === 'ENOENT' ? 'not_found' : 'checkpoint_damaged';
    throw new TroupeError(code, `${path} cannot be opened: ${(cause as Error).message}.`, { cause });
  }
  try {
    const facts = fstatSync(file);
    if (!facts.isFile()) throw damagedMessage(`${path} is not a regular file`);
    const window = new Uint8Array(WINDOW);
    let [start, held] = [0, 0];
    const view = (at: number, length: number): Uint8Array => {
      if (at < start || at + length > start + held) {
        start = at;
        held = readSync(file, window, 0, WINDOW, at);
        if (held < length) throw damagedMessage('it became shorter while it was read');
      }
      return window.subarray(at - start, at - start + length);
    };
    return work({ size: facts.size, view });
  } finally {
    closeSync(file);
  }
}

/** What one reading may cost, so that a file of nothing but tiny fields ends too. */
export type Budget = { fields: number; text: number };

/** The fields between two places. Throws `checkpoint_damaged` where one reaches beyond the end or is of a kind long gone. */
export function* fields(source: Source, begin: number, end: number, budget: Budget): Generator<Field> {
  let at = begin;
  while (at < end) {
    if (--budget.fields < 0) throw damagedMessage('it has more fields than are read');
    const tag = varint(source, at, end);
    at = tag.next;
    const number = Math.floor(tag.value / 8);
    if (number < 1 || number > 0x1fffffff) throw damagedMessage(`there is a field of the number ${number}`);
    const from = at;
    switch (tag.value % 8) {
      case 0: {
        const { value, next } = varint(source, at, end);
        at = next;
        yield { number, value, kind: 'varint', begin: from, end: at };
        break;
      }
      case 1:
        at = inside(at + 8, end);
        yield { number, value: 0, kind: 'fixed64', begin: from, end: at };
        break;
      case 2: {
        const { value: length, next } = varint(source, at, end);
        if (length < 0) throw damagedMessage(`a field has the length ${length}`);
        at = inside(next + length, end);
        yield { number, value: 0, kind: 'bytes', begin: next, end: at };
        break;
      }
      case 5:
        at = inside(at + 4, end);
        yield { number, value: 0, kind: 'fixed32', begin: from, end: at };
        break;
      default:
        throw damagedMessage(`a field is of the kind ${tag.value % 8}`);
    }
  }
}

function inside(at: number, end: number): number {
  if (at > end) throw damagedMessage(`a field reaches ${at - end} bytes beyond the end of its message`);
  return at;
}

function varint(source: Source, at: number, end: number): { value: number; next: number } {
  const bytes = source.view(at, Math.min(10, end - at));
  let value = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    // Beyond 49 bits the sum would no longer be exact, and a tenth byte makes the number negative.
    if (i >= 7) return { value: longVarint(bytes), next: at + lengthOf(bytes) };
    value += (byte & 0x7f) * 2 ** (7 * i);
    if (byte < 0x80) return { value, next: at + i + 1 };
  }
  throw damagedMessage('a number has no end');
}

function lengthOf(bytes: Uint8Array): number {
  const last = bytes.findIndex((byte) => byte < 0x80);
  if (last < 0) throw damagedMessage('a number has no end');
  return last + 1;
}

function longVarint(bytes: Uint8Array): number {
  let value = 0n;
  for (let i = lengthOf(bytes) - 1; i >= 0; i--) value = (value << 7n) | BigInt(bytes[i]! & 0x7f);
  return Number(BigInt.asIntN(64, value));
}

/** How many varints lie between two places. */
export function countVarints(source: Source, begin: number, end: number): number {
  let count = 0;
  for (let at = begin; at < end; at += WINDOW) {
    for (const byte of source.view(at, Math.min(WINDOW, end - at))) if (byte < 0x80) count++;
  }
  return count;
}

/** Values of a repeated number field, packed or not. */
export function numbers(source: Source, field: Field): number[] {
  if (field.kind === 'varint') return [field.value];
  if (field.end - field.begin > 1024)
    throw damagedMessage(`a list of ${field.end - field.begin} bytes is where a shape is`);
  const values: number[] = [];
  for (let at = field.begin; at < field.end; ) {
    const { value, next } = varint(source, at, field.end);
    values.push(value);
    at = next;
  }
  return values;
}

const MAX_NAME_BYTES = 1024;
const decoder = new TextDecoder('utf-8', { fatal: true });

/** A short text. Throws `checkpoint_damaged` for one that is long or not UTF-8. */
export function text(source: Source, { begin, end, kind }: Field, budget: Budget): string {
  if (kind !== 'bytes') throw damagedMessage('a number is where a text is');
  if (end - begin > MAX_NAME_BYTES) throw damagedMessage(`a name has ${end - begin} bytes; ${MAX_NAME_BYTES} are read`);
  budget.text -= end - begin;
  if (budget.text < 0) throw damagedMessage('it has more names than are read');
  const bytes = source.view(begin, end - begin);
  try {
    return decoder.decode(bytes);
  } catch {
    throw damagedMessage(`a name is not UTF-8: ${got(Buffer.from(bytes.subarray(0, 20)).toString('latin1'))}`);
  }
}
