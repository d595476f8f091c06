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
  restates: new Set(['task.defined']),
  mapping: [
    ['traceId', 'episode_id'],
    ['gen_ai.conversation.id', 'episode.started.session_id'],
    ['troupe.task_id, task_id, else the first user text', 'task.defined'],
    [
      'span chat, text_completion, generate_content',
      'generation.requested, generation.completed: call_id is the span id',
    ],
    ['gen_ai.system_instructions, gen_ai.input.messages', 'generation.requested.input'],
    ['gen_ai.output.messages', 'choices, one a message; tool.called for each tool_call part'],
    ['gen_ai.request.*', 'generation.requested.params'],
    ['gen_ai.usage.*', 'usage'],
    ['gen_ai.agent.name of the span or the nearest around it', 'agent_id'],
    ['span invoke_agent, create_agent', 'agent.defined, agent.changed'],
    ['span execute_tool', 'tool.returned by gen_ai.tool.call.id; tool.called where no call is known'],
    ['span plan', 'decision.made of kind plan; the call within it holds the plan'],
    ['span retrieval', 'environment.observed of kind retrieval'],
    ['any other span', 'environment.observed of kind span'],
    ['root span', 'episode.started, episode.finished'],
    ['log gen_ai.client.inference.operation.details, gen_ai.*.message, gen_ai.choice', 'content of the call'],
    ['log or event gen_ai.evaluation.result', 'feedback.recorded'],
  ],
  write: writeOtlp,
};
