/** Traceloop spans as OTLP requests. */

import { convertOtlp, dialectOfRequest, otlpRequests } from '../../traces/otlp-traces.ts';
import { TRACELOOP } from '../../traces/traceloop-spans.ts';
import type { Format } from '../kit/format.ts';

export const traceloop: Format = {
  name: TRACELOOP,
  summary: 'Traceloop (OpenLLMetry) spans: OTLP requests whose spans have traceloop.* or gen_ai.prompt.N',
  recognises: ({ records }) => records.some((record) => dialectOfRequest(record) === TRACELOOP),
  gathers: () => 'import:otlp',
  rereads: otlpRequests,
  convert: convertOtlp,
};
