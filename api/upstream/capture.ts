/** Captures a response for the record while it is passed on, up to a size limit, with the time of its first output. */
import type { IncomingHttpHeaders } from 'node:http';
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate } from 'node:zlib';
import { isRecord, parseRecord } from '../../ingest/json.ts';
import { type Assembler, chunks, messageEvents, responseEvents, wholeOnly } from './assemble.ts';
import { eventStream } from './event-stream.ts';
import type { Kind } from './kind.ts';

export type CapturedAnswer = {
  readonly response: Record<string, unknown> | null;
  /** The text of a response that is not a JSON object. */
  readonly text: string | null;
  /** Whether the response was larger than the limit. */
  readonly cut: boolean;
  readonly firstTokenMs: number | null;
};

/** What arrived of a response, as plain data: a stream put together, anything else as its bytes. */
export type RawAnswer = {
  readonly streamed: Record<string, unknown> | null;
  readonly bytes: Uint8Array | null;
  readonly encoding: string;
  readonly cut: boolean;
  readonly firstTokenMs: number | null;
};

export type Capture = {
  readonly add: (chunk: Uint8Array) => void;
  /** Bytes that arrived, also past the limit. */
  readonly size: () => number;
  readonly taken: () => RawAnswer;
};

/** Of a call that got no response. */
export const NO_ANSWER: RawAnswer = {
  streamed: null,
  bytes: null,
  encoding: 'identity',
  cut: false,
  firstTokenMs: null,
};

const assembled: Readonly<Record<Kind, () => Assembler>> = {
  chat: () => chunks('chat.completion'),
  text: () => chunks('text_completion'),
  responses: responseEvents,
  messages: messageEvents,
  embeddings: wholeOnly,
};

/** Whether the response is a stream of server-sent events. */
export const isStream = (headers: IncomingHttpHeaders): boolean =>
  (headers['content-type'] ?? '').trim().toLowerCase().startsWith('text/event-stream');

/** Captures one response. It stores at most `limit` bytes; `elapsed` is the time since the call began, in milliseconds. */
export function captureAnswer(kind: Kind, headers: IncomingHttpHeaders, limit: number, elapsed: () => number): Capture {
  let size = 0;
  let first: number | null = null;
  const fits = (chunk: Uint8Array): boolean => {
    size += chunk.byteLength;
    return size <= limit;
  };
  const encoding = encodingOf(headers);
  if (isStream(headers) && encoding === 'identity') {
    const events = eventStream();
    const assembler = assembled[kind]();
    const add = (chunk: Uint8Array) => {
      if (!fits(chunk)) return;
      for (const data of events.take(chunk)) {
        const parsed = data === '[DONE]' ? null : parseRecord(data);
        if (parsed && 'value' in parsed && assembler.take(parsed.value)) first ??= elapsed();
      }
    };
    const taken = () => ({ ...NO_ANSWER, streamed: assembler.body(), cut: size > limit, firstTokenMs: first });
    return { add, size: () => size, taken };
  }
  const kept: Uint8Array[] = [];
  return {
    add: (chunk) => {
      if (fits(chunk)) kept.push(chunk);
    },
    size: () => size,
    taken: () => ({ ...NO_ANSWER, encoding, ...(size > limit ? { cut: true } : { bytes: Buffer.concat(kept) }) }),
  };
}

/** Reads what was captured; inflates at most `limit` bytes. */
export async function readAnswer(
  { streamed, bytes, encoding, cut, firstTokenMs }: RawAnswer,
  limit: number,
): Promise<CapturedAnswer> {
  if (bytes === null) return { response: streamed, text: null, cut, firstTokenMs };
  const text = await inflated(bytes, encoding, limit);
  const parsed = text === null ? null : parseRecord(text);
  const response = parsed && 'value' in parsed && isRecord(parsed.value) ? parsed.value : null;
  return { response, text: response === null ? text : null, cut, firstTokenMs };
}

const encodingOf = (headers: IncomingHttpHeaders): string =>
  (headers['content-encoding'] ?? 'identity').trim().toLowerCase();

const inflaters = { gzip: promisify(gunzip), br: promisify(brotliDecompress), deflate: promisify(inflate) } as const;

/** Null if it cannot be decompressed. */
async function inflated(body: Uint8Array, encoding: string, limit: number): Promise<string | null> {
  if (encoding === 'identity') return Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('utf8');
  if (!Object.hasOwn(inflaters, encoding)) return null;
  const open = inflaters[encoding as keyof typeof inflaters];
  return open(body, { maxOutputLength: limit }).then(
    (bytes) => bytes.toString('utf8'),
    () => null,
  );
}
