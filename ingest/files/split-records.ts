/** Cuts a stream of bytes into the bytes of its records, without parsing them: lines, elements of an array, or documents. */

/** How much of a record that is too large is kept for the dead letter, in bytes. */
const MAX_KEPT_BYTES = 64 * 1024;

const NEWLINE = 10;
const QUOTE = 34;
const COMMA = 44;
const BACKSLASH = 92;
const OPEN_ARRAY = 91;
const CLOSE_ARRAY = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/** The bytes of one record, before they are read as JSON. */
export type Piece = { readonly line: number; readonly end: number; readonly size: number; readonly raw: Buffer };

/** Collects the bytes of a record over chunk borders; past `limit` they are counted and no longer kept. */
function collector(limit: number) {
  let parts: Uint8Array[] = [];
  let size = 0;
  return {
    add(bytes: Uint8Array): void {
      if (bytes.length === 0) return;
      size += bytes.length;
      if (size <= limit) parts.push(bytes);
      else parts = keepHead([...parts, bytes]);
    },
    take(line: number, end: number): Piece {
      const [only] = parts;
      const raw =
        parts.length === 1 && only ? Buffer.from(only.buffer, only.byteOffset, only.byteLength) : Buffer.concat(parts);
      const piece = { line, end, size, raw: size > limit ? raw.subarray(0, MAX_KEPT_BYTES) : raw };
      parts = [];
      size = 0;
      return piece;
    },
  };
}

function keepHead(parts: readonly Uint8Array[]): Uint8Array[] {
  const head = Buffer.alloc(MAX_KEPT_BYTES);
  let filled = 0;
  for (const part of parts) {
    head.set(part.subarray(0, MAX_KEPT_BYTES - filled), filled);
    filled = Math.min(MAX_KEPT_BYTES, filled + part.length);
  }
  return [head.subarray(0, filled)];
}

export async function* splitLines(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  limit: number,
): AsyncGenerator<Piece> {
  const bytes = collector(limit);
  let line = 1;
  let offset = 0;
  for await (const chunk of chunks) {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      bytes.add(chunk.subarray(from, at));
      yield bytes.take(line++, offset + at + 1);
      from = at + 1;
    }
    bytes.add(chunk.subarray(from));
    offset += chunk.length;
  }
  yield bytes.take(line, offset);
}

/**
 * Cuts the values out of a top-level array, or out of a sequence of documents. Only brackets and strings are looked at; what is
 * between them is judged when the record is parsed.
 */
export async function* splitValues(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  shape: 'array' | 'document',
  limit: number,
): AsyncGenerator<Piece> {
  const bytes = collector(limit);
  let open = shape === 'document';
  let state: 'between' | 'container' | 'word' | 'junk' = 'between';
  const inside: Inside = { inString: false, escaped: false, depth: 0, ended: false };
  let line = 1;
  let startLine = 1;
  let offset = 0;

  for await (const chunk of chunks) {
    const size = chunk.length;
    let start = 0;
    const newlineFrom = (from: number): number => {
      const at = chunk.indexOf(NEWLINE, from);
      return at < 0 ? Number.POSITIVE_INFINITY : at;
    };
    let newline = newlineFrom(0);
    const lineAt = (position: number): number => {
      while (newline < position) {
        line++;
        newline = newlineFrom(newline + 1);
      }
      return line;
    };

    let i = 0;
    while (i < size) {
      if (state === 'container') {
        i = scan(chunk, i, inside);
        if (inside.ended) {
          bytes.add(chunk.subarray(start, i));
          state = 'between';
          yield bytes.take(startLine, offset + i);
        }
        continue;
      }

      const c = chunk[i]!;
      if (state === 'word' || state === 'junk') {
        const ends = state === 'junk' ? c === NEWLINE : isSpace(c) || c === COMMA || c === CLOSE_ARRAY;
        if (ends) {
          bytes.add(chunk.subarray(start, i));
          state = 'between';
          yield bytes.take(startLine, offset + i);
        } else i++;
        continue;
      }

      if (isSpace(c) || isByteOrderMark(c, offset + i)) i++;
      else if (shape === 'array' && !open && c === OPEN_ARRAY) {
        open = true;
        i++;
      } else if (shape === 'array' && open && (c === COMMA || c === CLOSE_ARRAY)) {
        if (c === CLOSE_ARRAY) open = false;
        i++;
      } else {
        start = i;
        startLine = lineAt(i);
        inside.depth = 0;
        if (!open) state = 'junk';
        else if (c === QUOTE || (c | 32) === OPEN_OBJECT) state = 'container';
        else state = shape === 'array' ? 'word' : 'junk';
        if (state !== 'container') i++;
      }
    }
    if (state !== 'between') bytes.add(chunk.subarray(start));
    lineAt(size);
    offset += size;
  }
  if (state !== 'between') yield bytes.take(startLine, offset);
}

/** Where a scan inside a value stands; it goes on over the end of a chunk. */
type Inside = { inString: boolean; escaped: boolean; depth: number; ended: boolean };

/** Goes to the end of the value that `inside` is in, or of the chunk; answers the place. Its locals are what makes it fast. */
function scan(chunk: Uint8Array, from: number, inside: Inside): number {
  let { inString, escaped, depth } = inside;
  let ended = false;
  let i = from;
  while (i < chunk.length && !ended) {
    const c = chunk[i++]!;
    if (inString) {
      if (escaped) escaped = false;
      else if (c === BACKSLASH) escaped = true;
      else if (c === QUOTE) {
        inString = false;
        ended = depth === 0;
      }
    } else if (c === QUOTE) inString = true;
    // '[' and ']' differ from '{' and '}' in this one bit.
    else if ((c | 32) === OPEN_OBJECT) depth++;
    else if ((c | 32) === CLOSE_OBJECT) ended = --depth === 0;
  }
  inside.inString = inString;
  inside.escaped = escaped;
  inside.depth = depth;
  inside.ended = ended;
  return i;
}

export const isSpace = (c: number): boolean => c === 32 || (c >= 9 && c <= 13);
const isByteOrderMark = (c: number, at: number): boolean => at < 3 && c === [0xef, 0xbb, 0xbf][at];
