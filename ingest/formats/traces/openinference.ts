/** OpenInference spans as OTLP requests. */

import { OPENINFERENCE } from '../../traces/openinference-spans.ts';
import { convertOtlp, dialectOfRequest, otlpRequests } from '../../traces/otlp-traces.ts';
import type { Format } from '../kit/format.ts';

export const openinference: Format = {
  name: OPENINFERENCE,
  summary: 'OpenInference spans: OTLP requests whose spans have openinference.span.kind',
  recognises: ({ records }) => records.some((record) => dialectOfRequest(record) === OPENINFERENCE),
  gathers: () => 'import:otlp',
  rereads: otlpRequests,
  convert: convertOtlp,
};
