import { describe, expect, it } from 'vitest';
import { decodeText } from '../../../ingest/events/decode.ts';
import { canonicalJson } from '../../../ingest/events/json.ts';
import { parseWritten } from '../../../ingest/events/spelling.ts';
import { asTaught } from '../../../ingest/events/taught.ts';
import { formatNamed } from '../../../ingest/formats/catalogue.ts';
import { anthropicChoice } from '../../../ingest/formats/kit/anthropic-blocks.ts';
import { type ChatMessage, fromMessage, readArguments, toMessage } from '../../../ingest/formats/kit/chat-message.ts';

const read = (text: string): unknown => {
  const parsed = parseWritten(text);
  if ('refusal' in parsed) throw new Error(parsed.refusal.expected);
  return parsed.value;
};

const ASKED = '{"path": "x.py", "old": 1.0, "b": 1e5, "a": {"z": 9007199254740993, "y": [1.50]}}';

const eventsOf = (format: string, text: string) => {
  const value = read(text);
  return formatNamed(format).convert({ value, canonical: canonicalJson(value), ordinal: 0 }).drafts;
};

const learnt = (content: unknown): unknown =>
  (fromMessage({ role: 'assistant', content }).tool_calls as { function: { arguments: string } }[])[0]!.function
    .arguments;

describe('The arguments of a tool call', () => {
  it.each([
    [
      'openai-chat',
      `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":${ASKED}}}]}]}`,
    ],
    [
      'openai-chat',
      `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":${ASKED}}]}]}`,
    ],
  ])('of %s that are an object are learnt in the order and numbers of the file', (format, text) => {
    const drafts = eventsOf(format, text);
    const of = (name: string) => drafts.filter((draft) => draft.name === name).map(({ data }) => data as never);
    expect(of('tool.called')).toMatchObject([{ arguments_raw: ASKED }]);
    const [{ choices }] = of('generation.completed') as { choices: { content: unknown }[] }[] as [
      { choices: { content: unknown }[] },
    ];
    expect(learnt(choices[0]!.content)).toBe(ASKED);
  });

  it('keep every byte where the source gives a text, also one without spaces', () => {
    const text = '{"b":1.0,"a":[2,  3]}';
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: text } };
    expect(learnt(toMessage({ role: 'assistant', content: null, tool_calls: [call] } as ChatMessage).content)).toBe(
      text,
    );
    const part = { type: 'tool_call', id: 'c', name: 'f', arguments: readArguments(text).arguments };
    const { choices } = asTaught('generation.completed', { choices: [{ content: [part] }] });
    expect(learnt(choices[0]!.content)).toBe(text);
  });

  it('of a response of the Messages API are those of its object', () => {
    const response = read(
      `{"type":"message","role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":${ASKED}}]}`,
    );
    const { message } = anthropicChoice(response as never) as { message: ChatMessage };
    expect(learnt(toMessage(message).content)).toBe(ASKED);
  });

  it('of an event that gives only the object are written beside it as the event has them', () => {
    const text = JSON.stringify({
      specversion: '1.0',
      id: '1',
      source: '/s',
      type: 'troupe.tool.called.v1',
      data: { episode_id: 'e', tool_call_id: 't', name: 'f', arguments: 'X' },
    }).replace('"X"', '{"b":1.0,"a":2}');
    expect(decodeText(text).event?.data).toMatchObject({
      arguments: { b: 1, a: 2 },
      arguments_raw: '{"b": 1.0, "a": 2}',
    });
  });
});

describe('Tools that were offered', () => {
  const tools = [{ type: 'function', function: { name: 'w', description: 'weather', parameters: { type: 'object' } } }];
  const messages = [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'b' },
  ];

  it.each([
    ['a row', { messages, tools: JSON.stringify(tools) }],
    [
      'a log',
      {
        request: { messages: messages.slice(0, 1), model: 'm', tools: JSON.stringify(tools) },
        response: { choices: [{ index: 0, message: messages[1] }] },
      },
    ],
  ])('are a list where %s has them as JSON in a text', (_, row) => {
    const [asked] = eventsOf('openai-chat', JSON.stringify(row)).filter(({ name }) => name === 'generation.requested');
    expect(asked!.data).toMatchObject({ tools });
  });

  it('stay a text that is no JSON', () => {
    const [asked] = eventsOf('openai-chat', JSON.stringify({ messages, tools: 'none' })).filter(
      ({ name }) => name === 'generation.requested',
    );
    expect(asked!.data).toMatchObject({ tools: 'none' });
  });
});

describe('An item whose type is an object that cannot be written as text', () => {
  it('does not end the reading of a trace of the OpenAI Agents SDK', () => {
    const span = {
      object: 'trace.span',
      id: 'span_1',
      trace_id: 'trace_1',
      parent_id: null,
      started_at: '2026-10-01T10:00:00Z',
      ended_at: '2026-10-01T10:00:01Z',
      span_data: {
        type: 'response',
        response_id: 'r',
        input: [{ type: { toString: false } }],
        response: { output: [] },
      },
      error: null,
    };
    const request = { data: [{ object: 'trace', id: 'trace_1', workflow_name: 'w' }, span] };
    expect(eventsOf('openai-agents', JSON.stringify(request))).not.toEqual([]);
  });
});
