/**
 * OpenTelemetry GenAI spans and log records as OTLP requests, JSON or protobuf, in both directions. All OTLP files of an import are
 * read together, since a trace may be spread over them in any order.
 */

import { OTEL_GENAI } from '../../traces/otel-genai-logs.ts';
import { convertOtlp, dialectOfRequest, otlpRequests } from '../../traces/otlp-traces.ts';
import type { Format } from '../kit/format.ts';
import { writeOtlp } from './otel-genai-write.ts';

export const otelGenai: Format = {
  name: OTEL_GENAI,
  summary: 'OpenTelemetry GenAI spans and logs: OTLP requests {resourceSpans} or {resourceLogs}, JSON or protobuf',
  recognises: ({ records }) => records.some((record) => dialectOfRequest(record) === OTEL_GENAI),
  gathers: () => 'import:otlp',
  rereads: otlpRequests,
  convert: convertOtlp,
  write: writeOtlp,
};
