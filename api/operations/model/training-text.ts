/**
 * Text to train a tokenizer on, read from files piece by piece: plain text as it stands, or the conversations of a chat file
 * (`{"messages": […]}` on each line) as the model will read them.
 */
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { TextDecoder } from 'node:util';
import { got, TroupeError, unreadable } from '../../../errors.ts';
import { safeCut } from '../../../trainer/model/tokens/byte-pieces.ts';
import type { ChatMessage } from '../../../trainer/model/tokens/template-messages.ts';

/** A line of a chat file that was left out. */
export type RefusedLine = {
  readonly file: string;
  readonly line: number;
  readonly expected: string;
  readonly got: string;
};

export type TrainingText = {
  /** To be read once, from the first file to the last. */
  readonly texts: Iterable<string>;
  /** What was found, complete when `texts` was read to its end. */
  readonly files: readonly TextFile[];
  readonly refused: readonly RefusedLine[];
};

export type TextFile = { readonly file: string; readonly format: 'text' | 'chat'; readonly bytes: number };

export type ReadOptions = {
  /** A conversation as the model will read it. */
  readonly render: (messages: readonly ChatMessage[], tools: readonly unknown[] | undefined) => string;
  /** Bytes read of all bytes. */
  readonly onRead?: (done: number, total: number) => void;
};

const CHUNK_BYTES = 1 << 20;
/** What is not cut by then has no line breaks worth waiting for. */
const LONGEST_UNCUT = 8 << 20;

/** Opens nothing until `texts` is read. Throws `not_found` for a file that is not there, while reading `usage` for one that is no UTF-8. */
export function trainingText(paths: readonly string[], { render, onRead }: ReadOptions): TrainingText {
  const sizes = paths.map(sizeOf);
  const total = sizes.reduce((a, b) => a + b, 0);
  const files: TextFile[] = [];
  const refused: RefusedLine[] = [];
  let done = 0;
  const progress = (bytes: number): void => {
    done += bytes;
    onRead?.(done, total);
  };
  function* texts(): Generator<string> {
    for (const [index, file] of paths.entries()) {
      const chunks = decoded(file, progress);
      const first = chunks.next();
      const start = first.done ? '' : first.value;
      const chat = isChat(start);
      files.push({ file, format: chat ? 'chat' : 'text', bytes: sizes[index]! });
      if (chat) yield* conversations(file, start, chunks, render, refused);
      else yield* plain(start, chunks);
    }
  }
  return { texts: { [Symbol.iterator]: texts }, files, refused };
}

function sizeOf(path: string): number {
  try {
    const facts = statSync(path);
    if (facts.isFile()) return facts.size;
  } catch (cause) {
    throw unreadable(path, cause);
  }
  throw new TroupeError('usage', `${path} is not a file; name the files of text one by one.`);
}

function* decoded(path: string, progress: (bytes: number) => void): Generator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const buffer = new Uint8Array(CHUNK_BYTES);
  const file = openSync(path, 'r');
  try {
    for (let read = -1; read !== 0; ) {
      read = readSync(file, buffer);
      let text: string;
      try {
        text = decoder.decode(buffer.subarray(0, read), { stream: read > 0 });
      } catch (cause) {
        throw new TroupeError('usage', `${path} is not UTF-8 text; convert it first.`, { expected: 'UTF-8', cause });
      }
      progress(read);
      if (text !== '') yield text;
    }
  } finally {
    closeSync(file);
  }
}

/** A chat file begins with an object that has messages, or with the beginning of one too long to see its end. */
function isChat(start: string): boolean {
  const line = start.trimStart().split('\n', 1)[0]!;
  if (!line.startsWith('{')) return false;
  try {
    return Array.isArray(JSON.parse(line).messages);
  } catch {
    return line.length > 4096 && /^\{\s*"messages"\s*:\s*\[/.test(line);
  }
}

function* plain(start: string, rest: Iterable<string>): Generator<string> {
  let held = start;
  for (const chunk of rest) {
    held += chunk;
    const at = safeCut(held) || (held.length > LONGEST_UNCUT ? held.length : 0);
    if (at === 0) continue;
    yield held.slice(0, at);
    held = held.slice(at);
  }
  yield held;
}

function* lines(start: string, rest: Iterable<string>): Generator<string> {
  let held = start;
  const whole = function* (text: string): Generator<string> {
    const parts = text.split('\n');
    held = parts.pop()!;
    yield* parts;
  };
  yield* whole(held);
  for (const chunk of rest) yield* whole(held + chunk);
  if (held !== '') yield held;
}

function* conversations(
  file: string,
  start: string,
  rest: Iterable<string>,
  render: ReadOptions['render'],
  refused: RefusedLine[],
): Generator<string> {
  let number = 0;
  for (const line of lines(start, rest)) {
    number++;
    if (line.trim() === '') continue;
    const refuse = (expected: string, found: string): void =>
      void refused.push({ file, line: number, expected, got: found });
    let row: { readonly messages?: unknown; readonly tools?: unknown };
    try {
      row = JSON.parse(line);
    } catch (error) {
      refuse('JSON', (error as Error).message);
      continue;
    }
    const messages = row?.messages;
    if (!Array.isArray(messages) || !messages.every((one) => typeof one?.role === 'string')) {
      refuse('"messages": a list of objects with a role', got(messages));
      continue;
    }
    try {
      yield render(messages, Array.isArray(row.tools) ? row.tools : undefined);
    } catch (error) {
      refuse('messages the chat template can read', (error as Error).message);
    }
  }
}
