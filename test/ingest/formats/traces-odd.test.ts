/** Attributes and members that hold anything at all: every event derived from them is valid, and the good ones beside them are kept. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeDraft } from '../../../ingest/events/decode.ts';
import type { Draft } from '../../../ingest/events/events.ts';
import { canonicalJson } from '../../../ingest/events/json.ts';
import { formatNamed } from '../../../ingest/formats/catalogue.ts';
import { decodeOtlp } from '../../../ingest/traces/otlp/decode.ts';
import { eventsOfSpans } from '../../../ingest/traces/otlp-traces.ts';
import { aTrace, chat, request, type SpanJson, span } from '../support/spans.ts';

const OPENINFERENCE = span({
  id: 3,
  attributes: {
    'openinference.span.kind': 'LLM',
    'llm.input_messages.0.message.role': 'user',
    'llm.input_messages.0.message.contents.0.message_content.type': 'text',
    'llm.input_messages.0.message.contents.0.message_content.text': 'hi',
    'llm.output_messages.0.message.role': 'assistant',
    'llm.output_messages.0.message.tool_calls.0.tool_call.id': 'c',
    'llm.output_messages.0.message.tool_calls.0.tool_call.function.name': 'calc',
    'llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments': '{}',
    'llm.finish_reason': 'stop',
    'llm.invocation_parameters': '{"seed":1}',
    'llm.token_count.prompt': 3,
    'session.id': 's',
    metadata: '{"task_id":"t"}',
    'annotations.0.annotation.name': 'good',
    'annotations.0.annotation.score': 1,
  },
});
const FLAT = span({
  id: 3,
  attributes: {
    'llm.request.type': 'chat',
    'gen_ai.prompt.0.role': 'user',
    'gen_ai.prompt.0.content': 'hi',
    'gen_ai.completion.0.role': 'assistant',
    'gen_ai.completion.0.finish_reason': 'stop',
    'gen_ai.completion.0.tool_calls.0.id': 'c',
    'gen_ai.completion.0.tool_calls.0.name': 'calc',
    'gen_ai.usage.prompt_tokens': 1,
    'gen_ai.agent.name': 'a',
    'traceloop.association.properties.task_id': 't',
  },
});
const VERCEL = span({
  id: 3,
  attributes: {
    'ai.operationId': 'ai.generateText.doGenerate',
    'ai.telemetry.functionId': 'a',
    'ai.prompt.messages': '[{"role":"user","content":[{"type":"text","text":"hi"}]}]',
    'ai.response.text': 'x',
    'ai.response.toolCalls': '[{"toolCallId":"c","toolName":"calc","input":{}}]',
    'ai.response.finishReason': 'stop',
    'ai.response.id': 'r',
    'ai.settings.context.taskId': 't',
  },
});
const GENAI = chat(
  {
    id: 3,
    attributes: { 'gen_ai.agent.name': 'a', 'gen_ai.response.id': 'r', 'gen_ai.response.finish_reasons': ['stop'] },
  },
  [{ role: 'assistant', parts: [{ type: 'tool_call', id: 'c', name: 'calc', arguments: {} }], finish_reason: 'stop' }],
);

const odd = fc.oneof(
  fc.constantFrom(
    '',
    '\u0000',
    '\ud800',
    'x'.repeat(600),
    '[]',
    '[{}]',
    '[{"role":7,"parts":[{"type":""},3]}]',
    '{"\\u0000":1}',
  ),
  fc.jsonValue({ maxDepth: 2 }),
  fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.stringify(value)),
);
const refusalsOf = (drafts: readonly Draft[]): unknown[] =>
  drafts.map((draft) => decodeDraft(draft).refusal).filter(Boolean);

describe('an attribute that holds anything at all (P42)', () => {
  it.each([
    ['GenAI', GENAI],
    ['OpenInference', OPENINFERENCE],
    ['Traceloop', FLAT],
    ['Vercel AI', VERCEL],
  ])('of %s is mapped to valid events', (_, made) => {
    const attributes = made.attributes as readonly { key: string }[];
    fc.assert(
      fc.property(
        fc.subarray(
          attributes.map(({ key }) => key),
          { minLength: 1, maxLength: 3 },
        ),
        odd,
        (keys, value) => {
          const changed = attributes.filter(({ key }) => !keys.includes(key));
          const read = decodeOtlp(
            request([
              ...aTrace().filter(({ spanId }) => spanId !== made.spanId),
              { ...made, attributes: changed } as SpanJson,
            ]),
          );
          const [last] = read.spans.slice(-1);
          const broken = {
            ...last!,
            attributes: { ...last!.attributes, ...Object.fromEntries(keys.map((key) => [key, value])) },
          };
          const drafts = eventsOfSpans([...read.spans.slice(0, -1), broken], { whole: true });
          expect(refusalsOf(drafts)).toEqual([]);
          expect(drafts.filter(({ name }) => name === 'generation.completed').length).toBeGreaterThanOrEqual(2);
        },
      ),
      { numRuns: 120 },
    );
  });
});

const uuid = '01a0a0a0-0000-4000-8000-000000000001';
const ITEMS = {
  langsmith: {
    wrap: (item: object) => ({ post: [item], patch: [] }),
    item: {
      id: uuid,
      trace_id: uuid,
      name: 'm',
      run_type: 'llm',
      start_time: '2026-09-10T10:00:01.000Z',
      end_time: 1789034402000,
      inputs: { messages: [[{ lc: 1, type: 'constructor', id: ['x', 'HumanMessage'], kwargs: { content: '?' } }]] },
      outputs: { generations: [[{ text: 'a', message: { kwargs: {} } }]], llm_output: {} },
      extra: { metadata: { langgraph_node: 'a', thread_id: 's' }, invocation_params: { model: 'm' } },
      error: null,
      tags: [],
    },
  },
  langfuse: {
    wrap: (item: object) => ({
      batch: [{ id: 'e', type: 'generation-create', timestamp: '2026-09-10T10:00:01Z', body: item }],
    }),
    item: {
      id: 'g',
      traceId: 't',
      name: 'chat',
      startTime: '2026-09-10T10:00:01Z',
      endTime: '2026-09-10T10:00:02Z',
      model: 'm',
      modelParameters: {},
      input: [{ role: 'user', content: '?' }],
      output: { role: 'assistant', content: '!' },
      usageDetails: { input: 1 },
      metadata: { agent: 'a' },
      level: 'ERROR',
      statusMessage: 'no',
    },
  },
  'openai-agents': {
    wrap: (item: object) => ({
      data: [
        {
          object: 'trace.span',
          id: 's',
          trace_id: 't',
          parent_id: null,
          started_at: null,
          ended_at: null,
          span_data: item,
          error: null,
        },
      ],
    }),
    item: {
      type: 'generation',
      input: [{ role: 'user', content: '?' }],
      output: [{ role: 'assistant', content: '!' }],
      model: 'm',
      model_config: {},
      usage: {},
      name: 'n',
    },
  },
  'agent-lightning': {
    wrap: (item: object) => ({
      event_type: 'model_request',
      rollout_id: 'r',
      attempt_id: '0',
      timestamp: 1789000000.5,
      data: item,
    }),
    item: {
      model: 'm',
      model_version: 7,
      request: { messages: [{ role: 'user', content: '?' }], metadata: { agent: 'a' } },
      response: {
        prompt_token_ids: [1],
        choices: [
          {
            index: 0,
            token_ids: [1, 2],
            message: { content: '!' },
            logprobs: { content: [{ logprob: -1 }, { logprob: -2 }] },
          },
        ],
      },
      latency_ms: 4,
      status: 'ok',
      usage: {},
    },
  },
} as const;

describe('a member that holds anything at all (P42)', () => {
  it.each(Object.entries(ITEMS))('of %s is mapped to valid events, or refused by name', (name, { wrap, item }) => {
    const fields = Object.keys(item);
    const whole = formatNamed(name).convert({ value: [[wrap(item)]], canonical: '', ordinal: 0 });
    expect([refusalsOf(whole.drafts), whole.refusals]).toEqual([[], []]);
    fc.assert(
      fc.property(fc.constantFrom(...fields), odd, (field, value) => {
        const record = [[wrap({ ...item, [field]: value })]];
        const { drafts, refusals } = formatNamed(name).convert({
          value: record,
          canonical: canonicalJson(record),
          ordinal: 0,
        });
        // A key with U+0000 is refused in any format.
        expect(
          refusalsOf(drafts).filter((refusal) => !JSON.stringify(refusal).includes('a key with one of them')),
        ).toEqual([]);
        expect(drafts.length + refusals.length).toBeGreaterThan(0);
      }),
      { numRuns: 150 },
    );
  });
});
