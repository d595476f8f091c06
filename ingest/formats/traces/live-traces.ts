/**
 * Traces as tracing clients send them: cut into requests at any place, in any order, some twice. Each request is cut into its items,
 * each with the trace that it belongs to, and an item is stored unchanged; the events of a trace are derived from all its items, so that an
 * agent named by a span that comes later is known to every span inside it.
 */
import type { Draft } from '../../events/events.ts';
import { canonicalJson, hashOfWritten, isRecord } from '../../events/json.ts';
import { keepWritten } from '../../events/known-json.ts';
import { pushAll } from '../../events/push-all.ts';
import { inOrderOf, orderOf } from '../../events/source-order.ts';
import { isContentEvent, isEvaluation } from '../../traces/otel-genai-logs.ts';
import { decodeNative, type Otlp } from '../../traces/otlp/decode.ts';
import type { OtlpLog, OtlpSpan } from '../../traces/otlp/span.ts';
import { eventsOfSpans } from '../../traces/otlp-traces.ts';
import type { TraceReading } from '../../traces/trace-import.ts';
import { readOpenaiAgents } from '../frameworks/openai-agents.ts';
import type { NativeRefusal } from '../kit/format.ts';
import { readLangfuse } from './langfuse.ts';
import { readLangsmith, traceOfPatch } from './langsmith.ts';

/** One item as the log keeps it. */
export type SpanItem = { readonly format: string; readonly item: unknown; readonly order?: string | null };

/** What became of one item of a request: drafts for the log, none where it concerns neither agents nor models, or a refusal. */
export type LiveItem = { readonly drafts: readonly Draft[] } | { readonly refusal: NativeRefusal };

const OTLP = 'otlp';

/** Format of what an erasure leaves of a trace: the events derived from its spans, without their text, in place of the spans. */
const ERASED = 'erased';

/** What an erased span holds. The first of a trace has the events derived from all of them, the others none. */
export const erasedItem = (events: readonly Draft[]): SpanItem => ({ format: ERASED, item: { told: events } });

type Reader = {
  readonly read: (requests: readonly unknown[]) => TraceReading;
  /** The items of a request, each as a request of its own; null where it is no request of this format. */
  readonly cut: (request: Readonly<Record<string, unknown>>) => readonly unknown[] | null;
  /** The trace of an item that yields no events until another one comes. */
  readonly waits?: (item: unknown) => string | null;
};

const listAt = (request: Readonly<Record<string, unknown>>, name: string): readonly unknown[] | null => {
  const list = request[name];
  return Array.isArray(list) ? list.map((one) => ({ [name]: [one] })) : null;
};

/** Formats whose clients have ingestion endpoints of their own. */
const LIVE_FORMATS = {
  'openai-agents': { read: readOpenaiAgents, cut: (request) => listAt(request, 'data') },
  langfuse: { read: readLangfuse, cut: (request) => listAt(request, 'batch') ?? listAt(request, 'scores') },
  langsmith: {
    read: readLangsmith,
    waits: traceOfPatch,
    cut: (request) => {
      const [post, patch] = [listAt(request, 'post'), listAt(request, 'patch')];
      if (post || patch) return [...(post ?? []), ...(patch ?? [])];
      return 'run_type' in request || 'key' in request ? [request] : null;
    },
  },
} as const satisfies Record<string, Reader>;

export type LiveFormat = keyof typeof LIVE_FORMATS;

/** The items of one request of a format; null where it is no such request. */
export function cutRequest(format: LiveFormat, request: unknown): readonly LiveItem[] | null {
  const { read, cut, waits }: Reader = LIVE_FORMATS[format];
  if (!isRecord(request)) return null;
  return (
    cut(request)?.map((item): LiveItem => {
      const awaited = waits?.(item) ?? null;
      if (awaited !== null) return { drafts: [recorded(awaited, null, { format, item })] };
      const reading = read([item]);
      const [refusal] = reading.refusals;
      if (refusal) return { refusal };
      const trace = reading.acts[0]?.trace ?? reading.judgements[0]?.trace ?? null;
      // What names no trace needs none of the others.
      return { drafts: trace === null ? reading.live() : [recorded(trace, null, { format, item })] };
    }) ?? null
  );
}

/** Decoded spans and log records, each as the item that the log keeps. A log record that concerns no model has no draft. */
export function cutOtlp({
  spans,
  logs,
}: Pick<Otlp, 'spans' | 'logs'>): readonly { readonly drafts: readonly Draft[] }[] {
  return [
    ...spans.map(({ traceId, end, native }) => ({ drafts: [recorded(traceId, end, { format: OTLP, item: native })] })),
    ...logs.map((log) => {
      if (!isContentEvent(log.name) && !isEvaluation(log.name)) return { drafts: [] };
      if (log.traceId === null) return { drafts: eventsOfSpans([], { logs: [log] }) };
      return { drafts: [recorded(log.traceId, log.time, { format: OTLP, item: log.native })] };
    }),
  ];
}

const recorded = (trace: string, time: string | null, { format, item }: SpanItem): Draft => {
  // OTLP has lists of attributes, and spells its numbers in one way.
  const order = format === OTLP ? '' : orderOf(item);
  return {
    name: 'span.recorded',
    source: `/trace/${format}`,
    id: idOf(item),
    time,
    data: { episode_id: trace, format, item, ...(order === '' ? {} : { order }) },
  };
};

/** `hashId` of an item, which keeps its text: hashing has put it together, from some hundred pieces, and the event is written of it next. */
function idOf(item: unknown): string {
  const json = `[${canonicalJson(item)}]`;
  const id = hashOfWritten(json);
  if (isRecord(item)) keepWritten(item, json.slice(1, -1));
  return id;
}

/** The data of `span.recorded` from their canonical JSON, which is how the log holds them. The item keeps what of it is its own. */
export function readRecorded(json: string): unknown {
  const data: unknown = JSON.parse(json);
  if (!isRecord(data) || !isRecord(data.item) || Object.keys(data).length !== 3) return data;
  const before = `{"episode_id":${JSON.stringify(data.episode_id)},"format":${JSON.stringify(data.format)},"item":`;
  if (json.startsWith(before)) keepWritten(data.item, json.slice(before.length, -1));
  return data;
}

/** The events of one trace, derived from all its items so far, whatever their order. Items of unknown formats yield none. */
export function eventsOfTrace(items: readonly SpanItem[]): readonly Draft[] {
  const spans: OtlpSpan[] = [];
  const logs: OtlpLog[] = [];
  const others = new Map<string, unknown[]>();
  const erased: Draft[] = [];
  for (const { format, item, order } of items) {
    if (format === ERASED) pushAll(erased, (item as { told: readonly Draft[] }).told ?? []);
    else if (format !== OTLP)
      others.set(format, [...(others.get(format) ?? []), order ? inOrderOf(item, order) : item]);
    else {
      const decoded = decodeNative(item);
      if (decoded === null) continue;
      if ('span' in decoded) spans.push(decoded.span);
      else logs.push(decoded.log);
    }
  }
  return [
    ...erased,
    ...eventsOfSpans(spans, { logs }),
    ...[...others].sort(byName).flatMap(([format, requests]) => {
      const reader = Object.hasOwn(LIVE_FORMATS, format) ? LIVE_FORMATS[format as LiveFormat] : null;
      return reader ? reader.read(requests).live() : [];
    }),
  ];
}

const byName = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => (a < b ? -1 : 1);
