/** Spans and log records as OTLP requests, JSON or protobuf, a format for each dialect. All OTLP files of an import are read together. */
import { OPENINFERENCE } from '../../traces/openinference-spans.ts';
import { OTEL_GENAI } from '../../traces/otel-genai-logs.ts';
import { convertOtlp, dialectOfRequest, otlpRequests } from '../../traces/otlp-traces.ts';
import { TRACELOOP } from '../../traces/traceloop-spans.ts';
import { VERCEL_AI } from '../../traces/vercel-ai-spans.ts';
import type { Format } from '../kit/format.ts';
import { writeOtlp } from './otel-genai-write.ts';

const otlp = (name: string, summary: string): Format => ({
  name,
  summary,
  recognises: ({ records }) => records.some((record) => dialectOfRequest(record) === name),
  // A trace may be spread over files in any order.
  gathers: () => 'import:otlp',
  rereads: otlpRequests,
  convert: convertOtlp,
});

export const openinference = otlp(
  OPENINFERENCE,
  'OpenInference spans: OTLP requests whose spans have openinference.span.kind',
);
export const traceloop = otlp(
  TRACELOOP,
  'Traceloop (OpenLLMetry) spans: OTLP requests whose spans have traceloop.* or gen_ai.prompt.N',
);
export const vercelAi = otlp(
  VERCEL_AI,
  'Vercel AI SDK spans: OTLP requests whose spans have ai.* or the operation agent_step',
);
/** Also written: any episode is exported in the conventions of GenAI. */
export const otelGenai: Format = {
  ...otlp(
    OTEL_GENAI,
    'OpenTelemetry GenAI spans and logs: OTLP requests {resourceSpans} or {resourceLogs}, JSON or protobuf',
  ),
  write: writeOtlp,
};
