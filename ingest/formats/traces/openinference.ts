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
  restates: new Set(['task.defined']),
  mapping: [
    ['traceId', 'episode_id'],
    ['session.id', 'episode.started.session_id'],
    ['metadata.task_id, input.value of the root', 'task.defined (without them the first user text)'],
    ['span LLM', 'generation.requested, generation.completed: call_id is the span id'],
    ['llm.input_messages.N, llm.output_messages.N', 'input, choices; tool.called'],
    ['llm.invocation_parameters', 'generation.requested.params'],
    ['llm.token_count.*', 'usage'],
    ['span AGENT: agent.name, else graph.node.name', 'agent.defined, agent.changed; agent_id of what is inside'],
    ['span TOOL', 'tool.returned by tool.id; tool.called where no call is known'],
    ['span RETRIEVER, RERANKER', 'environment.observed'],
    ['any other span, or one without a kind', 'environment.observed of kind span'],
    ['annotations.N, trace.annotations.N, session.annotations.N', 'feedback.recorded'],
  ],
};
