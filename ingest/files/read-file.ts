/**
 * Records out of a file of JSON, in constant memory: JSON Lines, a top-level array element by element, or one document. The bytes
 * are scanned, never the parsed values, so one record at a time is held, and one that is too large is passed over without being held.
 * A file may be packed with gzip or Zstandard.
 */
import { isUtf8 } from 'node:buffer';
import { type FileHandle, open } from 'node:fs/promises';
import { TroupeError } from '../../errors.ts';
import { MAX_RECORD_BYTES } from '../events/json.ts';
import type { Shape } from '../formats/kit/format.ts';
import { AIDER_HEADING } from '../formats/sessions/aider.ts';
import { sniffProtobuf } from '../traces/otlp/protobuf.ts';
import { unpacked } from './gunzip.ts';
import { type FileRecord, MAX_DOCUMENT_BYTES, parsePiece, problem } from './parse-piece.ts';
import { readEvalArchive } from './read-eval-archive.ts';
import { splitLines, splitValues } from './split-records.ts';
import { isZip } from './zip.ts';

const CHUNK = 1024 * 1024;
/** Where a file ends, and of one that has no size or grows. */
const BEHIND_END = 16 * 1024;
const QUOTE = 34;
const BACKSLASH = 92;
const OPEN_ARRAY = 91;
const OPEN_OBJECT = 123;
const NEWLINE = Buffer.from('\n');
/** Field 1 with a length: how each OTLP request begins. A file of JSON may begin with it too, as a line break. */
const PROTOBUF_FIELD_1 = 10;

export type RecordFile = {
  readonly shape: Shape;
  readonly bytes: number;
  /** Can be read once. */
  readonly records: AsyncGenerator<FileRecord>;
};

/**
 * Opens a file and finds its shape by content. Of protobuf, which is held as a whole, `most` bytes are taken, unpacked; a longer file is
 * read as lines, in constant memory, and refused there. Throws `not_found` when it cannot be opened.
 */
export async function openRecordFile(path: string, most = MAX_DOCUMENT_BYTES): Promise<RecordFile> {
  let bytes: number;
  let archive: boolean;
  try {
    const handle = await open(path, 'r');
    try {
      bytes = (await handle.stat()).size;
      archive = await isZip(handle);
    } finally {
      await handle.close();
    }
  } catch (cause) {
    throw new TroupeError('not_found', `The file ${path} cannot be read: ${(cause as Error).message}`, { cause });
  }
  if (archive) return { shape: 'document', bytes, records: readEvalArchive(path) };
  const spans = bytes <= most ? await protobufIn(path, most) : null;
  if (spans) return { shape: 'document', bytes, records: only(spans) };
  if (await isAiderHistory(unpacked(chunksOf(path))))
    return { shape: 'lines', bytes, records: chatsIn(unpacked(chunksOf(path))) };
  const shape = await shapeOf(unpacked(chunksOf(path)));
  return { shape, bytes, records: recordsOf(path, shape) };
}

/** The records of a file, also of a packed one; one that cannot be unpacked to its end is refused there. */
async function* recordsOf(path: string, shape: Shape): AsyncGenerator<FileRecord> {
  let fault: string | null = null;
  let last = { line: 0, end: 0 };
  const chunks = unpacked(chunksOf(path), (message) => {
    fault = message;
  });
  for await (const record of readRecords(chunks, shape)) {
    last = record;
    yield record;
  }
  if (fault === null) return;
  const refusal = problem('bad_shape', 'a whole file of gzip or zstd; what stands before the fault was read', fault);
  yield { line: last.line + 1, end: last.end, raw: Buffer.alloc(0), refusal };
}

/** A file of protobuf as its one record; null where it is none, or has more bytes than that. */
async function protobufIn(path: string, most: number): Promise<FileRecord | null> {
  const chunks: Buffer[] = [];
  let held = 0;
  for await (const chunk of unpacked(chunksOf(path))) {
    if (chunks.length === 0 && (chunk[0] !== PROTOBUF_FIELD_1 || isText(chunk))) return null;
    held += chunk.length;
    if (held > most) return null;
    chunks.push(chunk);
  }
  const raw = Buffer.concat(chunks);
  const value = sniffProtobuf(raw);
  return value && { line: 1, end: raw.length, raw, value };
}

/** True where a line break is followed by what JSON begins with, in UTF-8 as far as it can be seen. */
const isText = (chunk: Buffer): boolean => /^\s+[[{]/.test(chunk.toString('latin1', 0, 64)) && isUtf8(chunk);

async function isAiderHistory(chunks: AsyncIterable<Uint8Array>): Promise<boolean> {
  for await (const chunk of chunks)
    return /^\uFEFF?\s*# aider chat started at /.test(Buffer.from(chunk).toString('utf8', 0, 256));
  return false;
}

/** The chats of a history, a text each. */
async function* chatsIn(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<FileRecord> {
  const heading = Buffer.from(AIDER_HEADING);
  let chat: { readonly line: number; size: number; readonly lines: Buffer[] } | null = null;
  let end = 0;
  const whole = (): FileRecord[] => {
    if (chat === null) return [];
    const raw = Buffer.concat(chat.lines);
    const place = { line: chat.line, end, raw };
    if (chat.size > MAX_RECORD_BYTES)
      return [
        {
          ...place,
          refusal: problem('too_large', `a chat of at most ${MAX_RECORD_BYTES} bytes`, `${chat.size} bytes`),
        },
      ];
    if (!isUtf8(raw)) return [{ ...place, refusal: problem('bad_json', 'text in UTF-8', 'bytes that are not UTF-8') }];
    return [{ ...place, value: raw.toString('utf8') }];
  };
  for await (const { line, raw, end: at } of splitLines(chunks, MAX_RECORD_BYTES)) {
    const from = raw.indexOf(heading);
    if (from === 0 || (line === 1 && from > 0)) {
      yield* whole();
      chat = { line, size: 0, lines: [] };
    }
    end = at;
    if (chat === null) continue;
    chat.size += raw.length + 1;
    if (chat.size <= MAX_RECORD_BYTES) chat.lines.push(from > 0 && line === 1 ? raw.subarray(from) : raw, NEWLINE);
  }
  yield* whole();
}

async function* only(record: FileRecord): AsyncGenerator<FileRecord> {
  yield record;
}

/** The records of a stream of bytes, cut anywhere. Blank lines and a byte order mark are passed over. */
export async function* readRecords(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  shape: Shape,
): AsyncGenerator<FileRecord> {
  const limit = shape === 'document' ? MAX_DOCUMENT_BYTES : MAX_RECORD_BYTES;
  const pieces = shape === 'lines' ? splitLines(chunks, limit) : splitValues(chunks, shape, limit);
  for await (const piece of pieces) {
    const record = parsePiece(piece, limit);
    if (record) yield record;
  }
}

/**
 * The shape of a file. Lists of messages, each on its line, are lines. An object that spans lines is a document, unless the first line ends inside a string, or a later line is a whole
 * object where a document has none: after no comma, colon or bracket, before another object, or at the end. Then these are lines, the
 * first of them broken. Reads no further than it must.
 */
export async function shapeOf(chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<Shape> {
  let first: FileRecord | null = null;
  let lookedAt = 0;
  let last = 0;
  let wholeBefore = false;
  for await (const piece of splitLines(chunks, MAX_RECORD_BYTES)) {
    const record = parsePiece(piece, MAX_RECORD_BYTES);
    if (!record) continue;
    if (first === null) {
      const byte = record.raw[0];
      if (byte === OPEN_ARRAY && !isConversation(record.value)) return 'array';
      if (byte === OPEN_ARRAY) {
        first = record;
        continue;
      }
      if (byte !== OPEN_OBJECT) return 'lines';
      if (record.refusal?.code === 'bad_json' && endsInString(record.raw)) return 'lines';
      first = record;
      last = record.raw.at(-1)!;
      continue;
    }
    if (first.raw[0] === OPEN_ARRAY) return isConversation(record.value) ? 'lines' : 'array';
    // A second line: the first was a line if it could be read, or is larger than what a line of a document ever is.
    if (first.refusal?.code !== 'bad_json') return 'lines';
    const opens = record.raw[0] === OPEN_OBJECT;
    const whole = opens && isObjectWithMembers(record.value);
    if ((wholeBefore && opens) || (whole && !BEFORE_VALUE.has(last))) return 'lines';
    wholeBefore = whole;
    last = record.raw.at(-1)!;
    lookedAt += record.raw.length;
    if (lookedAt > CHUNK) break;
  }
  if (first?.raw[0] === OPEN_ARRAY) return 'array';
  return wholeBefore ? 'lines' : 'document';
}

/** A list of messages: on the lines of a file each is a run of its own, where other lists are parts of one. */
const isConversation = (value: unknown): boolean =>
  Array.isArray(value) && isObjectWithMembers(value[0]) && ['role', 'kind', 'type'].some((name) => name in value[0]);

/** What a value stands after in a document. */
const BEFORE_VALUE: ReadonlySet<number> = new Set(Buffer.from('[,:'));

const isObjectWithMembers = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.keys(value).length > 0;

function endsInString(line: Uint8Array): boolean {
  let inside = false;
  for (let i = 0; i < line.length; i++) {
    if (line[i] === QUOTE) inside = !inside;
    else if (inside && line[i] === BACKSLASH) i++;
  }
  return inside;
}

async function* chunksOf(path: string): AsyncGenerator<Buffer> {
  const handle: FileHandle = await open(path, 'r');
  try {
    const { size } = await handle.stat();
    for (let at = 0; ; ) {
      // No longer than what is left: of a small file each whole chunk would be memory that makes the process collect all its garbage.
      const length = at < size ? Math.min(CHUNK, size - at) : BEHIND_END;
      // A fresh buffer each time: records keep slices of it.
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafeSlow(length), 0, length);
      if (bytesRead === 0) return;
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}
