/** Captures a response for the record while it is passed on, up to a size limit, with the time of its first output. */
import type { IncomingHttpHeaders } from 'node:http';
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate } from 'node:zlib';
import { isRecord, parseRecord } from '../../ingest/json.ts';
import { type Assembler, chunks, messageEvents, responseEvents, wholeOnly } from './assemble.ts';
import { eventStream } from './event-stream.ts';
import type { Kind } from './record.ts';

export type CapturedAnswer = {
  readonly response: Record<string, unknown> | null;
  /** The text of a response that is not a JSON object. */
  readonly text: string | null;
  /** Whether the response was larger than the limit. */
  readonly cut: boolean;
  readonly firstTokenMs: number | null;
};

export type Capture = {
  readonly add: (chunk: Uint8Array) => void;
  readonly result: () => Promise<CapturedAnswer>;
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
  if (isStream(headers) && encodingOf(headers) === 'identity') {
    const events = eventStream();
    const assembler = assembled[kind]();
    const add = (chunk: Uint8Array) => {
      if (!fits(chunk)) return;
      for (const data of events.take(chunk)) {
        const parsed = data === '[DONE]' ? null : parseRecord(data);
        if (parsed && 'value' in parsed && assembler.take(parsed.value)) first ??= elapsed();
      }
    };
    const result = async () => ({ response: assembler.body(), text: null, cut: size > limit, firstTokenMs: first });
    return { add, result };
  }
  const kept: Uint8Array[] = [];
  return {
    add: (chunk) => {
      if (fits(chunk)) kept.push(chunk);
    },
    result: async () => {
      if (size > limit) return { response: null, text: null, cut: true, firstTokenMs: null };
      const text = await inflated(Buffer.concat(kept), encodingOf(headers), limit);
      const parsed = text === null ? null : parseRecord(text);
      const response = parsed && 'value' in parsed && isRecord(parsed.value) ? parsed.value : null;
      return { response, text: response === null ? text : null, cut: false, firstTokenMs: null };
    },
  };
}

const encodingOf = (headers: IncomingHttpHeaders): string =>
  (headers['content-encoding'] ?? 'identity').trim().toLowerCase();

const inflaters = { gzip: promisify(gunzip), br: promisify(brotliDecompress), deflate: promisify(inflate) } as const;

/** Null if it cannot be decompressed. */
async function inflated(body: Buffer, encoding: string, limit: number): Promise<string | null> {
  if (encoding === 'identity') return body.toString('utf8');
  if (!Object.hasOwn(inflaters, encoding)) return null;
  const open = inflaters[encoding as keyof typeof inflaters];
  return open(body, { maxOutputLength: limit }).then(
    (bytes) => bytes.toString('utf8'),
    () => null,
  );
}
