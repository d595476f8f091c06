/**
 * Spans that tracing programs export in forms of their own: Phoenix (server/api/routers/v1/spans.py, and its data frames), MLflow
 * (entities/trace.py), Braintrust (logger.py) and Opik (cli/exports/project.py). Those of Phoenix follow OpenInference inside.
 */
import { asText, given, isRecord, type JsonObject, put, without } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { langfuseSpanKind, textOfAny } from '../../traces/langfuse-observations.ts';
import { openinferenceAct } from '../../traces/openinference-spans.ts';
import type { Act, Judgement } from '../../traces/trace.ts';
import { traceReading } from '../../traces/trace-import.ts';
import { type Format, listed, listsOf } from '../kit/format.ts';
import { refusal } from '../kit/native.ts';
import { timeOfMixed, timeOfSeconds } from '../kit/run.ts';
import { jsonIn } from '../kit/span-attributes.ts';

const NAME = 'exported-spans';

export const exportedSpans: Format = {
  name: NAME,
  summary:
    'Exported spans of Phoenix {context, span_kind}, MLflow {info, data: {spans}}, Braintrust {root_span_id, span_attributes}, Opik {trace, spans}',
  recognises: ({ records }) => records.some((record) => spansIn(record) !== null),
  gathers: () => `import:${NAME}`,
  rereads: listed,
  restates: ['task.defined'],
  convert(record) {
    const reading = traceReading(NAME);
    for (const [at, one] of listsOf(record.value).flat().entries()) {
      const spans = spansIn(one);
      if (spans === null) reading.refusals.push({ ...refusal('bad_shape', '', 'an exported span', one), at });
      for (const [i, { native, read }] of (spans ?? []).entries())
        reading.read(at, native, '', 'a span', (span) => {
          const { act, judgements = [] } = read(span.native);
          reading.acts.push(act);
          reading.judgements.push(...judgements);
          // The spans of a record are of one trace.
          if (i === 0) reading.keep(act.trace, one);
        });
    }
    return reading.converted();
  },
};

type Span = { readonly act: Act; readonly judgements?: readonly Judgement[] };
type Spans = readonly { readonly native: unknown; readonly read: (native: JsonObject) => Span }[];

/** The spans of a record, and how each is read; null where it is of none of these programs. */
function spansIn(record: unknown): Spans | null {
  if (!isRecord(record)) return null;
  const { context, info, data, trace, spans } = record;
  if (isIdentifier(record.span_id) && isIdentifier(record.root_span_id) && isRecord(record.span_attributes))
    return [{ native: record, read: braintrustSpan }];
  if (isRecord(info) && isRecord(data) && Array.isArray(data.spans) && data.spans.every(isMlflow)) {
    const id = asText(info.trace_id ?? info.request_id);
    return data.spans.map((native: unknown) => ({ native, read: (span) => mlflowSpan(span, id, info) }));
  }
  if (isRecord(trace) && Array.isArray(spans) && spans.every(isOpik))
    return [trace, ...spans].map((native: unknown) => ({ native, read: (span) => opikSpan(span, trace) }));
  if (isOpik(record)) return [{ native: record, read: (span) => opikSpan(span, null) }];
  const isFramed = isIdentifier(record['context.span_id']) && isIdentifier(record['context.trace_id']);
  const isNested = isRecord(context) && isIdentifier(context.span_id) && isIdentifier(context.trace_id);
  return (isFramed || isNested) && ('span_kind' in record || 'status_code' in record)
    ? [{ native: record, read: phoenixSpan }]
    : null;
}

const isMlflow = (span: unknown): boolean =>
  isRecord(span) &&
  isRecord(span.attributes) &&
  ['mlflow.spanType', 'mlflow.traceRequestId'].some((name) => name in (span.attributes as JsonObject));

const isOpik = (span: unknown): span is JsonObject =>
  isRecord(span) &&
  isIdentifier(span.id) &&
  isIdentifier(span.trace_id) &&
  'start_time' in span &&
  /^(?:general|tool|llm|guardrail)$/.test(asText(span.type));

/** Members that are one value, whatever they hold. */
const WHOLE = /(?:^|\.)(?:metadata|invocation_parameters|value|arguments|variables|json_schema|parameters)$/;

/** Attributes by their whole names; OpenInference numbers lists of objects. */
function flat(attributes: JsonObject, prefix = '', into: Record<string, unknown> = {}): JsonObject {
  for (const [member, value] of Object.entries(attributes)) {
    const name = `${prefix}${member}`;
    const isList = Array.isArray(value) && value.length > 0 && value.every(isRecord);
    if (value === null) continue;
    if (!WHOLE.test(name) && (isList || isRecord(value))) flat(value as JsonObject, `${name}.`, into);
    else put(into, name, value);
  }
  return into;
}

function phoenixSpan(row: JsonObject): Span {
  const framed = Object.entries(row).flatMap(([name, value]) =>
    name.startsWith('attributes.') ? [[name.slice(11), value] as const] : [],
  );
  const attributes = flat(isRecord(row.attributes) ? row.attributes : Object.fromEntries(framed));
  const context = isRecord(row.context)
    ? row.context
    : { trace_id: row['context.trace_id'], span_id: row['context.span_id'] };
  const act = openinferenceAct({
    traceId: asText(context.trace_id),
    spanId: asText(context.span_id),
    parentId: isIdentifier(row.parent_id) ? row.parent_id : null,
    name: asText(row.name ?? ''),
    start: timeOfMixed(row.start_time),
    end: timeOfMixed(row.end_time),
    attributes: { ...given('openinference.span.kind', row.span_kind ?? undefined), ...attributes },
    events: (Array.isArray(row.events) ? row.events : [])
      .filter(isRecord)
      .map(({ name, timestamp, attributes: more }) => ({
        name: asText(name),
        time: timeOfMixed(timestamp),
        attributes: isRecord(more) ? more : {},
      })),
    error: row.status_code === 'ERROR' ? asText(row.status_message ?? '') : null,
    scope: '',
    resource: {},
    native: {},
  });
  return { act: { ...act, format: NAME } };
}

/** What these programs call a span, by the names of Langfuse. */
const TYPES: Readonly<Record<string, string>> = {
  chat_model: 'GENERATION',
  llm: 'GENERATION',
  tool: 'TOOL',
  agent: 'AGENT',
  retriever: 'RETRIEVER',
};

/** A span whose input and output have no fixed form. */
export function plainAct(
  place: Pick<Act, 'trace' | 'id' | 'parent' | 'start' | 'end' | 'error'>,
  type: unknown,
  body: JsonObject & { readonly input?: unknown; readonly output?: unknown },
  unmapped: JsonObject | undefined,
): Act {
  const times = { ...given('startTime', place.start ?? undefined), ...given('endTime', place.end ?? undefined) };
  const kind = TYPES[asText(type).toLowerCase()] ?? 'SPAN';
  const { what, agent } = langfuseSpanKind(kind, { id: place.id, ...times, ...body });
  const isRoot = place.parent === null;
  const { input, output } = body;
  return {
    format: NAME,
    ...place,
    name: asText(body.name ?? ''),
    what,
    agent,
    ...(isRoot ? { about: { taskText: textOfAny(questionIn(input)), answer: textOfAny(output) } } : {}),
    unmapped: without({
      ...unmapped,
      ...(what.kind === 'generation' || what.kind === 'tool' ? {} : { input, output }),
    }),
  };
}

/** What a user asked first, where the input is messages; else the input. */
function questionIn(input: unknown): unknown {
  const messages = isRecord(input) ? input.messages : input;
  const asked = Array.isArray(messages) ? messages.find((one) => isRecord(one) && one.role === 'user') : undefined;
  return isRecord(asked) ? asked.content : input;
}

const nanos = (time: unknown): string | null => timeOfSeconds(time == null ? null : Number(time) / 1e9);

function mlflowSpan(span: JsonObject, trace: string, info: JsonObject): Span {
  const attributes = Object.fromEntries(
    Object.entries(isRecord(span.attributes) ? span.attributes : {}).map(([name, value]) => [
      name,
      jsonIn(value) ?? value,
    ]),
  );
  const {
    'mlflow.spanType': type,
    'mlflow.spanInputs': input,
    'mlflow.spanOutputs': output,
    'mlflow.chat.tokenUsage': usage,
    'mlflow.llm.model': model,
    'mlflow.chat.tools': tools,
    'mlflow.spanFunctionName': _,
    'mlflow.traceRequestId': __,
    ...more
  } = attributes;
  const { messages: ___, tools: offered, model: asked, ...params } = isRecord(input) ? input : {};
  const { span_id: own, trace_id: ____, ...older } = isRecord(span.context) ? span.context : {};
  const status = isRecord(span.status) ? span.status : { code: span.status_code, message: span.status_message };
  const parent = span.parent_span_id ?? span.parent_id;
  const place = {
    trace,
    id: asText(span.span_id ?? own),
    parent: isIdentifier(parent) ? parent : null,
    start: nanos(span.start_time_unix_nano ?? span.start_time),
    end: nanos(span.end_time_unix_nano ?? span.end_time),
    error: /ERROR$/.test(asText(status.code)) ? (status.message ?? '') : undefined,
  };
  const body = {
    name: span.name,
    input: isRecord(input) && offered === undefined && tools !== undefined ? { ...input, tools } : input,
    output,
    model: model ?? asked,
    modelParameters: params,
    usageDetails: usage ?? (isRecord(output) ? output.usage : undefined),
  };
  const events = Array.isArray(span.events) && span.events.length > 0 ? { events: span.events } : {};
  const root = place.parent === null ? { info: without(info, 'trace_id', 'request_preview', 'response_preview') } : {};
  return { act: plainAct(place, type, body, { ...more, ...older, ...events, ...root }) };
}

function braintrustSpan(span: JsonObject): Span {
  const { span_attributes, metrics, metadata, scores, output, expected, input, error, ...rest } = span;
  const { type, name } = span_attributes as JsonObject;
  const { start, end, ...counts } = isRecord(metrics) ? metrics : {};
  const { model, ...params } = isRecord(metadata) ? metadata : {};
  const [parent] = Array.isArray(span.span_parents) ? span.span_parents : [];
  const place = {
    trace: asText(span.root_span_id),
    id: asText(span.span_id),
    parent: isIdentifier(parent) ? parent : null,
    start: timeOfSeconds(start) ?? timeOfMixed(span.created),
    end: timeOfSeconds(end),
    error: error ?? undefined,
  };
  const choices =
    Array.isArray(output) && output.some((one) => isRecord(one) && 'message' in one) ? { choices: output } : output;
  const {
    tokens: total_tokens,
    prompt_cached_tokens,
    prompt_cache_creation_tokens,
    completion_reasoning_tokens,
    ...tokens
  } = counts;
  const usageDetails = {
    ...given('total_tokens', total_tokens),
    ...given('cached_input_tokens', prompt_cached_tokens),
    ...given('cache_write_input_tokens', prompt_cache_creation_tokens),
    ...given('reasoning_tokens', completion_reasoning_tokens),
    ...tokens,
  };
  const body = { name, input, output: choices, model, modelParameters: params, usageDetails, metadata };
  const act = plainAct(
    place,
    type,
    body,
    without(rest, 'span_id', 'root_span_id', 'span_parents', 'created', 'is_root'),
  );
  return {
    act: act.about && expected != null ? { ...act, about: { ...act.about, groundTruth: expected } } : act,
    judgements: Object.entries(isRecord(scores) ? scores : {}).flatMap(([called, value]) =>
      judgement(place, called, value),
    ),
  };
}

/** A span, or the trace around spans, which has no type: its spans without a parent are in it. */
function opikSpan(span: JsonObject, trace: JsonObject | null): Span {
  const {
    id,
    trace_id,
    parent_span_id: parent,
    type,
    name,
    start_time,
    end_time,
    input,
    output,
    model,
    usage,
    feedback_scores,
    ...rest
  } = span;
  const { error_info: error, total_estimated_cost: cost, metadata, ...more } = rest;
  const isTrace = span === trace;
  const place = {
    trace: asText(isTrace ? id : trace_id),
    id: asText(id),
    parent: isTrace ? null : isIdentifier(parent) ? parent : isIdentifier(trace?.id) ? trace.id : null,
    start: timeOfMixed(start_time),
    end: timeOfMixed(end_time),
    error: error ?? undefined,
  };
  const usageDetails = { ...(isRecord(usage) ? usage : {}), ...given('cost_usd', isTrace ? undefined : cost) };
  const body = { name, input, output, model, usageDetails, metadata };
  return {
    act: plainAct(place, isTrace ? 'trace' : type, body, {
      ...without(more),
      ...given('metadata', metadata ?? undefined),
    }),
    judgements: (Array.isArray(feedback_scores) ? feedback_scores : [])
      .filter(isRecord)
      .flatMap((score) => judgement(place, score.name, score.value, { explanation: score.reason, by: score.source })),
  };
}

function judgement(
  { trace, id, parent, end }: Pick<Act, 'trace' | 'id' | 'parent' | 'end'>,
  name: unknown,
  value: unknown,
  { explanation, by }: JsonObject = {},
): Judgement[] {
  if (!isIdentifier(name) || (typeof value !== 'number' && typeof value !== 'boolean')) return [];
  const said = typeof explanation === 'string' && explanation !== '' ? { explanation } : {};
  const act = parent === null ? null : id;
  return [
    {
      format: NAME,
      id: null,
      trace,
      act,
      name,
      value,
      ...said,
      by: typeof by === 'string' ? by : undefined,
      time: end,
    },
  ];
}
