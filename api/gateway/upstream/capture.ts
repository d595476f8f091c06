/** Captures a response for the record while it is passed on, up to a size limit, and reads it later, with the time of its first output. */
import type { IncomingHttpHeaders } from 'node:http';
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate } from 'node:zlib';
import { isRecord } from '../../../ingest/events/json.ts';
import { parseWritten } from '../../../ingest/events/spelling.ts';
import { type Assembler, chunks, messageEvents, responseEvents, wholeOnly } from './assemble.ts';
import { eventStream } from './event-stream.ts';
import type { Kind } from './kind.ts';

export type CapturedAnswer = {
  readonly response: Record<string, unknown> | null;
  /** The text of a response that is not a JSON object. */
  readonly text: string | null;
  /** Whether the response was larger than the limit. */
  readonly cut: boolean;
  /** Whether it is a stream that ended before its last event. */
  readonly incomplete: boolean;
  readonly firstTokenMs: number | null;
};

/** What arrived of a response, as plain data, to be read on another thread where it is large. */
export type RawAnswer = {
  /** Null where there are none, or where a response that is no stream was larger than the limit. */
  readonly bytes: Uint8Array | null;
  /** Of a stream: its interface, and by chunk how many bytes had arrived, and at which time in milliseconds. */
  readonly stream: { readonly kind: Kind; readonly arrivals: Float64Array } | null;
  readonly encoding: string;
  readonly cut: boolean;
};

export type Capture = {
  readonly add: (chunk: Uint8Array) => void;
  /** Bytes that arrived, also past the limit. */
  readonly size: () => number;
  readonly taken: () => RawAnswer;
};

/** Of a call that got no response. */
export const NO_ANSWER: RawAnswer = { bytes: null, stream: null, encoding: 'identity', cut: false };

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
  const kept: Uint8Array[] = [];
  const arrivals: number[] = [];
  const encoding = encodingOf(headers);
  const streams = isStream(headers) && encoding === 'identity';
  return {
    add: (chunk) => {
      size += chunk.byteLength;
      if (size > limit) return;
      kept.push(chunk);
      if (streams) arrivals.push(size, elapsed());
    },
    size: () => size,
    taken: () => {
      const cut = size > limit;
      const stream = streams ? { kind, arrivals: Float64Array.from(arrivals) } : null;
      return { bytes: cut && !streams ? null : Buffer.concat(kept), stream, encoding, cut };
    },
  };
}

/** Reads what was captured; inflates at most `limit` bytes. */
export async function readAnswer({ bytes, stream, encoding, cut }: RawAnswer, limit: number): Promise<CapturedAnswer> {
  const whole = { cut, incomplete: false, firstTokenMs: null };
  if (bytes === null) return { response: null, text: null, ...whole };
  if (stream !== null) return { ...readStream(bytes, stream), text: null, cut };
  const text = await inflated(bytes, encoding, limit);
  const parsed = text === null ? null : parseWritten(text);
  const response = parsed && 'value' in parsed && isRecord(parsed.value) ? parsed.value : null;
  return { response, text: response === null ? text : null, ...whole };
}

/** Puts a stream together, chunk by chunk as it arrived. */
function readStream(bytes: Uint8Array, { kind, arrivals }: NonNullable<RawAnswer['stream']>) {
  const events = eventStream();
  const assembler = assembled[kind]();
  let firstTokenMs: number | null = null;
  const take = (found: readonly string[], ms: number): void => {
    for (const data of found) {
      const parsed = data === '[DONE]' ? null : parseWritten(data);
      if (parsed && 'value' in parsed && assembler.take(parsed.value)) firstTokenMs ??= ms;
    }
  };
  let at = 0;
  for (let i = 0; i < arrivals.length; i += 2) {
    const [end, ms] = arrivals.subarray(i, i + 2) as unknown as [number, number];
    take(events.take(bytes.subarray(at, end)), ms);
    at = end;
  }
  take(events.end(), arrivals.at(-1) ?? 0);
  return { response: assembler.body(), incomplete: !assembler.isWhole(), firstTokenMs };
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
