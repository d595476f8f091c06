/**
 * Spans and log records of OTLP as events, whichever conventions each of them follows: one trace often mixes them. Files and live
 * requests come this way, so that a span read from a file is the event that it was when it was posted.
 */
import type { Draft } from '../events/events.ts';
import { canonicalJson, hashId, isRecord } from '../events/json.ts';
import { pushAll } from '../events/push-all.ts';
import { type Conversion, listed, listsOf, type NativeRecord, type NativeRefusal } from '../formats/kit/format.ts';
import { isLangfuseSpan, langfuseSpanAct } from './langfuse-spans.ts';
import { isLangsmithSpan, LANGSMITH, langsmithSpanAct } from './langsmith-spans.ts';
import { isLitellmCall, litellmCall } from './litellm-spans.ts';
import { openinferenceJudgements } from './openinference-annotations.ts';
import { isOpeninference, OPENINFERENCE, openinferenceAct } from './openinference-spans.ts';
import { contentAttributes, evaluationOf, isContentEvent, isEvaluation, OTEL_GENAI } from './otel-genai-logs.ts';
import { genaiAct } from './otel-genai-spans.ts';
import { decodeOtlp, isOtlp } from './otlp/decode.ts';
import type { OtlpLog, OtlpSpan } from './otlp/span.ts';
import { type Act, CONFLICTING_SPAN, type Judgement } from './trace.ts';
import { type TraceDrafts, traceDrafts } from './trace-drafts.ts';
import { isTraceloop, TRACELOOP, traceloopAct } from './traceloop-spans.ts';
import { isVercelAi, VERCEL_AI, vercelAct } from './vercel-ai-spans.ts';

/** Source of all events from OTLP. */
const SOURCE = '/otlp';
export const LANGFUSE = 'langfuse';

/** The conventions of a span; null where it concerns no agent and no model. */
function dialectOf(span: OtlpSpan): string | null {
  if (isLitellmCall(span)) return OTEL_GENAI;
  if (isOpeninference(span)) return OPENINFERENCE;
  if (isVercelAi(span)) return VERCEL_AI;
  if (isLangfuseSpan(span)) return LANGFUSE;
  if (isLangsmithSpan(span)) return LANGSMITH;
  if (isTraceloop(span)) return TRACELOOP;
  return Object.keys(span.attributes).some((key) => key.startsWith('gen_ai.')) ? OTEL_GENAI : null;
}

function actOf(span: OtlpSpan, dialect: string | null): Act {
  switch (dialect) {
    case OPENINFERENCE:
      return openinferenceAct(span);
    case VERCEL_AI:
      return vercelAct(span);
    case LANGFUSE:
      return langfuseSpanAct(span);
    case LANGSMITH:
      return langsmithSpanAct(span);
    case TRACELOOP:
      return traceloopAct(span);
    default:
      return genaiAct(isLitellmCall(span) ? litellmCall(span) : span);
  }
}

/** AutoGen creates each agent, and passes each message on, in a trace of its own: that alone is no attempt at anything. */
const isPassing = ({ attributes }: OtlpSpan): boolean =>
  attributes['gen_ai.operation.name'] === 'create_agent' || 'messaging.operation' in attributes;

export type SpanOptions = {
  readonly logs?: readonly OtlpLog[];
  /** Spans of the same traces that were mapped before: they identify agents and callers, and make no events of their own. */
  readonly context?: readonly OtlpSpan[];
  /** True where no more of these traces is expected: their episodes begin and end also without a root. */
  readonly whole?: boolean;
  readonly originalOf?: (trace: string) => string | null;
};

/**
 * The events of spans and log records, the same whatever their order. Traces in which no span concerns agents or models make none.
 * A span brings the same events in any request; only the agent around it, the call that a tool run answers and the task of its
 * episode depend on which other spans are at hand.
 */
export const eventsOfSpans = (spans: readonly OtlpSpan[], options: SpanOptions = {}): readonly Draft[] =>
  draftsOfSpans(spans, options).drafts;

function draftsOfSpans(
  spans: readonly OtlpSpan[],
  { logs = [], context = [], whole = false, originalOf }: SpanOptions,
): TraceDrafts {
  const all = [...context, ...spans];
  const emitted = new Set<Act>();
  const contents = logsByCall(logs, spans);
  const dialects = all.map(dialectOf);
  const conflicting = conflictsAmong(all);
  const acts = all.map((span, i) => {
    const logged = contents.size === 0 ? [] : (contents.get(callKey(span.traceId, span.spanId)) ?? []);
    const full = withContent(span, logged);
    const read = actOf(full, full === span ? dialects[i]! : dialectOf(full));
    const isConflicting = conflicting.has(callKey(span.traceId, span.spanId));
    const act = isConflicting ? { ...read, flags: [...(read.flags ?? []), CONFLICTING_SPAN] } : read;
    if (i >= context.length) emitted.add(act);
    return act;
  });
  const known = new Set(logs.length === 0 ? [] : all.map((span) => callKey(span.traceId, span.spanId)));
  const loose = logs
    .filter((log) => isContentEvent(log.name))
    .filter(({ traceId, spanId }) => !known.has(callKey(traceId, spanId)));
  for (const act of looseActs(loose)) {
    acts.push(act);
    emitted.add(act);
  }
  const relevant = new Set(
    all.filter((span, i) => dialects[i] !== null && !isPassing(span)).map(({ traceId }) => traceId),
  );
  for (const { traceId } of loose) if (traceId !== null) relevant.add(traceId);
  const judgements: Judgement[] = [
    ...spans.filter((_, i) => dialects[context.length + i] === OPENINFERENCE).flatMap(openinferenceJudgements),
    ...spans.flatMap((span) =>
      span.events
        .filter(({ name }) => isEvaluation(name))
        .map(({ time, attributes }) => evaluationOf({ traceId: span.traceId, spanId: span.spanId, time, attributes })),
    ),
    ...logs.filter((log) => isEvaluation(log.name)).map(evaluationOf),
  ];
  return traceDrafts(
    acts.filter(({ trace }) => relevant.has(trace)),
    judgements,
    { source: SOURCE, whole, emits: (act) => emitted.has(act), ...(originalOf ? { originalOf } : {}) },
  );
}

/**
 * Spans that ended twice in different words: one of them shows. A span that was sent before it ended, or by way of another resource,
 * says nothing else.
 */
function conflictsAmong(spans: readonly OtlpSpan[]): ReadonlySet<string> {
  const ended = new Map<string, OtlpSpan>();
  const found = new Set<string>();
  for (const span of spans) {
    if (span.end === null) continue;
    const key = callKey(span.traceId, span.spanId);
    const before = ended.get(key);
    if (!before) ended.set(key, span);
    else if (canonicalJson(before.native.span) !== canonicalJson(span.native.span)) found.add(key);
  }
  return found;
}

const callKey = (trace: string | null, span: string | null): string => `${trace}/${span}`;

function logsByCall(logs: readonly OtlpLog[], spans: readonly OtlpSpan[]): ReadonlyMap<string, OtlpLog[]> {
  if (logs.length === 0) return new Map();
  const found = new Map<string, OtlpLog[]>(spans.map((span) => [callKey(span.traceId, span.spanId), []]));
  for (const log of logs) if (isContentEvent(log.name)) found.get(callKey(log.traceId, log.spanId))?.push(log);
  return found;
}

/** A span with the content that came beside it, in logs or in its own events. Attributes of the span itself win. */
function withContent(span: OtlpSpan, logs: readonly OtlpLog[]): OtlpSpan {
  if (span.events.length === 0 && logs.length === 0) return span;
  const contents = [
    ...span.events.filter(({ name }) => isContentEvent(name)).map((event) => ({ ...event, body: null })),
    ...[...logs].sort((a, b) => ((a.time ?? '') < (b.time ?? '') ? -1 : a.time === b.time ? 0 : 1)),
  ];
  return contents.length === 0 ? span : { ...span, attributes: { ...contentAttributes(contents), ...span.attributes } };
}

/** Content of calls whose spans are not at hand: of a whole call the call itself, of a single message what was seen. */
function looseActs(logs: readonly OtlpLog[]): Act[] {
  return logs.flatMap((log): Act[] => {
    const { traceId, spanId, time, name } = log;
    if (traceId === null) return [];
    const id = spanId ?? `log/${hashId(log.native)}`;
    const attributes = { ...contentAttributes([log]), ...log.attributes };
    const span = { ...BARE, traceId, spanId: id, end: time, attributes, native: log.native };
    const act = genaiAct(span);
    // Its parent is not known: it is no root.
    const placed = { ...act, parent: '', start: null };
    if (act.what.kind === 'generation') return [placed];
    const seen = {
      kind: 'observation',
      seen: name,
      content: { ...(isRecord(log.body) ? log.body : { body: log.body }), ...log.attributes },
    } as const;
    return [{ ...placed, id: `log/${hashId(log.native)}`, parent: spanId ?? '', what: seen }];
  });
}

const BARE: OtlpSpan = {
  traceId: '',
  spanId: '',
  parentId: null,
  name: '',
  start: null,
  end: null,
  attributes: {},
  events: [],
  error: null,
  scope: '',
  resource: {},
  native: {},
};

/** All requests of an import as one record: their spans by trace, each trace with its original. */
export function convertOtlp(record: NativeRecord): Conversion {
  const spans: OtlpSpan[] = [];
  const logs: OtlpLog[] = [];
  const refusals: NativeRefusal[] = [];
  for (const [at, request] of listsOf(record.value).flat().entries()) {
    const decoded = decodeOtlp(request);
    pushAll(spans, decoded.spans);
    pushAll(logs, decoded.logs);
    for (const refusal of decoded.refusals) refusals.push({ ...refusal, at });
  }
  const originals = new Map<string, Set<string>>();
  for (const { traceId, native } of [...spans, ...logs]) {
    if (traceId === null) continue;
    originals.set(traceId, (originals.get(traceId) ?? new Set()).add(canonicalJson(native)));
  }
  const originalOf = (trace: string): string | null => {
    const items = originals.get(trace);
    return items ? `[${[...items].sort().join(',')}]` : null;
  };
  const { drafts, bodies } = draftsOfSpans(spans, { logs, whole: true, originalOf });
  return { drafts, refusals, raw: null, bodies };
}

/** The stored original of a trace as requests, one for each span or log record in it. */
export const otlpRequests = (stored: unknown): readonly unknown[] =>
  listed(stored).flatMap((item): unknown[] => {
    const { resource, scope, span, log } = (isRecord(item) ? item : {}) as Readonly<Record<string, unknown>>;
    if (span !== undefined) return [{ resourceSpans: [{ resource, scopeSpans: [{ scope, spans: [span] }] }] }];
    return log === undefined ? [] : [{ resourceLogs: [{ resource, scopeLogs: [{ scope, logRecords: [log] }] }] }];
  });

/** The conventions of a request: those that most of its spans follow, besides the plain GenAI ones. Null where it is no request. */
export function dialectOfRequest(value: unknown): string | null {
  if (!isOtlp(value)) return null;
  const before = seen.get(value);
  if (before !== undefined) return before;
  const counts = new Map<string, number>();
  for (const span of decodeOtlp(value).spans) {
    const dialect = dialectOf(span);
    if (dialect !== null && dialect !== OTEL_GENAI) counts.set(dialect, (counts.get(dialect) ?? 0) + 1);
  }
  const [most] = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  const dialect = most?.[0] ?? OTEL_GENAI;
  seen.set(value, dialect);
  return dialect;
}

const seen = new WeakMap<object, string>();
