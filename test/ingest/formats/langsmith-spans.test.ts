/** Runs of LangGraph as LangSmith's OpenTelemetry exporter sends them. */
import { describe, expect, it } from 'vitest';
import { decodeDraft } from '../../../ingest/events/decode.ts';
import { formatNamed } from '../../../ingest/formats/catalogue.ts';
import { decodeOtlp } from '../../../ingest/traces/otlp/decode.ts';
import { eventsOfSpans } from '../../../ingest/traces/otlp-traces.ts';
import { chat, message, request, span, spanId, text } from '../support/spans.ts';

const run = (
  id: number,
  parent: number | null,
  kind: string,
  attributes: Record<string, unknown>,
  { node = null as string | null, name = 'run' } = {},
) =>
  span({
    id,
    parent,
    name,
    until: parent === null ? 99 : id + 0.5,
    attributes: {
      'langsmith.span.kind': kind,
      'langsmith.trace.session_name': 'default',
      'langsmith.metadata.thread_id': 'thread-1',
      'gen_ai.system': 'langchain',
      ...(node === null ? {} : { 'langsmith.metadata.langgraph_node': node }),
      ...Object.fromEntries(
        Object.entries(attributes).map(([key, value]) => [
          key,
          typeof value === 'object' ? JSON.stringify(value) : value,
        ]),
      ),
    },
  });

const human = { type: 'human', content: 'How far?' };
const answer = (kwargs: object) => ({
  generations: [[{ text: '', message: { lc: 1, type: 'constructor', id: ['AIMessage'], kwargs } }]],
});
const asked = [
  { id: 'c1', name: 'look_up', args: { city: 'Bern' }, type: 'tool_call' },
  { id: 'c2', name: 'look_up', args: { city: 'Rome' }, type: 'tool_call' },
];
const usage = { 'gen_ai.usage.input_tokens': 5, 'gen_ai.usage.output_tokens': 2, 'gen_ai.operation.name': 'chat' };
const toolCall = (id: string, city: string, status: string) => ({
  'gen_ai.tool.name': 'look_up',
  'gen_ai.tool.call.id': id,
  'gen_ai.operation.name': 'execute_tool',
  'gen_ai.prompt': { city },
  'gen_ai.completion': { output: { type: 'tool', content: `${city} is far`, tool_call_id: id, status } },
});
const SPANS = [
  run(1, null, 'chain', { 'gen_ai.prompt': { messages: [human] } }, { name: 'LangGraph' }),
  run(2, 1, 'chain', {}, { node: 'planner' }),
  run(
    3,
    2,
    'llm',
    {
      ...usage,
      'gen_ai.request.model': 'm1',
      'gen_ai.prompt': { messages: [[human]] },
      'gen_ai.completion': answer({ content: '', tool_calls: asked }),
    },
    { node: 'planner' },
  ),
  run(4, 1, 'chain', {}, { node: 'tools' }),
  run(5, 4, 'tool', toolCall('c1', 'Bern', 'success'), { node: 'tools' }),
  run(6, 4, 'tool', toolCall('c2', 'Rome', 'error'), { node: 'tools' }),
  run(7, 1, 'chain', {}, { node: 'writer' }),
];
const eventsOf = (spans: readonly unknown[]) => {
  const decoded = decodeOtlp(request(spans));
  expect(decoded.refusals).toEqual([]);
  const drafts = eventsOfSpans(decoded.spans, { whole: true });
  for (const draft of drafts) expect(decodeDraft(draft).refusal).toBeUndefined();
  return (name: string) =>
    drafts.filter((draft) => draft.name === name).map(({ data }) => data as never as Record<string, never>);
};

describe('a graph in spans of LangSmith', () => {
  it('has its nodes as agents, and the text of prompts and completions', () => {
    const of = eventsOf([
      ...SPANS,
      run(
        8,
        7,
        'llm',
        {
          ...usage,
          'gen_ai.prompt': { messages: [[human]] },
          'gen_ai.completion': answer({ content: 'Far.' }),
        },
        { node: 'writer' },
      ),
    ]);
    expect(of('episode.started')).toMatchObject([{ session_id: 'thread-1' }]);
    expect(of('task.defined')).toMatchObject([{ query: 'How far?' }]);
    expect(of('generation.completed').map(({ agent_id, choices, usage }) => [agent_id, choices, usage])).toEqual([
      [
        'planner',
        [
          {
            index: 0,
            content: asked.map(({ id, name, args }) => ({
              type: 'tool_call',
              id,
              name,
              arguments: args,
              arguments_raw: `{"city": "${args.city}"}`,
            })),
          },
        ],
        { input_tokens: 5, output_tokens: 2 },
      ],
      ['writer', [{ index: 0, content: 'Far.' }], { input_tokens: 5, output_tokens: 2 }],
    ]);
    expect(of('generation.requested')[0]).toMatchObject({
      model: 'm1',
      input: [{ role: 'user', content: 'How far?' }],
    });
  });

  it('has one tool call for each that was asked for, with its result and whether it failed', () => {
    const of = eventsOf(SPANS);
    expect(of('tool.called').map(({ tool_call_id, call_id, agent_id }) => [tool_call_id, call_id, agent_id])).toEqual([
      ['c1', spanId(3), 'planner'],
      ['c2', spanId(3), 'planner'],
    ]);
    expect(of('tool.returned').map(({ tool_call_id, output, status }) => [tool_call_id, output, status])).toEqual([
      ['c1', 'Bern is far', 'ok'],
      ['c2', 'Rome is far', 'error'],
    ]);
  });

  it('names the agent of a call that another instrumentation records inside a node', () => {
    const of = eventsOf([...SPANS, chat({ id: 8, parent: 7 }, [message('assistant', text('Far.'))])]);
    expect(of('generation.completed').map(({ agent_id }) => agent_id)).toEqual(['planner', 'writer']);
  });

  it('is recognised in a file', () => {
    const head = { records: [request(SPANS)], shape: 'document' as const };
    expect(formatNamed('langsmith').recognises(head)).toBe(true);
    expect(formatNamed('otel-genai').recognises(head)).toBe(false);
  });
});
