import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeDraft } from '../../ingest/events/decode.ts';
import type { EventName } from '../../ingest/events/events.ts';
import { canonicalJson, guardJson } from '../../ingest/events/json.ts';
import { formatNamed } from '../../ingest/formats/catalogue.ts';
import type { RestoredEvent } from '../../ingest/formats/kit/format.ts';
import { chatRow, completion, completionLog } from './support/native-samples.ts';
import { tablesOf } from './support/tables.ts';

const format = formatNamed('openai-chat');
const convert = (value: unknown, ordinal = 0) => format.convert({ value, canonical: canonicalJson(value), ordinal });
const dataOf = (drafts: readonly RestoredEvent[], name: EventName): Record<string, unknown>[] =>
  drafts.filter((draft) => draft.name === name).map((draft) => draft.data as Record<string, unknown>);

describe('a chat row with blocks of the Messages API of Anthropic', () => {
  const calls = [
    { type: 'thinking', thinking: 'hm', signature: 's' },
    { type: 'text', text: 'Let me see.' },
    { type: 'tool_use', id: 'tu_1', name: 'calc', input: { x: 1 } },
    { type: 'tool_use', id: 'tu_2', name: 'calc', input: {} },
  ];
  const results = [
    { type: 'tool_result', tool_use_id: 'tu_2', content: [{ type: 'text', text: 'no' }], is_error: true },
    { type: 'tool_result', tool_use_id: 'tu_1', content: '2' },
    { type: 'text', text: 'Go on.' },
  ];
  const row = {
    system: 'Be brief.',
    messages: [
      { role: 'user', content: 'How long?' },
      { role: 'assistant', content: calls },
      { role: 'user', content: results },
      { role: 'assistant', content: [{ type: 'text', text: 'Two.' }] },
    ],
  };

  it('has the tool calls, their results and the reasoning that the blocks hold', () => {
    const { drafts, refusals } = convert(row);
    expect(refusals).toEqual([]);
    expect(
      dataOf(drafts, 'tool.called').map((data) => [data.tool_call_id, data.call_id, data.name, data.arguments]),
    ).toEqual([
      ['tu_1', 'm2', 'calc', { x: 1 }],
      ['tu_2', 'm2', 'calc', {}],
    ]);
    expect(dataOf(drafts, 'tool.returned').map((data) => [data.tool_call_id, data.status, data.output])).toEqual([
      ['tu_2', 'error', 'no'],
      ['tu_1', 'ok', '2'],
    ]);
    expect(dataOf(drafts, 'message.sent').map((data) => [data.role, data.content])).toEqual([
      ['system', 'Be brief.'],
      ['user', 'How long?'],
      ['user', [{ type: 'text', content: 'Go on.' }]],
    ]);
    const [first] = dataOf(drafts, 'generation.completed')[0]!.choices as { content: object[] }[];
    expect(first!.content.slice(0, 2)).toEqual([
      { type: 'reasoning', content: 'hm', signature: 's' },
      { type: 'text', content: 'Let me see.' },
    ]);
  });

  it('is given back as it was', () => {
    expect(format.write!(convert(row).drafts as never)).toEqual([row]);
  });

  it('is a call with its answer, where request and response were logged', () => {
    const log = {
      request: { model: 'claude', system: 'Be brief.', messages: row.messages.slice(0, 3), max_tokens: 9 },
      response: {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        content: [{ type: 'tool_use', id: 'tu_3', name: 'calc', input: { x: 2 } }],
        stop_reason: 'tool_use',
        usage: { input_tokens: 5, cache_read_input_tokens: 3, output_tokens: 7 },
      },
    };
    const { drafts, refusals } = convert(log);
    expect(refusals).toEqual([]);
    expect(dataOf(drafts, 'generation.completed')).toMatchObject([
      {
        response_id: 'msg_1',
        usage: { input_tokens: 8, cached_input_tokens: 3, output_tokens: 7 },
        choices: [{ finish_reason: 'tool_call', content: [{ type: 'tool_call', id: 'tu_3', name: 'calc' }] }],
      },
    ]);
    expect(dataOf(drafts, 'tool.called')).toMatchObject([{ name: 'calc', arguments: { x: 2 } }]);
    expect(dataOf(drafts, 'tool.returned')).toHaveLength(2);
    expect(format.write!(drafts as never)).toEqual([log]);
  });
});

describe('a chat row whose tool calls have no ids', () => {
  const call = (name: string) => ({ type: 'function', function: { name, arguments: { x: name } } });
  const rows = [
    {
      messages: [
        { role: 'user', content: 'Look.' },
        { role: 'assistant', content: '', function_call: { name: 'b', arguments: '{"x":"b"}' } },
        { role: 'function', name: 'b', content: 'of b' },
        { role: 'assistant', content: 'Done.' },
      ],
    },
    {
      conversations: [
        { role: 'user', content: 'Look.' },
        { role: 'assistant', tool_calls: [{ id: null, name: 'a', arguments: { x: 'a' } }, call('b')] },
        { role: 'tool', name: 'b', content: 'of b' },
        { role: 'tool', content: 'of a' },
        { role: 'assistant', content: 'Done.' },
      ],
    },
  ];

  it('has them with their results by name, else by order, and is given back as it was', () => {
    const results = rows.map((row) => {
      const { drafts, refusals } = convert(row);
      expect(refusals).toEqual([]);
      expect(format.write!(drafts)).toEqual([row]);
      const calls = new Map(dataOf(drafts, 'tool.called').map((one) => [one.tool_call_id, one.arguments]));
      return dataOf(drafts, 'tool.returned').map((one) => [calls.get(one.tool_call_id), one.output]);
    });
    expect(results).toEqual([
      [[{ x: 'b' }, 'of b']],
      [
        [{ x: 'b' }, 'of b'],
        [{ x: 'a' }, 'of a'],
      ],
    ]);
  });

  it('is recognised, and a result that answers none of them is refused', () => {
    expect(rows.map((row) => format.recognises({ records: [row], shape: 'lines' }))).toEqual([true, true]);
    const [user, asked] = rows[1]!.conversations!;
    const odd = { messages: [user, asked, { role: 'tool', name: 'c', content: 'of c' }] };
    expect(convert(odd).refusals).toMatchObject([{ code: 'bad_type', field: 'messages[2].tool_call_id' }]);
  });

  it('in a log meets the results of the next request', () => {
    const [user, asked, result] = rows[0]!.messages!;
    const log = (messages: unknown[], message: unknown, step: number) => ({
      request: { messages, metadata: { run_id: 'r', step } },
      response: { choices: [{ index: 0, message }] },
    });
    const drafts = [
      ...convert(log([user, asked, result], { role: 'assistant', content: 'Done.' }, 1)).drafts,
      ...convert(log([user], asked, 0)).drafts,
    ];
    expect(dataOf(drafts, 'tool.returned')).toHaveLength(1);
    expect(dataOf(drafts, 'tool.returned').map((one) => one.tool_call_id)).toEqual(
      dataOf(drafts, 'tool.called').map((one) => one.tool_call_id),
    );
  });
});

describe('a chat row that names a task', () => {
  it('is of that task, named by task_id, beside the messages or in the metadata, before the text', () => {
    const messages = [
      { role: 'user', content: 'How long?' },
      { role: 'assistant', content: 'Two.' },
    ];
    const task = (more: object) => dataOf(convert({ messages, ...more }).drafts, 'episode.started')[0]!.task_id;
    expect([task({ task_id: 't-1' }), task({ metadata: { task_id: 't-2' } })]).toEqual(['t-1', 't-2']);
    expect(task({ task_id: 7 })).toMatch(/^text\//);
  });
});

describe('a completion log', () => {
  const first = completion('run-1', 0, 'Twenty');

  it('is one call of the run, task and agent in its metadata, at the time of its answer', () => {
    const { drafts } = convert(first);
    expect(dataOf(drafts, 'episode.started')).toMatchObject([{ episode_id: 'run-1', task_id: 'math-1' }]);
    const completed = drafts.find((draft) => draft.name === 'generation.completed')!;
    expect(completed.time).toBe('2026-09-10T00:43:20.000Z');
    expect(completed.data).toMatchObject({
      agent_id: 'solver',
      response_id: 'chatcmpl-run-1-0',
      prompt_token_ids: [1, 2],
      seq: 0,
    });
  });

  it('keeps the candidates of the call, with token ids and log-probabilities beside the text', () => {
    expect(dataOf(convert(first).drafts, 'generation.completed')[0]!.choices).toEqual([
      { index: 0, content: 'Twenty', finish_reason: 'stop', token_ids: [7, 8], logprobs: [-0.5, -0.25] },
      { index: 1, content: 'Twenty?', finish_reason: 'length' },
    ]);
  });

  it('does not take log-probabilities that are not one a token, and says so', () => {
    const log = structuredClone(first) as { response: { choices: { token_ids?: number[] }[] } };
    log.response.choices[0]!.token_ids = [7];
    const [completed] = dataOf(convert(log).drafts, 'generation.completed');
    expect(completed).toMatchObject({ flags: ['logprobs_mismatch'], choices: [{ token_ids: [7] }, {}] });
    expect((completed!.choices as { logprobs?: unknown }[])[0]!.logprobs).toBeUndefined();
  });

  it('states its episode in the same words as the other records of the run', () => {
    const shared = (value: unknown) =>
      convert(value)
        .drafts.filter((draft) => /^(episode|task|agent)\./.test(draft.name))
        .map((draft) => canonicalJson(draft));
    expect(shared(completion('run-1', 3, 'other'))).toEqual(shared(first));
  });

  it('pairs the tool results of the next request with the calls of the answer before', () => {
    const messages = [{ role: 'user', content: 'q' }];
    const calls = ['a', 'a', 'b'].map((id) => ({ id, type: 'function', function: { name: 'calc', arguments: '{}' } }));
    const metadata = { run_id: 'r', agent: 'solver' };
    const asked = {
      request: { messages, metadata },
      response: { choices: [{ index: 0, message: { role: 'assistant', content: null, tool_calls: calls } }] },
    };
    const results = ['a', 'b', 'a'].map((id, i) => ({ role: 'tool', tool_call_id: id, content: `result ${i}` }));
    const next = {
      request: {
        messages: [...messages, { role: 'assistant', content: null, tool_calls: calls }, ...results],
        metadata,
      },
      response: { choices: [] },
    };
    const called = dataOf(convert(asked).drafts, 'tool.called').map((data) => data.tool_call_id);
    const returned = dataOf(convert(next).drafts, 'tool.returned').map((data) => [data.tool_call_id, data.output]);
    expect(new Set(called).size).toBe(3);
    expect(returned).toEqual([
      [called[1], 'result 0'],
      [called[2], 'result 1'],
      [called[0], 'result 2'],
    ]);
  });

  it('flags a result that is an object with an error, in a row and in a log, and gives the row back equal', () => {
    const outputs = ['{"error": "no such city"}', '{"error": null, "city": "Oslo"}', 'error', '{"error": '];
    const calls = outputs.map((_, i) => ({
      id: `c${i}`,
      type: 'function',
      function: { name: 'find', arguments: '{}' },
    }));
    const messages = [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: null, tool_calls: calls },
      ...outputs.map((content, i) => ({ role: 'tool', tool_call_id: `c${i}`, content })),
    ];
    const flags = (record: unknown) => dataOf(convert(record).drafts, 'tool.returned').map((one) => one.flags ?? []);
    expect(flags({ messages })).toEqual([['apparent_error'], [], [], []]);
    expect(flags({ request: { messages }, response: { choices: [] } })).toEqual([['apparent_error'], [], [], []]);
    expect(format.write!(convert({ messages }).drafts as never)).toEqual([{ messages }]);
  });

  it('is one call too where its request stands beside the response, and comes back equal', () => {
    const { metadata, model, messages } = first.request;
    const flat = { model, metadata, messages, kwargs: { temperature: 0.5 }, response: first.response, cost: 0.1 };
    const output = { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'Two.' }] };
    for (const log of [flat, { messages, response: output }]) {
      const { drafts, refusals } = convert(log);
      expect(refusals).toEqual([]);
      expect(dataOf(drafts, 'generation.completed')).toHaveLength(1);
      expect(format.write!(drafts)).toEqual([log]);
    }
    const [asked] = dataOf(convert(flat).drafts, 'generation.requested');
    const [nested] = dataOf(convert(first).drafts, 'generation.requested');
    expect({ ...asked, call_id: 0 }).toEqual({ ...nested, call_id: 0, params: { temperature: 0.5 } });
    const [answer] = dataOf(convert(flat).drafts, 'generation.completed');
    expect(answer).toMatchObject({ episode_id: 'run-1', agent_id: 'solver', usage: first.response.usage });
  });

  it('is refused by the name of the field that is wrong', () => {
    const fieldOf = (changes: { request?: object; response?: unknown }): string[] =>
      convert({
        request: { ...first.request, ...changes.request },
        response: changes.response === undefined ? first.response : changes.response,
      }).refusals.map((refusal) => `${refusal.code} ${refusal.field}`);
    expect(fieldOf({ request: { metadata: { run_id: 'a\u0000b' } } })).toEqual([
      'bad_identifier request.metadata.run_id',
    ]);
    expect(fieldOf({ request: { metadata: { run_id: 7 } } })).toEqual(['bad_type request.metadata.run_id']);
    expect(fieldOf({ request: { messages: 'hi' } })).toEqual(['bad_type request.messages']);
    expect(fieldOf({ request: { messages: [{ role: 'robot' }] } })).toEqual(['bad_type request.messages[0].role']);
    expect(fieldOf({ response: null })).toEqual(['bad_type response']);
    expect(fieldOf({ response: { choices: [{ index: 0, message: { role: 'assistant' } }, { index: 0 }] } })).toEqual([
      'bad_shape response.choices[1].index',
    ]);
    expect(
      fieldOf({ response: { choices: [{ index: 0, message: { role: 'assistant' }, token_ids: ['x'] }] } }),
    ).toEqual(['bad_type response.choices[0].token_ids']);
  });
});

describe('a chat row', () => {
  it('has no agent, no time and the task of its first user text', () => {
    const { drafts } = convert({
      messages: [
        { role: 'system', content: 'You solve.' },
        { role: 'user', content: 'q' },
        { role: 'assistant', content: 'a' },
      ],
    });
    expect(drafts.every((draft) => draft.time === null)).toBe(true);
    expect(dataOf(drafts, 'generation.completed')[0]!.agent_id).toBeUndefined();
    expect(dataOf(drafts, 'agent.defined')).toEqual([]);
    expect(dataOf(drafts, 'task.defined')).toMatchObject([{ query: 'q' }]);
  });

  it('and a log have the reasoning that servers give beside the text, by either of its names', () => {
    const parts = [
      { type: 'reasoning', content: 'hm' },
      { type: 'text', content: 'Four.' },
    ];
    for (const name of ['reasoning', 'reasoning_content']) {
      const asked = { role: 'user', content: 'Two and two?' };
      const message = { role: 'assistant', content: 'Four.', [name]: 'hm' };
      const rows = [
        { messages: [asked, message] },
        { request: { messages: [asked] }, response: { choices: [{ index: 0, message }] } },
      ];
      for (const row of rows) {
        const { drafts } = convert(row);
        const [{ content } = {}] = dataOf(drafts, 'generation.completed')[0]!.choices as { content?: unknown }[];
        expect(content).toEqual(parts);
        expect(format.write!(drafts)).toEqual([row]);
      }
    }
  });

  it('without an answer is flagged incomplete', () => {
    const started = (row: object) => dataOf(convert(row).drafts, 'episode.started')[0];
    const messages = [{ role: 'user', content: 'Two and two?' }];
    expect(started({ messages, response: 'Four.' })).toMatchObject({ flags: ['incomplete'] });
    expect(started({ messages: [...messages, { role: 'assistant', content: 'Four.' }] })).not.toHaveProperty('flags');
  });

  it('is refused where a tool answers no call', () => {
    const fieldOf = (...messages: object[]) => convert({ messages }).refusals.map((refusal) => refusal.field);
    expect(fieldOf({ role: 'tool', content: 'x' })).toEqual(['messages[0].tool_call_id']);
    expect(fieldOf({ role: 'user', content: 'q' }, { role: 'tool', tool_call_id: 'c', content: 'x' })).toEqual([
      'messages[1].tool_call_id',
    ]);
  });

  it('keeps arguments as written beside the parsed ones', () => {
    const row = (text: string) => ({
      messages: [
        { role: 'assistant', tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: text } }] },
      ],
    });
    expect(dataOf(convert(row('{"b": 1}')).drafts, 'tool.called')[0]).toMatchObject({
      arguments: { b: 1 },
      arguments_raw: '{"b": 1}',
    });
    const [broken] = dataOf(convert(row('{"b":')).drafts, 'tool.called');
    expect(broken).toMatchObject({ arguments: null, arguments_raw: '{"b":' });
    expect(broken!.parse_error).toContain('JSON');
  });
});

describe('native to events to native', () => {
  it('gives chat rows and completion logs back equal as JSON', () => {
    fc.assert(
      fc.property(fc.oneof(chatRow, completionLog), (native) => {
        const record = JSON.parse(JSON.stringify(native)) as unknown;
        fc.pre(guardJson(JSON.stringify(native)) === null);
        const { drafts, refusals } = convert(record);
        expect(refusals).toEqual([]);
        expect(canonicalJson(format.write!(drafts))).toBe(canonicalJson([record]));
      }),
      { numRuns: 400 },
    );
  });

  it('needs no copy of an ordinary record', () => {
    const ordinary = [
      completion('r', 1, 'x'),
      {
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'q' }] },
          {
            role: 'assistant',
            content: null,
            tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{"b": 1}' } }],
          },
          { role: 'tool', tool_call_id: 'c', content: '2' },
          { role: 'assistant', content: '2', refusal: null, weight: 1 },
        ],
        tools: [{ type: 'function', function: { name: 'f' } }],
      },
    ];
    for (const record of ordinary) {
      const { drafts } = convert(record);
      expect(canonicalJson(format.write!(drafts))).toBe(canonicalJson([record]));
      const copies = drafts.filter((draft) => (draft.data as { unmapped?: { record?: unknown } }).unmapped?.record);
      expect(copies).toEqual([]);
    }
  });

  it('writes an episode that another program recorded as logs of its calls', () => {
    const recorded: RestoredEvent[] = [
      { name: 'episode.started', time: null, data: { episode_id: 'e1', task_id: 't1' } },
      {
        name: 'generation.requested',
        time: null,
        data: {
          episode_id: 'e1',
          call_id: 'k',
          agent_id: 'solver',
          model: 'm',
          input: [{ role: 'user', content: 'q' }],
        },
      },
      {
        name: 'generation.completed',
        time: '2026-09-10T00:56:40.000000Z',
        data: { episode_id: 'e1', call_id: 'k', choices: [{ index: 0, content: [{ type: 'text', content: 'a' }] }] },
      },
    ];
    expect(format.write!(recorded)).toEqual([
      {
        request: {
          model: 'm',
          metadata: { task_id: 't1', run_id: 'e1', agent: 'solver' },
          messages: [{ role: 'user', content: 'q' }],
        },
        response: {
          object: 'chat.completion',
          created: 1789001800,
          choices: [{ index: 0, message: { role: 'assistant', content: [{ type: 'text', text: 'a' }] } }],
        },
      },
    ]);
  });
});

it('a chat row is an episode whose row shows that it holds no token ids', () => {
  const { drafts } = convert({
    messages: [
      { role: 'user', content: 'How long?' },
      { role: 'assistant', content: 'Two.' },
    ],
  });
  const events = drafts.flatMap((draft) => decodeDraft(draft).event ?? []);
  expect(tablesOf(events).find((row) => row.startsWith('episodes_started'))).toContain('"flags":["no_token_ids"]');
});
