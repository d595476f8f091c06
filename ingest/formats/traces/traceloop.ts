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
  restates: new Set(['task.defined']),
  mapping: [
    ['traceId', 'episode_id'],
    ['traceloop.association.properties.task_id', 'task.defined (without it the first user text)'],
    ['traceloop.association.properties.session_id, else run_id', 'episode.started.session_id'],
    ['traceloop.association.properties.*', 'episode.started.tags'],
    [
      'span without a kind: gen_ai.*, or gen_ai.prompt.N and gen_ai.completion.N',
      'generation.requested, generation.completed',
    ],
    ['span of kind agent', 'agent.defined, agent.changed; agent_id of what is inside'],
    ['span of kind tool', 'tool.returned of the call of that name and arguments, else the next open one'],
    ['span of kind workflow, task', 'environment.observed of kind span'],
  ],
};
