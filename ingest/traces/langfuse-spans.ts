/** Spans that Langfuse's own OpenTelemetry exporter sends (langfuse/langfuse, packages/shared/src/server/otel/attributes.ts). */
import { asText, given, isRecord, without } from '../events/json.ts';
import { idAt, jsonIn, jsonOrText, leftover, textAt, under } from '../formats/kit/span-attributes.ts';
import { langfuseSpanKind } from './langfuse-observations.ts';
import { placeOf, restOf } from './otel-genai-spans.ts';
import type { OtlpSpan } from './otlp/span.ts';
import type { Act } from './trace.ts';

export const isLangfuseSpan = ({ attributes }: OtlpSpan): boolean =>
  Object.keys(attributes).some((key) => key.startsWith('langfuse.'));

/** Since version 5 the SDK for Python writes each value of metadata as JSON, texts too; that for JavaScript writes texts as they are. */
function encodesMetadata({ resource, native }: OtlpSpan): boolean {
  const { version } = (isRecord(native.scope) ? native.scope : {}) as { readonly version?: unknown };
  return resource['telemetry.sdk.language'] === 'python' && Number.parseInt(asText(version), 10) >= 5;
}

const OBSERVATION = 'langfuse.observation.';
const TRACE = 'langfuse.trace.';
const MAPPED =
  /^langfuse\.(?:observation\.(?:type|input|output|model\.name|model\.parameters|usage_details)|trace\.(?:tags|metadata.*))$|^session\.id$/;

export function langfuseSpanAct(span: OtlpSpan): Act {
  const observation = under(span.attributes, OBSERVATION) ?? {};
  const trace = under(span.attributes, TRACE) ?? {};
  const read = encodesMetadata(span) ? jsonOrText : (value: unknown) => value;
  const metadataOf = (holder: Record<string, unknown>): Record<string, unknown> => ({
    ...asRecord(holder.metadata),
    ...Object.fromEntries(Object.entries(under(holder, 'metadata.') ?? {}).map(([name, value]) => [name, read(value)])),
  });
  const metadata = metadataOf(trace);
  const type = typeof observation.type === 'string' ? observation.type.toUpperCase() : 'SPAN';
  const { agent, what } = langfuseSpanKind(type, {
    name: span.name,
    input: jsonOrText(observation.input),
    output: jsonOrText(observation.output),
    model: observation['model.name'],
    modelParameters: jsonIn(observation['model.parameters']),
    usageDetails: jsonIn(observation.usage_details),
    costDetails: jsonIn(observation.cost_details),
    metadata: metadataOf(observation),
  });
  const failed = observation.level === 'ERROR' ? { error: observation.status_message ?? '' } : {};
  return {
    ...placeOf(span, 'langfuse'),
    ...failed,
    what,
    agent,
    about: {
      sessionId: idAt(span.attributes, 'session.id', 'langfuse.session.id'),
      taskId: idAt(metadata, 'task_id'),
      tags: without({
        tags: jsonIn(trace.tags),
        metadata: without(metadata, 'task_id'),
        ...given('trace', textAt(trace, 'name')),
      }),
    },
    unmapped: without({ attributes: leftover(span.attributes, (key) => MAPPED.test(key)), ...restOf(span) }),
  };
}

const asRecord = (value: unknown): Record<string, unknown> => {
  const read = jsonIn(value);
  return isRecord(read) ? read : {};
};
