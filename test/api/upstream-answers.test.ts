import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chunks, messageEvents, responseEvents } from '../../api/gateway/upstream/assemble.ts';
import { upstreamDrafts } from '../../api/gateway/upstream/record.ts';
import { checkDraft } from '../../ingest/events/decode.ts';

type Fields = Record<string, unknown>;
type Kind = 'chat' | 'messages' | 'responses';
const CONTEXT = { episode: 'e', task: null, group: null, role: null, turn: null, parent: null };

/** The events of one call of an agent. */
function recorded(kind: Kind, request: Fields, response: Fields | null, agent = 'ann', callId = 'c') {
  const drafts = upstreamDrafts({
    kind,
    callId,
    episodeId: 'e',
    context: { ...CONTEXT, agent },
    upstream: { name: 'main', prices: {}, tokenIds: null, logprobs: 'raw', checkpoints: {} },
    model: 'm',
    request: { model: 'm', ...request },
    response,
    status: 200,
    error: null,
    requestedAt: '2026-11-26T10:00:00Z',
    completedAt: '2026-11-26T10:00:01Z',
    latencyMs: 1,
    firstTokenMs: null,
    raw: null,
    flags: [],
  });
  expect(drafts.flatMap((draft) => checkDraft(draft).refusal ?? [])).toEqual([]);
  // biome-ignore lint/suspicious/noExplicitAny: each test states what it looks at
  const of = (name: string): any[] => drafts.filter((draft) => draft.name === name).map(({ data }) => data);
  return {
    content: of('generation.completed')[0].choices[0]?.content,
    input: of('generation.requested')[0].input,
    called: of('tool.called'),
    returned: of('tool.returned'),
  };
}

const put = (
  assembler: { take: (piece: unknown) => boolean; body: () => Fields | null },
  pieces: readonly object[],
) => {
  for (const piece of pieces) assembler.take(piece);
  return assembler.body()!;
};
const chunk = (delta: object) => ({ id: 'c', choices: [{ index: 0, delta }] });
const asked = (index: number | undefined, id: string | undefined, name: string, written: string) => ({
  index,
  id,
  function: { name, arguments: written },
});
const HELLO = { role: 'user', content: 'hello' };
const chat = (message: object) => ({ choices: [{ index: 0, message: { role: 'assistant', ...message } }] });

describe('the tool calls of a streamed chat', () => {
  const streamed = (...deltas: object[]) =>
    recorded('chat', { messages: [HELLO] }, put(chunks('chat.completion'), deltas.map(chunk))).called.map(
      ({ name, arguments: given, native }) => [native.tool_call_id, name, given],
    );

  it('are as many as the server named, also where all have the same index, or none', () => {
    for (const index of [0, undefined])
      expect(
        streamed(
          { tool_calls: [asked(index, 'a', 'look_up', '{"city":"Bern"}')] },
          { tool_calls: [asked(index, 'b', 'look_up', '{"city":"Rome"}')] },
        ),
      ).toEqual([
        ['a', 'look_up', { city: 'Bern' }],
        ['b', 'look_up', { city: 'Rome' }],
      ]);
  });

  it('are put together by their index, in its order, whatever else each piece repeats', () => {
    expect(
      streamed(
        { tool_calls: [asked(1, 'b', 'two', '{"y"')] },
        { tool_calls: [asked(0, 'a', 'one', '{"x"')] },
        { tool_calls: [asked(1, '', '', ':2}')] },
        { tool_calls: [asked(0, 'a', 'one', ':1}')] },
      ),
    ).toEqual([
      ['a', 'one', { x: 1 }],
      ['b', 'two', { y: 2 }],
    ]);
  });

  it('begin without ids where the arguments before are whole and a name comes again', () => {
    const whole = [
      { tool_calls: [asked(0, undefined, 'search', '{"q":"a"}')] },
      { tool_calls: [asked(0, undefined, 'search', '{"q":"b"}')] },
    ];
    const parts = [
      { tool_calls: [asked(0, undefined, 'search', '{"q"')] },
      { tool_calls: [asked(0, undefined, 'search', ':"a"}')] },
      { tool_calls: [asked(0, undefined, 'search', '')] },
      { tool_calls: [{ index: 0, function: { arguments: '{"q":' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '"b"}' } }] },
    ];
    const two = [
      ['search', { q: 'a' }],
      ['search', { q: 'b' }],
    ];
    for (const deltas of [whole, parts]) {
      const calls = streamed(...deltas);
      expect(calls.map(([, ...call]) => call)).toEqual(two);
      expect(new Set(calls.map(([id]) => id)).size).toBe(2);
    }
  });

  it('begin without ids with another name, though the first takes no arguments', () => {
    const calls = streamed(
      { tool_calls: [asked(0, undefined, 'now', '')] },
      { tool_calls: [asked(0, undefined, 'look_up', '{"city":"Bern"}')] },
    );
    expect(calls.map(([, name]) => name)).toEqual(['now', 'look_up']);
  });

  it('are one where a server repeats id and name in each piece, also behind the end', () => {
    expect(
      streamed(
        { tool_calls: [asked(0, 'a', 'one', '{"x":1')] },
        { tool_calls: [asked(0, 'a', 'one', '}')] },
        { tool_calls: [asked(0, 'a', 'one', '')] },
      ),
    ).toEqual([['a', 'one', { x: 1 }]]);
  });
});

describe('an answer of a chat', () => {
  it('has its tool calls also where they have no id, or are one function call of the old API', () => {
    const written = { name: 'look_up', arguments: '{"city":"Bern"}' };
    for (const message of [
      { tool_calls: [{ type: 'function', function: written }] },
      { tool_calls: [{ id: '', type: 'function', function: written }] },
      { function_call: written },
    ]) {
      const { called, content } = recorded('chat', { messages: [HELLO] }, chat({ content: null, ...message }));
      expect(called).toMatchObject([{ name: 'look_up', arguments: { city: 'Bern' } }]);
      expect(content).toMatchObject([{ type: 'tool_call', name: 'look_up' }]);
      const answer = { role: 'assistant', content: null, ...message };
      const result = { role: 'function_call' in message ? 'function' : 'tool', name: 'look_up', content: 'far' };
      const next = recorded('chat', { messages: [HELLO, answer, result] }, chat({ content: 'Far.' }));
      expect(next.returned).toMatchObject([{ tool_call_id: called[0].tool_call_id, output: 'far' }]);
    }
  });

  it('has a refusal, speech with its words, and pictures as parts', () => {
    const picture = { type: 'image_url', image_url: { url: 'data:,' } };
    const { content } = recorded('chat', { messages: [HELLO] }, chat({ content: null, refusal: 'No.' }));
    expect(content).toEqual([{ type: 'refusal', refusal: 'No.' }]);
    expect(recorded('chat', { messages: [HELLO] }, chat({ content: 'So.', images: [picture] })).content).toEqual([
      { type: 'text', content: 'So.' },
      picture,
    ]);
    const audioParts = [{ id: 'a' }, { data: 'AA' }, { transcript: 'Hel' }, { data: 'BB', transcript: 'lo.' }];
    const body = put(
      chunks('chat.completion'),
      audioParts.map((audio) => chunk({ audio })),
    );
    expect(recorded('chat', { messages: [HELLO] }, body).content).toEqual([
      { type: 'audio', id: 'a', data: 'AABB', transcript: 'Hello.' },
    ]);
  });

  it('takes the text of a custom tool for no fault', () => {
    const calls = [{ id: 'c', type: 'custom', custom: { name: 'shell', input: 'ls' } }];
    const { called } = recorded('chat', { messages: [HELLO] }, chat({ tool_calls: calls }));
    expect(called).toMatchObject([{ name: 'shell', type: 'custom', arguments: 'ls', parse_error: null }]);
  });
});

describe('the result of a tool meets its call', () => {
  const call = (id: string) => ({ id, type: 'function', function: { name: 'transfer', arguments: '{}' } });
  const history = (id: string) => [
    { role: 'assistant', content: null, tool_calls: [call(id)] },
    { role: 'tool', tool_call_id: id, content: 'ok' },
  ];
  const LONG = [{ role: 'user', content: 'before' }, { role: 'assistant', content: 'so' }, HELLO];
  const DRAWN = 'call_x7Kd92LmQp3aTz81vBn4Ry60';

  it('where another agent goes on, or the conversation before was cut off, if the server drew the id', () => {
    const { called } = recorded('chat', { messages: LONG }, chat({ tool_calls: [call(DRAWN)] }));
    const inAll = recorded('chat', { messages: [...LONG, ...history(DRAWN)] }, chat({ content: '' }), 'ben');
    const inPart = recorded('chat', { messages: [HELLO, ...history(DRAWN)] }, chat({ content: '' }));
    for (const { returned } of [inAll, inPart])
      expect(returned.map((one) => one.tool_call_id)).toEqual([called[0].tool_call_id]);
    const item = { type: 'function_call', call_id: DRAWN, name: 'transfer', arguments: '{}' };
    const own = recorded('responses', { input: 'hello' }, { output: [item] }).called[0].tool_call_id;
    const output = { type: 'function_call_output', call_id: DRAWN, output: 'ok' };
    const next = recorded('responses', { input: [item, output] }, { output: [] }, 'ben');
    expect(next.returned.map((one) => one.tool_call_id)).toEqual([own]);
  });

  it('of its conversation and of what was asked, whoever goes on, if the server counts', () => {
    for (const id of ['call_0', 'functions.transfer:0', 'callTransfer_1']) {
      const { called } = recorded('chat', { messages: LONG }, chat({ tool_calls: [call(id)] }));
      const other = recorded('chat', { messages: [HELLO] }, chat({ tool_calls: [call(id)] })).called;
      const { returned } = recorded('chat', { messages: [...LONG, ...history(id)] }, chat({ content: '' }), 'ben');
      expect(returned.map((one) => one.tool_call_id)).toEqual([called[0].tool_call_id]);
      expect(other[0].tool_call_id).not.toBe(called[0].tool_call_id);
      const item = (text: string) => ({ type: 'function_call', call_id: id, name: 'f', arguments: text });
      const [one, two] = ['{"x":1}', '{"x":2}'].map(
        (text) => recorded('responses', { input: 'hello' }, { output: [item(text)] }).called[0].tool_call_id,
      );
      const output = { type: 'function_call_output', call_id: id, output: 'ok' };
      const next = recorded('responses', { input: [item('{"x":1}'), output] }, { output: [item('{"x":2}')] }, 'ben');
      expect([next.returned[0].tool_call_id, next.called[0].tool_call_id]).toEqual([one, two]);
    }
  });
});

describe('a response of the Responses API', () => {
  it('has as tool calls what any item asks for, and meets what each returned', () => {
    const output = [
      { type: 'custom_tool_call', id: 'ctc_1', call_id: 'c1', name: 'apply_patch', input: '*** Begin Patch' },
      { type: 'local_shell_call', id: 'lsh_1', call_id: 'c2', action: { type: 'exec', command: ['ls'] } },
      { type: 'shell_call', id: 'sh_1', call_id: 'c3', action: { commands: ['ls'] } },
      { type: 'apply_patch_call', id: 'apc_1', call_id: 'c4', operation: { type: 'delete_file', path: 'a' } },
      { type: 'computer_call', id: 'cu_1', call_id: 'c5', action: { type: 'screenshot' } },
      { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'far' } },
      { type: 'mcp_call', id: 'mcp_1', name: 'roll', server_label: 'dice', arguments: '{"sides":6}', output: '4' },
      { type: 'mcp_call', id: 'mcp_2', name: 'roll', server_label: 'dice', arguments: '{}', error: 'no dice' },
      { type: 'code_interpreter_call', id: 'ci_1', code: 'print(1)', outputs: [{ type: 'logs', logs: '1' }] },
    ];
    const { called, content, returned } = recorded('responses', { input: 'hello' }, { output });
    expect(called.map(({ name, type, index, arguments: given }) => [index, name, type, given])).toEqual([
      [0, 'apply_patch', 'custom', '*** Begin Patch'],
      [1, 'local_shell', 'function', { type: 'exec', command: ['ls'] }],
      [2, 'shell', 'function', { commands: ['ls'] }],
      [3, 'apply_patch', 'function', { type: 'delete_file', path: 'a' }],
      [4, 'computer', 'function', { type: 'screenshot' }],
      [5, 'web_search', 'server', { type: 'search', query: 'far' }],
      [6, 'roll', 'mcp', { sides: 6 }],
      [7, 'roll', 'mcp', {}],
      [8, 'code_interpreter', 'server', 'print(1)'],
    ]);
    expect(returned.map(({ status, output }) => [status, output])).toEqual([
      ['ok', '4'],
      ['error', 'no dice'],
      ['ok', [{ type: 'logs', logs: '1' }]],
    ]);
    expect(content.map(({ type }: Fields) => type)).toEqual([...Array(5).fill('tool_call'), ...Array(4).fill('raw')]);

    const text = { type: 'input_text', text: 'see' };
    const picture = { type: 'input_image', image_url: 'data:,' };
    const results = [
      { type: 'custom_tool_call_output', call_id: 'c1', output: 'Done' },
      { type: 'local_shell_call_output', id: 'c2', output: '{"error":"no"}' },
      { type: 'shell_call_output', call_id: 'c3', output: [{ stdout: 'a', outcome: { type: 'exit', exit_code: 0 } }] },
      { type: 'apply_patch_call_output', call_id: 'c4', status: 'failed', output: 'no such file' },
      { type: 'function_call_output', call_id: 'c5', output: [text, picture] },
    ];
    const next = recorded('responses', { input: [HELLO, ...output, ...results] }, { output: [] });
    const ids = called.map((one) => one.tool_call_id);
    const meets = next.returned.filter(({ tool_call_id: id }) => ids.indexOf(id) < 5);
    expect(meets.map(({ tool_call_id: id, status, flags }) => [ids.indexOf(id), status, flags ?? []])).toEqual([
      [0, 'ok', []],
      [1, 'ok', ['apparent_error']],
      [2, 'ok', []],
      [3, 'error', []],
      [4, 'ok', []],
    ]);
    expect(next.input.slice(-5).map(({ role }: Fields) => role)).toEqual(Array(5).fill('tool'));
    expect(next.input.at(-1).content).toEqual([{ type: 'text', content: 'see' }, picture]);
  });

  it('that was cut off in its stream has the reasoning and the input that came', () => {
    const item = (place: number, item: object) => ({ type: 'response.output_item.added', output_index: place, item });
    const body = put(responseEvents(), [
      { type: 'response.created', response: { id: 'r', status: 'in_progress', output: [] } },
      item(0, { type: 'reasoning', id: 'rs', summary: [] }),
      { type: 'response.reasoning_summary_text.delta', output_index: 0, summary_index: 0, delta: 'Per' },
      { type: 'response.reasoning_summary_text.delta', output_index: 0, summary_index: 0, delta: 'haps' },
      item(1, { type: 'message', id: 'm', role: 'assistant', content: [] }),
      { type: 'response.refusal.delta', output_index: 1, content_index: 0, delta: 'No' },
      item(2, { type: 'custom_tool_call', id: 'ctc', call_id: 'c', name: 'apply_patch', input: '' }),
      { type: 'response.custom_tool_call_input.delta', output_index: 2, delta: '*** Be' },
    ]);
    expect(recorded('responses', { input: 'hello' }, body).content).toMatchObject([
      { type: 'reasoning', content: 'Perhaps' },
      { type: 'refusal', refusal: 'No' },
      { type: 'tool_call', name: 'apply_patch', arguments: '*** Be' },
    ]);
  });
});

describe('a message of Anthropic', () => {
  const message = (content: readonly object[]) => ({ id: 'm', type: 'message', role: 'assistant', content });

  it('has the tools that its server ran, with what they returned, beside those of the client', () => {
    const blocks = [
      { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'far' } },
      { type: 'web_search_tool_result', tool_use_id: 's', content: { type: 'web_search_tool_result_error' } },
      { type: 'mcp_tool_use', id: 'p', name: 'roll', server_name: 'dice', input: {} },
      { type: 'mcp_tool_result', tool_use_id: 'p', is_error: false, content: [{ type: 'text', text: '4' }] },
      { type: 'tool_use', id: 't', name: 'look_up', input: { city: 'Bern' } },
    ];
    const { called, returned, content } = recorded('messages', { messages: [HELLO] }, message(blocks));
    expect(called.map(({ index, name, type }) => [index, name, type])).toEqual([
      [0, 'look_up', 'function'],
      [1, 'web_search', 'server'],
      [2, 'roll', 'mcp'],
    ]);
    const ids = called.map((one) => one.tool_call_id);
    expect(returned.map(({ tool_call_id: id, status }) => [ids.indexOf(id), status])).toEqual([
      [1, 'error'],
      [2, 'ok'],
    ]);
    expect(content).toMatchObject([...blocks.slice(0, 4), { type: 'tool_call' }]);
  });

  it('that was cut off in the input of a tool has it as it was written', () => {
    const body = put(messageEvents(), [
      { type: 'message_start', message: message([]) },
      { type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: 't', name: 'f', input: {} } },
      { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: '{"city":' } },
    ]);
    expect(recorded('messages', { messages: [HELLO] }, body).called).toMatchObject([{ arguments_raw: '{"city":' }]);
  });
});

it('a call of any shape is recorded: none of its events is refused', () => {
  const types = [
    ...['message', 'reasoning', 'function_call', 'custom_tool_call', 'shell_call', 'mcp_call', 'web_search_call'],
    ...['function_call_output', 'shell_call_output', 'text', 'tool_use', 'tool_result', 'server_tool_use', 'thinking'],
  ];
  const part = fc.record(
    {
      type: fc.oneof(fc.constantFrom(...types), fc.jsonValue()),
      role: fc.oneof(fc.constantFrom('user', 'assistant', 'tool', 'system'), fc.jsonValue()),
      id: fc.oneof(fc.constantFrom('a', ''), fc.jsonValue()),
      call_id: fc.oneof(fc.constantFrom('a', ''), fc.jsonValue()),
      tool_use_id: fc.constantFrom('a', ''),
      name: fc.oneof(fc.constantFrom('f', ''), fc.jsonValue()),
      content: fc.oneof(
        fc.string(),
        fc.array(fc.record({ type: fc.constantFrom(...types), text: fc.jsonValue() })),
        fc.jsonValue(),
      ),
      output: fc.oneof(fc.string(), fc.array(fc.dictionary(fc.constantFrom('type', 'text', 'x'), fc.jsonValue()))),
      tool_calls: fc.array(fc.record({ id: fc.jsonValue(), function: fc.jsonValue() })),
      refusal: fc.jsonValue(),
      audio: fc.jsonValue(),
      images: fc.jsonValue(),
    },
    { requiredKeys: [] },
  );
  const parts = fc.array(part, { maxLength: 3 });
  fc.assert(
    fc.property(fc.constantFrom<Kind>('chat', 'messages', 'responses'), parts, parts, (kind, given, answered) => {
      const request = kind === 'responses' ? { input: given } : { messages: given };
      const response: Fields =
        kind === 'chat'
          ? { choices: answered.map((message, index) => ({ index, message })) }
          : kind === 'messages'
            ? { type: 'message', content: answered }
            : { output: answered };
      recorded(kind, request as Fields, response);
    }),
    { numRuns: 300 },
  );
});

describe('a content that is a list of parts', () => {
  const thought = (...texts: string[]) => [
    { type: 'thinking', thinking: texts.map((text) => ({ type: 'text', text })) },
  ];
  const whole = [
    { type: 'thinking', thinking: [{ type: 'text', text: 'First, one. Then two.' }] },
    { type: 'text', text: 'It is 2.' },
  ];
  const inChat = (content: unknown) => recorded('chat', { messages: [HELLO] }, chat({ content })).content;

  it('is recorded of a stream as of the same answer without one', () => {
    const streams = [
      ['', thought('First, one. '), thought('Then two.'), 'It is ', '2.'],
      [null, thought('First, '), thought('one. ', 'Then two.'), [{ type: 'text', text: 'It is' }], ' 2.'],
    ];
    for (const contents of streams) {
      const body = put(
        chunks('chat.completion'),
        contents.map((content) => chunk({ content })),
      );
      expect(recorded('chat', { messages: [HELLO] }, body).content).toEqual(inChat(whole));
    }
    expect(JSON.stringify(inChat(whole))).toContain('First, one. Then two.');
  });

  it('keeps parts that hold no text, and their place', () => {
    const reference = { type: 'reference', reference_ids: [1] };
    const body = put(
      chunks('chat.completion'),
      ['a', 'b', [reference], [reference], 'c'].map((content) => chunk({ content })),
    );
    expect((body.choices as { message: { content: unknown } }[])[0]!.message.content).toEqual([
      { type: 'text', text: 'ab' },
      reference,
      reference,
      { type: 'text', text: 'c' },
    ]);
  });
});

describe('a call of the Responses API with a namespace', () => {
  const item = (namespace: string | null, call_id: string) => ({
    ...{ type: 'function_call', id: `fc_${call_id}`, call_id, name: 'echo', namespace, arguments: '{"x":1}' },
  });
  const output = [item('diagnostics', 'a'), item('billing', 'b'), item(null, 'c')];
  const names = ['diagnostics.echo', 'billing.echo', 'echo'];

  it('is told apart from one of the same name, as a call, in the answer and in later inputs', () => {
    const { called, content } = recorded('responses', { input: 'hello' }, { output });
    expect(called.map(({ name }) => name)).toEqual(names);
    expect(content.map(({ name }: Fields) => name)).toEqual(names);
    const next = recorded('responses', { input: [HELLO, ...output] }, { output: [] });
    expect(next.input.slice(1).map(({ content: [part] }: { content: Fields[] }) => part!.name)).toEqual(names);
  });
});
