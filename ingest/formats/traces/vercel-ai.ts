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
  restates: new Set(['task.defined']),
  mapping: [
    ['traceId', 'episode_id'],
    ['ai.settings.context.taskId, ai.telemetry.metadata.taskId', 'task.defined (without them the first user text)'],
    ['ai.settings.context.sessionId, else runId', 'episode.started.session_id'],
    ['ai.settings.context.*, ai.telemetry.metadata.*', 'episode.started.tags'],
    ['ai.telemetry.functionId, gen_ai.agent.name', 'agent_id'],
    ['span ai.*.doGenerate, ai.*.doStream, chat', 'generation.requested, generation.completed'],
    ['span ai.generateText, ai.streamText, …', 'agent.defined, agent.changed'],
    ['span ai.toolCall, execute_tool', 'tool.returned by call id; tool.called where no call is known'],
    ['any other span', 'environment.observed of kind span'],
  ],
};
