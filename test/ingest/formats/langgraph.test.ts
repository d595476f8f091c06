/** Which node of LangGraph is the agent. The paths are those of langgraph 1 with `create_supervisor` and `create_react_agent`. */
import { expect, it } from 'vitest';
import { langfuseSpanKind } from '../../../ingest/traces/langfuse-observations.ts';
import { nodeOf } from '../../../ingest/traces/langgraph.ts';
import { decodeOtlp } from '../../../ingest/traces/otlp/decode.ts';
import { eventsOfSpans } from '../../../ingest/traces/otlp-traces.ts';
import { request, span } from '../support/spans.ts';

const node = (name: string, path?: string) => ({
  langgraph_node: name,
  ...(path === undefined ? {} : { langgraph_checkpoint_ns: path }),
});

it.each([
  ['a node of its own', node('planner', 'planner:1f'), 'planner'],
  ['a node within a graph that is a node', node('planner', 'team:1f|planner:2a'), 'planner'],
  ['a ready-made agent in a team', node('agent', 'math_expert:1f|agent:2a'), 'math_expert'],
  ['one made with create_agent', node('model', 'math_expert:1f|model:2a'), 'math_expert'],
  ['one in another ready-made one', node('agent', 'math_expert:1f|agent:2a|agent:3b'), 'math_expert'],
  ['one that is alone', node('agent', 'agent:2a'), 'agent'],
  ['one without a path', node('agent'), 'agent'],
  ['no node', {}, null],
])('%s is known by its name', (_, metadata, agent) => {
  expect(nodeOf(metadata)).toBe(agent);
});

const PATH = node('agent', 'writer:1f|agent:2a');
const under = (prefix: string) =>
  Object.fromEntries(Object.entries(PATH).map(([name, value]) => [prefix + name, value]));
const gen = { 'gen_ai.request.model': 'm', 'gen_ai.usage.input_tokens': 1, 'gen_ai.usage.output_tokens': 1 };

it.each([
  ['LangSmith', { 'langsmith.span.kind': 'llm', 'gen_ai.operation.name': 'chat', ...under('langsmith.metadata.') }],
  ['OpenLLMetry', { 'llm.request.type': 'chat', ...under('traceloop.association.properties.') }],
  [
    'OpenInference',
    {
      'openinference.span.kind': 'LLM',
      metadata: JSON.stringify(PATH),
      'llm.output_messages.0.message.role': 'assistant',
      'llm.output_messages.0.message.content': 'Far.',
    },
  ],
])('spans of %s name the ready-made agent', (_, attributes) => {
  const { spans } = decodeOtlp(request([span({ id: 1, attributes: { ...gen, ...attributes } })])) as never;
  const agents = eventsOfSpans(spans).flatMap(({ name, data }) =>
    name === 'generation.requested' ? [(data as { readonly agent_id?: string }).agent_id] : [],
  );
  expect(agents).toEqual(['writer']);
});

it('observations of Langfuse name the ready-made agent', () => {
  expect(langfuseSpanKind('GENERATION', { metadata: PATH }).agent).toBe('writer');
});
