/** What Langfuse, LangChain and LiteLLM write today, read as it was. */
import { describe, expect, it } from 'vitest';
import { request, span } from '../support/spans.ts';
import { known, read } from './support/convert.ts';

const observation = (more: object) => ({
  traceId: 't',
  name: 'model',
  parentObservationId: null,
  startTime: '2026-10-01T10:00:00.000Z',
  endTime: '2026-10-01T10:00:01.000Z',
  ...more,
});
const TRACE = {
  id: 't',
  timestamp: '2026-10-01T10:00:00.000Z',
  name: 'run',
  tags: [],
  metadata: {},
  input: 'Find it.',
};
const CALLS = {
  'as LangChain writes them': { tool_calls: [{ id: 'c1', name: 'search', args: { q: 'ferry' }, type: 'tool_call' }] },
  'among what LangChain keeps of the provider': {
    additional_kwargs: {
      tool_calls: [{ id: 'c1', function: { arguments: '{"q": "ferry"}', name: 'search' }, type: 'function' }],
    },
  },
  'as OpenAI writes them': {
    tool_calls: [{ id: 'c1', function: { arguments: '{"q": "ferry"}', name: 'search' }, type: 'function' }],
  },
};
const observations = (answer: object) => [
  observation({
    id: 'a',
    type: 'GENERATION',
    metadata: { langgraph_node: 'agent' },
    input: [{ role: 'user', content: 'Find it.' }],
    output: { role: 'assistant', content: '', ...answer },
    usageDetails: { input: 10, output: 5 },
  }),
  observation({
    id: 'b',
    type: 'TOOL',
    name: 'search',
    metadata: { langgraph_node: 'tools' },
    input: "{'q': 'ferry'}",
    output: { content: '09:40', type: 'tool', name: 'search', tool_call_id: 'c1', status: 'success' },
  }),
];
const written = (value: unknown): unknown =>
  typeof value === 'object' && value !== null ? JSON.stringify(value) : value;
const inTexts = (row: Record<string, unknown>) =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      /^(?:input|output|metadata|tags)$/.test(name) ? written(value) : value,
    ]),
  );

describe('A call of LangChain that Langfuse traced', () => {
  it.each(Object.entries(CALLS))('asked for its tools, %s', (_, answer) => {
    const { of, refused } = read('langfuse', [[{ ...TRACE, scores: [], observations: observations(answer) }]]);
    expect(refused).toEqual([]);
    expect(of('tool.called')).toMatchObject([
      { agent_id: 'agent', call_id: 'a', tool_call_id: 'c1', name: 'search', arguments: { q: 'ferry' } },
    ]);
    expect(of('tool.called')[0]!.flags).toBeUndefined();
    expect(of('tool.returned')).toMatchObject([{ tool_call_id: 'c1', call_id: 'a', status: 'ok', output: '09:40' }]);
    expect(JSON.stringify(of('generation.completed')[0]!.choices)).toContain('"tool_call"');
  });

  it('has a tool that failed where its message says so', () => {
    const [call, tool] = observations(CALLS['as LangChain writes them']);
    const failed = { ...tool, output: { content: 'gone', type: 'tool', tool_call_id: 'c1', status: 'error' } };
    const { of } = read('langfuse', [[{ ...TRACE, scores: [], observations: [call, failed] }]]);
    expect(of('tool.returned')).toMatchObject([{ status: 'error', output: 'gone' }]);
  });
});

describe('What the web page of Langfuse downloads', () => {
  const answer = CALLS['as OpenAI writes them'];
  it.each([
    ['with values', { trace: TRACE, observations: observations(answer) }],
    ['with values as texts', { trace: inTexts(TRACE), observations: observations(answer).map(inTexts) }],
  ])('is the trace, %s', (_, download) => {
    expect(known(download)).toBe('langfuse');
    const { of, refused } = read('langfuse', [[download]]);
    expect(refused).toEqual([]);
    expect(of('task.defined')).toMatchObject([{ query: 'Find it.' }]);
    expect(of('generation.completed')).toMatchObject([
      { agent_id: 'agent', usage: { input_tokens: 10, output_tokens: 5 } },
    ]);
    expect(of('tool.called')).toMatchObject([{ agent_id: 'agent', arguments: { q: 'ferry' } }]);
    expect(of('tool.returned')).toMatchObject([{ output: '09:40' }]);
  });

  it('is no trace where the observations are those of another', () => {
    expect(known({ trace: { id: 'other' }, observations: observations(answer) })).toBeNull();
  });
});

describe('Metadata of the Langfuse SDK', () => {
  const METADATA = {
    'langfuse.observation.metadata.agent_name': '"alice"',
    'langfuse.trace.metadata.task_id': '"007"',
  };
  const sent = (language: string, version: string) => {
    const attributes = { 'langfuse.observation.type': 'generation', 'langfuse.observation.output': 'a', ...METADATA };
    const value = request([span({ id: 1, attributes })], { 'telemetry.sdk.language': language });
    Object.assign(value.resourceSpans[0]!.scopeSpans[0]!, {
      scope: { name: 'langfuse-sdk', version },
    });
    const { of } = read('langfuse', [[value]]);
    return [of('generation.completed')[0]!.agent_id, of('episode.started')[0]!.task_id];
  };
  it('for Python is JSON since version 5, and texts before it and for JavaScript', () => {
    expect(sent('python', '5.0.4')).toEqual(['alice', '007']);
    expect(sent('python', '4.2.0')).toEqual(['"alice"', '"007"']);
    expect(sent('nodejs', '5.11.1')).toEqual(['"alice"', '"007"']);
  });
});

describe('A row of the table of spend of LiteLLM', () => {
  const row = {
    request_id: 'r1',
    call_type: 'acompletion',
    spend: 0.1,
    total_tokens: 13,
    prompt_tokens: 10,
    completion_tokens: 3,
    startTime: '2026-01-01T00:00:00Z',
    endTime: '2026-01-01T00:00:01.5Z',
    model: 'm1',
    session_id: 's1',
    messages: [{ role: 'user', content: 'What is 2+2?' }],
    response: { choices: [{ index: 0, message: { role: 'assistant', content: '4' }, finish_reason: 'stop' }] },
    metadata: {},
  };
  it.each([
    ['with values', row],
    ['with values as texts', { ...row, messages: written(row.messages), response: written(row.response) }],
    ['with times of the database', { ...row, startTime: '2026-01-01T00:00:00', endTime: '2026-01-01T00:00:01.5' }],
  ])('is the call, %s: its tokens, cost, times and session', (_, native) => {
    expect(known(native)).toBe('openai-chat');
    const { of, times } = read('openai-chat', native);
    expect(of('episode.started')).toMatchObject([{ session_id: 's1' }]);
    expect(of('generation.completed')).toMatchObject([
      { usage: { input_tokens: 10, output_tokens: 3, cost_usd: 0.1 }, choices: [{ content: '4' }], response_id: 'r1' },
    ]);
    expect([times('generation.requested'), times('generation.completed')].flat()).toEqual([
      '2026-01-01T00:00:00.000000Z',
      '2026-01-01T00:00:01.500000Z',
    ]);
  });
});

describe('The tokens of a span that came from a cache', () => {
  it.each([
    [
      'of the GenAI conventions',
      'otel-genai',
      {
        'gen_ai.operation.name': 'chat',
        'gen_ai.usage.input_tokens': 130,
        'gen_ai.usage.output_tokens': 5,
        'gen_ai.usage.cache_read.input_tokens': 128,
      },
    ],
    [
      'of OpenInference',
      'openinference',
      {
        'openinference.span.kind': 'LLM',
        'llm.token_count.prompt': 130,
        'llm.token_count.completion': 5,
        'llm.token_count.prompt_details.cache_read': 128,
      },
    ],
    [
      'of Traceloop',
      'traceloop',
      {
        'llm.request.type': 'chat',
        'gen_ai.usage.input_tokens': 130,
        'gen_ai.usage.output_tokens': 5,
        'gen_ai.usage.cache_read_input_tokens': 128,
      },
    ],
    [
      'of LangSmith',
      'langsmith',
      {
        'langsmith.span.kind': 'llm',
        'gen_ai.completion': JSON.stringify({
          generations: [
            [
              {
                message: {
                  type: 'ai',
                  data: {
                    content: 'a',
                    usage_metadata: {
                      input_tokens: 130,
                      output_tokens: 5,
                      input_token_details: { cache_read: 128 },
                    },
                  },
                },
              },
            ],
          ],
        }),
      },
    ],
    [
      'of the AI SDK',
      'vercel-ai',
      {
        'ai.operationId': 'ai.generateText.doGenerate',
        'ai.usage.inputTokens': 130,
        'ai.usage.outputTokens': 5,
        'ai.usage.cachedInputTokens': 128,
      },
    ],
  ])('%s are within those read', (_, format, attributes) => {
    const { of } = read(format, [[request([span({ id: 1, attributes })])]]);
    expect(of('generation.completed')).toMatchObject([
      { usage: { input_tokens: 130, output_tokens: 5, cached_input_tokens: 128 } },
    ]);
  });
});

describe('The cost that a trace states', () => {
  it('is that of the call', () => {
    const cost = (format: string, value: unknown) =>
      (read(format, [[value]]).of('generation.completed')[0]!.usage as { cost_usd?: number } | undefined)?.cost_usd;
    const spanOf = (attributes: object) =>
      request([span({ id: 1, attributes: attributes as Record<string, unknown> })]);
    const run = { id: 'r', trace_id: 'r', run_type: 'llm', inputs: {}, outputs: {}, end_time: '2026-09-10T10:00:01Z' };
    const call = observation({ id: 'a', type: 'GENERATION', usageDetails: { input: 1, output: 1 } });
    const trace = (more: object) => ({ ...TRACE, scores: [], observations: [{ ...call, ...more }] });
    const openinference = { 'openinference.span.kind': 'LLM', 'llm.token_count.prompt': 1, 'llm.cost.total': 0.25 };
    const langfuse = {
      'langfuse.observation.type': 'generation',
      'langfuse.observation.cost_details': '{"total":0.25}',
    };
    expect([
      cost('openinference', spanOf(openinference)),
      cost('langfuse', spanOf(langfuse)),
      cost('langfuse', trace({ costDetails: { input: 0.05, output: 0.2, total: 0.25 } })),
      cost('langfuse', trace({ calculatedTotalCost: 0.25 })),
      cost('langsmith', { ...run, total_cost: 0.25 }),
      cost('langsmith', run),
    ]).toEqual([0.25, 0.25, 0.25, 0.25, 0.25, undefined]);
  });
});
