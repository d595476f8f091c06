/**
 * Spans that LangSmith's own OpenTelemetry exporter sends (langchain-ai/langsmith-sdk, _internal/otel/_otel_exporter.py): a run as a
 * span, its inputs in `gen_ai.prompt`, its outputs in `gen_ai.completion`, its metadata under `langsmith.metadata.`.
 */
import { given, isRecord, without } from '../events/json.ts';
import { jsonIn, jsonOrText, leftover, textAt, under } from '../formats/kit/span-attributes.ts';
import { langsmithAct } from './langsmith-runs.ts';
import { placeOf, restOf, spanUsage } from './otel-genai-spans.ts';
import type { OtlpSpan } from './otlp/span.ts';
import type { Act } from './trace.ts';

export const LANGSMITH = 'langsmith';

const KIND = 'langsmith.span.kind';
const METADATA = 'langsmith.metadata.';
const REQUEST = 'gen_ai.request.';
const MAPPED =
  /^gen_ai\.(?:prompt|completion|operation\.name|tool\.(?:name|call\.id|definitions)|request\..+|usage\..+)$|^langsmith\.(?:span\.(?:kind|tags)|trace\.session_name)$/;

export const isLangsmithSpan = ({ attributes }: OtlpSpan): boolean => KIND in attributes;

export function langsmithSpanAct(span: OtlpSpan): Act {
  const { attributes } = span;
  const kind = textAt(attributes, KIND);
  const metadata = Object.fromEntries(
    Object.entries(under(attributes, METADATA) ?? {}).map(([name, value]) => [name, jsonOrText(value)]),
  );
  const tags = textAt(attributes, 'langsmith.span.tags')?.split(', ');
  const run = {
    id: span.spanId,
    parent_run_id: span.parentId,
    name: span.name,
    run_type: kind,
    inputs: inObject('input', attributes['gen_ai.prompt']),
    outputs: inObject('output', attributes['gen_ai.completion']),
    start_time: span.start,
    end_time: span.end,
    extra: {
      metadata,
      invocation_params: {
        ...under(attributes, REQUEST),
        ...given('tools', jsonIn(attributes['gen_ai.tool.definitions'])),
      },
    },
    ...given('tags', tags),
    ...given('session_name', textAt(attributes, 'langsmith.trace.session_name')),
    ...given('tool_call_id', textAt(attributes, 'gen_ai.tool.call.id')),
  };
  const { what, agent, about } = langsmithAct(LANGSMITH, run, span.parentId === null ? span.spanId : span.traceId);
  const isRead = what.kind === 'generation' || what.kind === 'tool';
  return {
    ...placeOf(span, LANGSMITH),
    what: what.kind === 'generation' ? ({ usage: spanUsage(attributes), ...without(what) } as typeof what) : what,
    agent: agent ?? null,
    ...given('about', about),
    unmapped: without({ attributes: leftover(attributes, (key) => isRead && MAPPED.test(key)), ...restOf(span) }),
  };
}

/** Inputs and outputs are objects; anything else stands in the one member that LangChain gives it. */
function inObject(name: string, written: unknown): Record<string, unknown> | undefined {
  if (written === undefined) return undefined;
  const read = jsonOrText(written);
  return isRecord(read) ? read : { [name]: read };
}
