/** Spans as a request of the OpenTelemetry protocol, in its JSON form (opentelemetry-proto, trace/v1/trace.proto). */
import type { Attributes, Span } from './spans.ts';

/** SPAN_KIND_INTERNAL, SPAN_KIND_SERVER; STATUS_CODE_ERROR. */
const KIND = { internal: 1, server: 2 };
const ERROR = 2;

/** `resource` names the process that the spans are of. */
export const exportRequest = (spans: readonly Span[], resource: Attributes, version: string): object => ({
  resourceSpans: [
    {
      resource: { attributes: attributesOf(resource) },
      scopeSpans: [{ scope: { name: 'troupe', version }, spans: spans.map(oneSpan) }],
    },
  ],
});

const oneSpan = ({ traceId, spanId, parentId, name, isServer, began, ended, attributes, error }: Span) => ({
  traceId,
  spanId,
  ...(parentId === null ? {} : { parentSpanId: parentId }),
  name,
  kind: isServer ? KIND.server : KIND.internal,
  startTimeUnixNano: nanoseconds(began),
  endTimeUnixNano: nanoseconds(ended),
  attributes: attributesOf(error === null ? attributes : { ...attributes, 'error.type': error }),
  ...(error === null ? {} : { status: { code: ERROR } }),
});

/** 64 bits as decimal text: a number of JSON would lose the last of them. */
const nanoseconds = (milliseconds: number): string => String(BigInt(Math.round(1000 * milliseconds)) * 1000n);

const attributesOf = (attributes: Attributes): object[] =>
  Object.entries(attributes).flatMap(([key, value]) => (value === null ? [] : [{ key, value: anyValue(value) }]));

function anyValue(value: string | number | readonly string[]): object {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value !== 'number') return { arrayValue: { values: value.map(anyValue) } };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
