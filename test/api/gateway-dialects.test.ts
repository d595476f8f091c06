/** What the two translated dialects refuse, each with the place, and what they make of a conversation. What is expected is written by hand. */
import { describe, expect, it } from 'vitest';
import { messagesStream } from '../../api/gateway/dialects/messages-answer.ts';
import { readMessagesRequest } from '../../api/gateway/dialects/messages-request.ts';
import { responsesStream } from '../../api/gateway/dialects/responses-answer.ts';
import { readResponsesRequest } from '../../api/gateway/dialects/responses-request.ts';
import { TroupeError } from '../../errors.ts';

const ASK = { role: 'user', content: 'Hello' };
const text = (words: string) => ({ type: 'text', text: words });
const call = { type: 'tool_use', id: 'c1', name: 'look', input: {} };
const result = { type: 'tool_result', tool_use_id: 'c1', content: 'seen' };
const toMessages = (fields: object) =>
  readMessagesRequest({ model: 'solver', max_tokens: 8, messages: [ASK], ...fields });
const toResponses = (fields: object, recalled: object[] = []) =>
  readResponsesRequest({ model: 'solver', input: 'Hello', ...fields }, async () => recalled as never);

/** The field and the sentence with which a request is refused. */
async function refusal(ask: () => unknown) {
  const error = await Promise.resolve()
    .then(ask)
    .then(
      () => null,
      (error: unknown) => error,
    );
  expect(error).toBeInstanceOf(TroupeError);
  const { code, message, detail } = error as TroupeError;
  expect(code).toBe('usage');
  return { field: detail.field, message, hint: detail.hint };
}

describe('a request of the Messages API is refused', () => {
  const assistant = (...content: unknown[]) => ({ messages: [ASK, { role: 'assistant', content }, ASK] });
  const user = (...content: unknown[]) => ({ messages: [{ role: 'user', content }] });
  it.each<[string, object, string, string]>([
    ['with a number as output_config', { output_config: 5 }, 'output_config', 'an object'],
    ['with a low effort', { output_config: { effort: 'low' } }, 'output_config.effort', '"high" or left out'],
    ['with another output setting', { output_config: { style: 1 } }, 'output_config.style', 'left out'],
    ['with thinking', { thinking: { type: 'enabled' } }, 'thinking', '{"type":"disabled"} or left out'],
    ['with thinking as a word', { thinking: 'disabled' }, 'thinking', '{"type":"disabled"} or left out'],
    ['without a message', { messages: [] }, 'messages', 'a list of messages'],
    ['with a text as messages', { messages: 'Hello' }, 'messages', 'a list of messages'],
    ['to continue an answer', { messages: [ASK, { role: 'assistant', content: 'Hi' }] }, 'messages[1].role', 'user'],
    ['with a tool that is no object', { tools: ['look'] }, 'tools[0]', '{"name":…,"input_schema":…}'],
    ['with a tool without a name', { tools: [{ input_schema: {} }] }, 'tools[0]', '{"name":…,"input_schema":…}'],
    ['with a tool of the server', { tools: [{ name: 'w', type: 'web_search' }] }, 'tools[0]', '{"name":…,'],
    ['with an object as tools', { tools: {} }, 'tools', 'a list'],
    ['with a text as message', { messages: ['Hello'] }, 'messages[0]', 'a message object'],
    [
      'that begins with a system message',
      { messages: [{ role: 'system', content: 's' }] },
      'messages[0].role',
      'user or',
    ],
    ['with a role of another interface', { messages: [{ role: 'tool', content: 's' }] }, 'messages[0].role', 'user or'],
    [
      'with a number as content',
      { messages: [{ role: 'user', content: 5 }] },
      'messages[0].content',
      'a text or a list',
    ],
    ['without content', user(), 'messages[0].content', 'a text or a list of blocks'],
    ['with an image', user(text('a'), { type: 'image' }), 'messages[0].content[1]', '{"type":"text","text":…}'],
    ['with a text that is none', user({ type: 'text', text: 5 }), 'messages[0].content[0]', '{"type":"text","text":…}'],
    ['with a result after a text', user(result, text('a'), result), 'messages[0].content[2]', 'before the texts'],
    ['with a result after the first text', user(text('a'), result), 'messages[0].content[1]', 'before the texts'],
    [
      'with an image behind a result',
      user(result, text('a'), { type: 'image' }),
      'messages[0].content[2]',
      '{"type":"text"',
    ],
    ['with a result of no call', user({ ...result, tool_use_id: '' }), 'messages[0].content[0].tool_use_id', 'the id'],
    ['with a number as result', user({ ...result, content: 5 }), 'messages[0].content[0].content', 'a text or a list'],
    [
      'with a mark that is no flag',
      user({ ...result, is_error: 'no' }),
      'messages[0].content[0].is_error',
      'true or false',
    ],
    ['with a text after a call', assistant(text('a'), call, text('b')), 'messages[1].content[2]', 'before the calls'],
    ['with a call without id', assistant(call, { ...call, id: '' }), 'messages[1].content[1]', 'id, name and input'],
    ['with a call without name', assistant({ ...call, name: 5 }), 'messages[1].content[0]', 'id, name and input'],
    ['with a call without input', assistant({ ...call, input: '{}' }), 'messages[1].content[0]', 'id, name and input'],
    ['without a length', { max_tokens: null }, 'max_tokens', 'a whole number from 1'],
  ])('%s', async (_, fields, field, expected) => {
    const refused = await refusal(() => toMessages(fields));
    expect(refused.field).toBe(field);
    expect(refused.message).toContain(expected);
  });

  it('with the reason where a policy has no such thing', async () => {
    const { hint } = await refusal(() => toMessages({ tools: [{ name: 'w', type: 'web_search' }] }));
    expect(hint).toBe('A policy supports only tools of the client.');
  });
});

describe('a request of the Messages API as a chat', () => {
  it('has results as messages, and the texts behind them', () => {
    const { prompt } = toMessages({
      system: [text('Be brief.')],
      messages: [
        ASK,
        { role: 'assistant', content: [text('Let me see.'), call] },
        {
          role: 'user',
          content: [{ ...result, is_error: true }, { ...result, content: null }, text('And?'), text('So?')],
        },
        { role: 'system', content: 'Hurry.' },
      ],
    });
    expect(prompt).toEqual({
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Hello' },
        {
          ...{ role: 'assistant', content: 'Let me see.' },
          tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } }],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'seen', is_error: true },
        { role: 'tool', tool_call_id: 'c1', content: '' },
        { role: 'user', content: [text('And?'), text('So?')] },
        { role: 'system', content: 'Hurry.' },
      ],
      tools: null,
    });
  });

  it('shows no tool that is deferred, and none where none may be called', () => {
    const tools = [
      { name: 'look', input_schema: {} },
      { name: 'later', defer_loading: true, input_schema: {} },
    ];
    expect(toMessages({ tools }).prompt).toMatchObject({ tools: [{ function: { name: 'look' } }] });
    expect(toMessages({ tools, tool_choice: { type: 'none' } }).prompt).toMatchObject({ tools: null });
    expect(toMessages({ tools: [tools[1]] }).prompt).toMatchObject({ tools: null });
  });
});

describe('a request of the Responses API is refused', () => {
  const items = (...input: unknown[]) => ({ input });
  const called = { type: 'function_call', call_id: 'c1', name: 'look', arguments: '{}' };
  it.each<[string, object, string, string]>([
    ['with a number as input', { input: 5 }, 'input', 'a text or a list of items'],
    ['without an item', items(), 'input', 'a text or a list of items'],
    ['with a text as item', items('Hello'), 'input[0]', 'an item object'],
    [
      'with an unknown role',
      items({ role: 'tool', content: 'x' }),
      'input[0].role',
      'user, assistant, system, developer',
    ],
    ['with an unknown item', items(ASK, { type: 'reasoning' }), 'input[1].type', 'message, function_call or'],
    ['with a call without id', items({ ...called, call_id: '' }), 'input[0].call_id', 'the id of a call'],
    ['with a call without name', items({ ...called, name: '' }), 'input[0].name', 'the name of a function'],
    ['with arguments as object', items({ ...called, arguments: {} }), 'input[0].arguments', 'a JSON text'],
    [
      'with a result without text',
      items({ type: 'function_call_output', call_id: 'c1' }),
      'input[0].output',
      'a text or',
    ],
    ['with a message without parts', items({ role: 'user', content: [] }), 'input[0].content', 'a text or a list'],
    ['with a number as content', items({ role: 'user', content: 5 }), 'input[0].content', 'a text or a list of parts'],
    [
      'with an image',
      items({ role: 'user', content: [{ type: 'input_image' }] }),
      'input[0].content[0]',
      '"input_text"',
    ],
    [
      'with a part without text',
      items({ role: 'user', content: [{ type: 'text' }] }),
      'input[0].content[0]',
      '"input_text"',
    ],
    ['with a number as part', items({ role: 'user', content: [5] }), 'input[0].content[0]', '"input_text"'],
    ['with a tool of the server', { tools: [{ type: 'web_search', name: 'w' }] }, 'tools[0]', '{"type":"function"'],
    ['with a text as tool', { tools: ['look'] }, 'tools[0]', '{"type":"function"'],
    ['with an object as tools', { tools: {} }, 'tools', 'a list'],
    ['with a list of instructions', { instructions: [] }, 'instructions', 'a text'],
    ['with a number as answer before', { previous_response_id: 5 }, 'previous_response_id', 'a text'],
    ['with an effort', { reasoning: { effort: 'high' } }, 'reasoning.effort', ''],
    ['with a verbosity', { text: { verbosity: 'low' } }, 'text.verbosity', ''],
  ])('%s', async (_, fields, field, expected) => {
    const refused = await refusal(() => toResponses(fields));
    expect(refused.field).toBe(field);
    expect(refused.message).toContain(expected);
  });
});

describe('a request of the Responses API as a chat', () => {
  it('has the instructions, what was recalled, and the calls at the answer before them', async () => {
    const called = (call_id: string) => ({ type: 'function_call', call_id, name: 'look', arguments: '{"a": 1}' });
    const chat = (id: string) => ({ id, type: 'function', function: { name: 'look', arguments: '{"a": 1}' } });
    const { prompt } = await toResponses(
      {
        ...{ instructions: 'Be brief.', previous_response_id: 'r1' },
        input: [
          called('c1'),
          {
            role: 'assistant',
            content: [
              { type: 'output_text', text: 'Let me' },
              { type: 'output_text', text: 'see.' },
            ],
          },
          called('c2'),
          called('c3'),
          { type: 'function_call_output', call_id: 'c2', output: [{ type: 'input_text', text: 'seen' }] },
          { role: 'developer', content: [{ type: 'text', text: 'Hurry.' }] },
        ],
      },
      [{ role: 'user', content: 'Before' }],
    );
    expect(prompt).toEqual({
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Before' },
        { role: 'assistant', content: null, tool_calls: [chat('c1')] },
        {
          ...{ role: 'assistant', content: [text('Let me'), text('see.')] },
        },
        { role: 'tool', tool_call_id: 'c2', content: 'seen' },
        { role: 'developer', content: 'Hurry.' },
      ].map((message, i) => (i === 3 ? { ...message, tool_calls: [chat('c2'), chat('c3')] } : message)),
      tools: null,
    });
  });
});

describe('events of an answer', () => {
  const types = (events: readonly { readonly data: unknown }[]) => events.map(({ data }) => data);

  it('of the Messages API: blocks of each type open empty, grow and close; one of another type comes whole', () => {
    const usage = { input_tokens: 1, output_tokens: 5 };
    const body = {
      ...{ id: 'm1', model: 'solver', stop_reason: 'tool_use', stop_sequence: null, usage },
      content: [
        { type: 'thinking', thinking: 'Hm.', signature: 's' },
        text('Yes.'),
        { ...call, input: { b: 1, a: 2 } },
        { type: 'redacted_thinking', data: 'x' },
      ],
    };
    const [start, ...events] = types(messagesStream(body as never, {} as never).end(body as never));
    expect(start).toEqual({
      type: 'message_start',
      message: {
        ...{ id: 'm1', model: 'solver', content: [], stop_reason: null, stop_sequence: null },
        usage: { ...usage, output_tokens: 0 },
      },
    });
    const block = (index: number, opened: object, ...deltas: object[]) => [
      { type: 'content_block_start', index, content_block: opened },
      ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
      { type: 'content_block_stop', index },
    ];
    expect(events).toEqual([
      ...block(
        ...([0, { type: 'thinking', thinking: '', signature: '' }] as const),
        { type: 'thinking_delta', thinking: 'Hm.' },
        { type: 'signature_delta', signature: 's' },
      ),
      ...block(1, text(''), { type: 'text_delta', text: 'Yes.' }),
      ...block(2, { ...call, input: {} }, { type: 'input_json_delta', partial_json: '{"b":1,"a":2}' }),
      ...block(3, { type: 'redacted_thinking', data: 'x' }),
      { type: 'message_delta', delta: { stop_reason: 'tool_use', stop_sequence: null }, usage },
      { type: 'message_stop' },
    ]);
  });

  it('of the Messages API: what was written grows by the rest alone', () => {
    const body = {
      ...{ id: 'm1', stop_reason: 'end_turn', stop_sequence: null, usage: {} },
      content: [text('Yes, so.'), call],
    };
    const stream = messagesStream(body as never, {} as never);
    const before = types(stream.text(0, 'Yes,'));
    expect(before.at(1)).toEqual({ type: 'content_block_start', index: 0, content_block: text('') });
    expect(types(stream.end(body as never)).slice(0, 3)).toEqual([
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: ' so.' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'content_block_start', index: 1, content_block: { ...call, input: {} } },
    ]);
    const whole = messagesStream(body as never, {} as never);
    whole.text(0, 'Yes, so.');
    expect(types(whole.end(body as never))[0]).toEqual({ type: 'content_block_stop', index: 0 });
  });

  it('of the Responses API: a message, a call, and an item of another type, each by its place', () => {
    const part = { type: 'output_text', text: 'Yes.', annotations: [], logprobs: [] };
    const message = { type: 'message', id: 'm', status: 'completed', role: 'assistant', content: [part] };
    const function_call = { type: 'function_call', id: 'f', call_id: 'c1', name: 'look', arguments: '{}' };
    const reasoning = { type: 'reasoning', id: 'r', summary: [] };
    const two = { ...message, id: 'm2', content: [part, part] };
    const body = { id: 'r1', status: 'completed', output: [message, reasoning, function_call, two], usage: {} };
    const stream = responsesStream(body as never, {} as never);
    const events = [...stream.text(0, 'Yes.'), ...stream.end(body as never)].map(({ data }) => data as never);
    expect(events.map(({ type, output_index }) => [type, output_index])).toEqual([
      ['response.created', undefined],
      ['response.in_progress', undefined],
      ['response.output_item.added', 0],
      ['response.content_part.added', 0],
      ['response.output_text.delta', 0],
      ['response.output_text.done', 0],
      ['response.content_part.done', 0],
      ['response.output_item.done', 0],
      ['response.output_item.added', 1],
      ['response.output_item.done', 1],
      ['response.output_item.added', 2],
      ['response.function_call_arguments.delta', 2],
      ['response.function_call_arguments.done', 2],
      ['response.output_item.done', 2],
      ['response.output_item.added', 3],
      ['response.output_item.done', 3],
      ['response.completed', undefined],
    ]);
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, i) => i));
    expect(events[9]).toMatchObject({ item: reasoning });
    expect(events[10]).toMatchObject({ item: { ...function_call, status: 'in_progress', arguments: '' } });
    expect(events[15]).toMatchObject({ item: two });
  });

  it('of the Responses API: log-probabilities come with a last delta, also where all of the text was written', () => {
    const logprobs = [{ token: 'Yes.', logprob: -1 }];
    const part = { type: 'output_text', text: 'Yes.', annotations: [], logprobs };
    const body = { status: 'completed', output: [{ type: 'message', id: 'm', content: [part] }] };
    const stream = responsesStream(body as never, {} as never);
    stream.text(0, 'Yes.');
    const [first] = types(stream.end(body as never));
    expect(first).toMatchObject({ type: 'response.output_text.delta', delta: '', logprobs });
  });
});
