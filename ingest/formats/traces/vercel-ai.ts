/** Spans of the Vercel AI SDK as OTLP requests. */

import { convertOtlp, dialectOfRequest, otlpRequests } from '../../traces/otlp-traces.ts';
import { VERCEL_AI } from '../../traces/vercel-ai-spans.ts';
import type { Format } from '../kit/format.ts';

export const vercelAi: Format = {
  name: VERCEL_AI,
  summary: 'Vercel AI SDK spans: OTLP requests whose spans have ai.* or the operation agent_step',
  recognises: ({ records }) => records.some((record) => dialectOfRequest(record) === VERCEL_AI),
  gathers: () => 'import:otlp',
  rereads: otlpRequests,
  convert: convertOtlp,
};
