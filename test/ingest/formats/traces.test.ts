import { describe, expect, it } from 'vitest';
import { decodeDraft } from '../../../ingest/events/decode.ts';
import type { Draft } from '../../../ingest/events/events.ts';
import { canonicalJson } from '../../../ingest/events/json.ts';
import { formatNamed } from '../../../ingest/formats/catalogue.ts';
import { decodeOtlp } from '../../../ingest/traces/otlp/decode.ts';
import { eventsOfSpans } from '../../../ingest/traces/otlp-traces.ts';
import {
  agent,
  aTrace,
  chat,
  logRequest,
  message,
  request,
  span,
  spanId,
  TRACE,
  text,
  tool,
} from '../support/spans.ts';

const eventsOf = (spans: readonly unknown[], logs: readonly unknown[] = [], whole = true): readonly Draft[] => {
  const decoded = decodeOtlp({ ...request(spans), ...logRequest(logs) });
  expect(decoded.refusals).toEqual([]);
  const drafts = eventsOfSpans(decoded.spans, { logs: decoded.logs, whole });
  // Every event of it is valid.
  for (const draft of drafts) expect(decodeDraft(draft).refusal).toBeUndefined();
  return drafts;
};
const named = (drafts: readonly Draft[], name: string) =>
  drafts.filter((draft) => draft.name === name).map(({ data }) => data as never as Record<string, never>);
const asked = (content: unknown) => [{ role: 'assistant', parts: content, finish_reason: 'stop' }];

describe('a trace of spans', () => {
  it('is an episode with its task, its members and their calls', () => {
    const drafts = eventsOf(aTrace());
    expect(named(drafts, 'episode.started')).toMatchObject([
      { episode_id: TRACE, session_id: 'conv', flags: ['no_token_ids'] },
    ]);
    expect(named(drafts, 'task.defined')).toMatchObject([{ query: 'How far?' }]);
    expect(named(drafts, 'generation.completed').map(({ agent_id: by }) => by)).toEqual([
      'planner',
      'solver',
      'solver',
    ]);
    expect(drafts.find(({ name }) => name === 'episode.finished')?.time).toBe('2026-09-10T00:27:00.000000000Z');
  });

  it('is no episode where agents are created and nothing else happens', () => {
    const created = span({
      id: 1,
      name: 'create_agent planner',
      attributes: { 'gen_ai.operation.name': 'create_agent', 'gen_ai.agent.name': 'planner' },
    });
    expect(eventsOf([created])).toEqual([]);
    const used = eventsOf([created, chat({ id: 2 }, [message('assistant', text('Far.'))])]);
    expect([named(used, 'episode.started').length, named(used, 'agent.defined').length]).toEqual([1, 1]);
  });

  it.each([
    ['gen_ai.workflow.name', 'v1.41'],
    ['gen_ai.agent.name', 'semantic-conventions-genai v0.1.0'],
  ])('is tagged with the workflow that %s names (%s), which is no agent', (attribute) => {
    const drafts = eventsOf([
      span({ id: 1, until: 9, attributes: { 'gen_ai.operation.name': 'invoke_workflow', [attribute]: 'report' } }),
      agent({ id: 2, parent: 1, until: 8 }, 'chief'),
      chat({ id: 3, parent: 1 }, [message('assistant', text('Done.'))]),
    ]);
    expect(named(drafts, 'episode.started')).toMatchObject([{ tags: { workflow: 'report' } }]);
    expect(named(drafts, 'agent.defined').map(({ agent_id: id }) => id)).toEqual(['chief']);
    expect(named(drafts, 'agent.changed').map(({ by }) => by ?? null)).not.toContain('report');
    expect(named(drafts, 'generation.completed').map(({ agent_id: by }) => by ?? null)).toEqual([null]);
  });

  it('keeps the version of an agent', () => {
    const attributes = { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'chief' };
    const drafts = eventsOf([span({ id: 1, attributes: { ...attributes, 'gen_ai.agent.version': '2025-05-01' } })]);
    expect(JSON.stringify(named(drafts, 'agent.defined'))).toContain('"version":"2025-05-01"');
  });

  it('has a decision of kind plan for each plan span, by its agent, beside the call that wrote the plan', () => {
    const plan = (made: { id: number; parent: number; at?: number }, more: object = {}) =>
      span({ name: 'plan', ...made, attributes: { 'gen_ai.operation.name': 'plan', ...more } });
    const drafts = eventsOf([
      agent({ id: 1, until: 9 }, 'chief'),
      plan({ id: 2, parent: 1 }),
      chat({ id: 3, parent: 2 }, [message('assistant', text('First measure.'))]),
      plan({ id: 4, parent: 1 }, { 'gen_ai.agent.name': 'deputy', 'error.type': 'timeout' }),
    ]);
    expect(named(drafts, 'decision.made')).toMatchObject([
      { kind: 'plan', by: 'chief', decision: null, native: { ids: { span_id: spanId(2) } } },
      { kind: 'plan', by: 'deputy', decision: null, unmapped: { attributes: { 'error.type': 'timeout' } } },
    ]);
    expect(named(drafts, 'generation.completed')).toMatchObject([{ agent_id: 'chief' }]);
    expect(named(drafts, 'generation.requested')).toMatchObject([{ parent_id: spanId(2) }]);
    expect(named(drafts, 'environment.observed').filter(({ kind }) => kind === 'span')).toEqual([]);
  });

  it('flags the result of an MCP tool that reports an error under status ok', () => {
    const result = (output: unknown) =>
      named(
        eventsOf([
          agent({ id: 1, until: 9 }, 'planner'),
          tool({ id: 2, parent: 1 }, 'calc', 'c', { 'gen_ai.tool.call.result': output }),
        ]),
        'tool.returned',
      );
    expect(result('{"content":[{"type":"text","text":"no"}],"isError":true}')).toMatchObject([
      { status: 'ok', flags: ['apparent_error'] },
    ]);
    expect(result('{"content":[],"isError":false}')[0]!.flags).toBeUndefined();
    expect(result('the log says "isError":true')[0]!.flags).toBeUndefined();
  });

  it('gives a native tool call id that comes twice two calls, each with its own result', () => {
    const drafts = eventsOf(aTrace());
    expect(named(drafts, 'tool.called').map(({ tool_call_id: id, call_id: call }) => [id, call])).toEqual([
      ['c', spanId(5)],
      ['d', spanId(5)],
      ['c#2', spanId(8)],
    ]);
    expect(named(drafts, 'tool.returned').map(({ tool_call_id: id, output }) => [id, output])).toEqual([
      ['c', 'one'],
      ['d', 'two \u0000 \ud800'],
      ['c#2', 'three'],
    ]);
  });

  it('counts the calls inside a call, not the call around them, but a call that a tool makes beside the one that asked', () => {
    const drafts = eventsOf([
      chat({ id: 1, at: 0, until: 9 }, asked([text('outer')])),
      chat({ id: 2, parent: 1 }, asked([text('inner')])),
      tool({ id: 3, parent: 2 }, 'delegate', null),
      chat({ id: 4, parent: 3 }, asked([text('delegate')])),
    ]);
    expect(named(drafts, 'generation.completed').map(({ call_id: id }) => id)).toEqual([spanId(2), spanId(4)]);
    expect(named(drafts, 'environment.observed')).toHaveLength(1);
  });

  it('finds a parent that comes later, and ends where parents form a circle', () => {
    const drafts = eventsOf([
      chat({ id: 3, parent: 2 }, asked([text('x')])),
      span({ id: 2, parent: 1 }),
      agent({ id: 1, parent: 3 }, 'a'),
    ]);
    expect(named(drafts, 'generation.completed')).toMatchObject([{ agent_id: 'a' }]);
    expect(named(drafts, 'episode.started')).toMatchObject([{ flags: ['no_token_ids', 'no_root'] }]);
  });

  it('pairs a tool run without a call id by name and arguments, then by order', () => {
    const calls = [1, 2, 3].map((x) => ({
      type: 'tool_call',
      id: `c${x}`,
      name: 'calc',
      arguments: { x: x === 3 ? 1 : x },
    }));
    const run = (id: number, x: number) =>
      tool({ id, parent: 1 }, 'calc', null, { 'gen_ai.tool.call.arguments': `{"x": ${x}}` });
    const drafts = eventsOf([
      agent({ id: 1, at: 0, until: 9 }, 'a'),
      chat({ id: 2, parent: 1 }, asked(calls)),
      run(3, 2),
      run(4, 1),
      run(5, 9),
    ]);
    expect(named(drafts, 'tool.returned').map(({ tool_call_id: id }) => id)).toEqual(['c2', 'c1', 'c3']);
    expect(named(drafts, 'tool.called')).toHaveLength(3);
  });

  it('records a tool run without a known call, so that a call that comes later completes it', () => {
    const drafts = eventsOf([tool({ id: 3, parent: 1 }, 'calc', 'c', { 'error.type': 'timeout' })]);
    expect(drafts.find(({ name }) => name === 'tool.called')).toMatchObject({
      time: null,
      data: { tool_call_id: 'c', flags: ['asked_elsewhere'] },
    });
    expect(named(drafts, 'tool.returned')).toMatchObject([{ status: 'timeout' }]);
  });

  it('names the tool call whose code made another one', () => {
    const asked = [message('assistant', { type: 'tool_call', id: 'c', name: 'program', arguments: {} })];
    const events = eventsOfSpans(
      decodeOtlp(
        request([chat({ id: 1 }, asked), tool({ id: 2 }, 'program', 'c'), tool({ id: 3, parent: 2 }, 'open', null)]),
      ).spans,
    );
    const called = events.flatMap(({ name, data }) => (name === 'tool.called' ? [data] : []));
    expect(called.map(({ name, parent_tool_call_id: parent }) => [name, parent])).toEqual([
      ['program', undefined],
      ['open', 'c'],
    ]);
  });

  it('keeps every attribute without a place, and the span as it came', () => {
    const drafts = eventsOf([
      chat({ id: 1, attributes: { 'my.own': 'thing', 'gen_ai.request.top_k': 3 } }, asked([text('x')])),
    ]);
    const [answered] = named(drafts, 'generation.completed');
    expect(answered).toMatchObject({
      unmapped: { attributes: { 'my.own': 'thing' }, resource: { 'service.name': 'team' } },
    });
    expect(named(drafts, 'generation.requested')).toMatchObject([{ params: { top_k: 3 } }]);
  });

  it('makes no events of traces without agents or models', () => {
    expect(eventsOf([span({ id: 1, name: 'GET /health' })])).toEqual([]);
  });

  it('keeps content that is no JSON, flagged', () => {
    const drafts = eventsOf([chat({ id: 1, attributes: { 'gen_ai.output.messages': '[{"role":' } }, [])]);
    expect(named(drafts, 'generation.completed')).toMatchObject([
      { choices: [{ index: 0 }], flags: ['unread_content'] },
    ]);
  });
});

describe('content that is recorded beside the span', () => {
  const bare = span({ id: 1, attributes: { 'gen_ai.operation.name': 'chat' } });
  const log = (name: string, body: unknown, attributes: Record<string, unknown> = {}) => ({
    traceId: TRACE,
    spanId: spanId(1),
    timeUnixNano: '1789000001000000000',
    eventName: name,
    ...(body === null ? {} : { body }),
    attributes: span({ id: 1, attributes }).attributes,
  });
  const details = log('gen_ai.client.inference.operation.details', null, {
    'gen_ai.operation.name': 'chat',
    'gen_ai.input.messages': [message('user', text('Why?'))],
    'gen_ai.output.messages': [message('assistant', text('So.'))],
  });

  it('in a log of the whole call is its content, with or without the span', () => {
    for (const spans of [[bare], []]) {
      expect(named(eventsOf(spans, [details]), 'generation.completed')).toMatchObject([
        { call_id: spanId(1), choices: [{ content: 'So.' }] },
      ]);
    }
  });

  it('in one event for each message, as until v1.36, is its content', () => {
    const body = (fields: Record<string, string>) => ({
      kvlistValue: { values: Object.entries(fields).map(([key, value]) => ({ key, value: { stringValue: value } })) },
    });
    const drafts = eventsOf(
      [bare],
      [
        log('gen_ai.user.message', body({ content: 'Why?' })),
        log('gen_ai.choice', body({ finish_reason: 'stop', message: '{"content": "So."}' })),
      ],
    );
    expect(named(drafts, 'generation.requested')).toMatchObject([{ input: [{ role: 'user', content: 'Why?' }] }]);
    expect(named(drafts, 'generation.completed')).toMatchObject([
      { choices: [{ content: 'So.', finish_reason: 'stop' }] },
    ]);
  });

  it('and evaluations become feedback on what they judge, also before it is known', () => {
    const evaluation = (spanOf: number | null, score: unknown, more = {}) => ({
      ...log('gen_ai.evaluation.result', null, {
        'gen_ai.evaluation.name': 'exact',
        'gen_ai.evaluation.score.value': score,
        ...more,
      }),
      spanId: spanOf === null ? '' : spanId(spanOf),
    });
    const judged = (spans: readonly unknown[], log: unknown) => named(eventsOf(spans, [log]), 'feedback.recorded');
    const kindOf = (spans: readonly unknown[], of: number | null) => judged(spans, evaluation(of, 0.5))[0]?.target;
    expect(kindOf(aTrace(), 1)).toMatchObject({ kind: 'episode', episode_id: TRACE });
    expect(kindOf(aTrace(), 5)).toEqual({ kind: 'call', id: spanId(5), episode_id: TRACE });
    expect(kindOf(aTrace(), 9)).toEqual({ kind: 'tool_call', id: 'c#2', episode_id: TRACE });
    expect(kindOf([], 5)).toEqual({ kind: 'call', id: spanId(5), episode_id: TRACE });
    expect(kindOf([], null)).toMatchObject({ kind: 'episode' });
    const foreign = { ...evaluation(null, 1, { 'gen_ai.response.id': 'resp-1' }), traceId: '' };
    expect(judged([], foreign)).toMatchObject([{ target: { kind: 'foreign', id: 'resp-1' }, value: 1 }]);
    const nan = { ...evaluation(5, 'NaN') };
    expect(judged([], nan)).toMatchObject([{ value: null, flags: ['not_a_number'] }]);
  });
});

describe('OpenInference', () => {
  it('orders its flattened lists by number, whatever the order of attributes', () => {
    const attributes: Record<string, unknown> = {
      'openinference.span.kind': 'LLM',
      'llm.output_messages.0.message.role': 'assistant',
    };
    for (const i of [10, 9, 2, 0]) {
      attributes[`llm.input_messages.${i}.message.content`] = `m${i}`;
      attributes[`llm.input_messages.${i}.message.role`] = 'user';
    }
    const [requested] = named(eventsOf([span({ id: 1, attributes })]), 'generation.requested');
    expect(requested?.input).toMatchObject(['m0', 'm2', 'm9', 'm10'].map((content) => ({ content })));
  });
});

describe('updates', () => {
  const convert = (format: string, records: readonly unknown[]) => {
    const value = [records];
    return formatNamed(format).convert({ value, canonical: canonicalJson(value), ordinal: 0 });
  };
  const event = (id: string, time: string, body: object, type = 'generation-update') => ({
    id,
    timestamp: `2026-09-10T10:00:${time}Z`,
    type,
    body: { id: 'g', traceId: 't', ...body },
  });

  it('langfuse: later values that are not null count, whichever comes first', () => {
    const events = [
      event('1', '01.000', { model: 'm1', startTime: '2026-09-10T10:00:01Z', output: 'first' }, 'generation-create'),
      event('2', '02.000', { output: 'second', endTime: '2026-09-10T10:00:02Z' }),
      event('3', '03.000', { output: null, usageDetails: { input: 4 } }),
    ];
    const one = convert('langfuse', [{ batch: events }]).drafts;
    const other = convert('langfuse', [{ batch: [events[2]] }, { batch: [events[1], events[0]] }]).drafts;
    expect(other).toEqual(one);
    expect(named(one, 'generation.completed')).toMatchObject([
      { choices: [{ content: 'second' }], usage: { input_tokens: 4 } },
    ]);
  });

  it('langsmith: a patch may come first, and one of a run that never came is refused', () => {
    const run = { id: '01a0a0a0-0000-4000-8000-000000000001', trace_id: '01a0a0a0-0000-4000-8000-000000000001' };
    const post = {
      ...run,
      name: 'm',
      run_type: 'llm',
      start_time: '2026-09-10T10:00:01.000Z',
      inputs: { messages: [[{ role: 'user', content: '?' }]] },
    };
    const patch = { ...run, end_time: 1789034402000, outputs: { generations: [[{ text: 'a' }, { text: 'b' }]] } };
    const { drafts, refusals } = convert('langsmith', [
      { patch: [patch] },
      { post: [post], patch: [{ id: 'x', outputs: {} }] },
    ]);
    expect(named(drafts, 'generation.completed')).toMatchObject([{ choices: [{ content: 'a' }, { content: 'b' }] }]);
    expect(refusals).toMatchObject([{ code: 'bad_reference', at: 1, field: 'patch[0].id' }]);
  });

  it('a later reading of an act has an id that sorts after an earlier one', () => {
    const first = [
      event(
        '1',
        '01.000',
        { startTime: '2026-09-10T10:00:01Z', endTime: '2026-09-10T10:00:02Z', output: 'z' },
        'generation-create',
      ),
    ];
    const later = [...first, event('2', '09.000', { output: 'a' })];
    const idOf = (events: readonly unknown[]) =>
      convert('langfuse', [{ batch: events }]).drafts.find(({ name }) => name === 'generation.completed')!.id;
    expect(idOf(later) > idOf(first)).toBe(true);
  });
});

describe('agents of the OpenAI SDK', () => {
  it('of JavaScript answer with the whole completion of a chat model: its message, tokens and id', () => {
    const call = { id: 'c', type: 'function', function: { name: 'look_up', arguments: '{"city":"Bern"}' } };
    const completion = {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      model: 'm-2',
      choices: [
        { index: 0, message: { role: 'assistant', content: null, tool_calls: [call] }, finish_reason: 'tool_calls' },
        { index: 1, message: { role: 'assistant', content: 'Far.' }, finish_reason: 'stop' },
      ],
      usage: { prompt_tokens: 101, completion_tokens: 7, total_tokens: 108 },
    };
    const data = { type: 'generation', model: 'm', model_config: {}, input: [], output: [completion] };
    const item = { object: 'trace.span', id: 's', trace_id: 't', parent_id: null, started_at: null, ended_at: null };
    const value = [[{ data: [{ ...item, span_data: data, error: null }] }]];
    const { drafts } = formatNamed('openai-agents').convert({ value, canonical: canonicalJson(value), ordinal: 0 });
    expect(named(drafts, 'generation.completed')).toMatchObject([
      {
        choices: [
          { index: 0, content: [{ type: 'tool_call', id: 'c', name: 'look_up' }], finish_reason: 'tool_call' },
          { index: 1, content: 'Far.', finish_reason: 'stop' },
        ],
        usage: { input_tokens: 101, output_tokens: 7 },
        response_id: 'chatcmpl-1',
        response_model: 'm-2',
      },
    ]);
    expect(named(drafts, 'tool.called')).toMatchObject([{ tool_call_id: 'c', arguments: { city: 'Bern' } }]);
  });

  it('answer in a stream of a chat model with what the SDK makes a response of', () => {
    const call = {
      type: 'function_call',
      id: '__fake_id__',
      call_id: 'c',
      name: 'look_up',
      arguments: '{"city":"Bern"}',
    };
    const answer = {
      type: 'message',
      role: 'assistant',
      content: [{ type: 'output_text', text: 'I look.', annotations: [] }],
    };
    const data = {
      type: 'generation',
      model: 'm',
      input: [],
      output: [{ id: '__fake_id__', object: 'response', output: [answer, call] }],
    };
    const item = { object: 'trace.span', id: 's', trace_id: 't', parent_id: null, started_at: null, ended_at: null };
    const value = [[{ data: [{ ...item, span_data: data, error: null }] }]];
    const { drafts } = formatNamed('openai-agents').convert({ value, canonical: canonicalJson(value), ordinal: 0 });
    expect(named(drafts, 'generation.completed')).toMatchObject([
      {
        choices: [
          {
            content: [
              { type: 'text', content: 'I look.' },
              { type: 'tool_call', id: 'c', name: 'look_up' },
            ],
          },
        ],
      },
    ]);
    expect(named(drafts, 'tool.called')).toMatchObject([{ tool_call_id: 'c', arguments: { city: 'Bern' } }]);
  });

  it('hand over, and say that a response holds no text', () => {
    const item = (id: string, data: object, parent: string | null = null) => ({
      object: 'trace.span',
      id,
      trace_id: 'trace_1',
      parent_id: parent,
      started_at: '2026-09-10T10:00:01Z',
      ended_at: '2026-09-10T10:00:02Z',
      span_data: data,
      error: null,
    });
    const value = [
      [
        {
          data: [
            item('s1', { type: 'agent', name: 'a' }),
            item('s2', { type: 'response', response_id: 'resp_1' }, 's1'),
            item('s3', { type: 'handoff', from_agent: 'a', to_agent: 'b' }, 's1'),
            item(
              's4',
              {
                type: 'response',
                response_id: 'resp_2',
                _input: 'Why?',
                _response: { output: [{ type: 'function_call', call_id: 'f', name: 'calc', arguments: '{"x":1}' }] },
              },
              's1',
            ),
          ],
        },
      ],
    ];
    const { drafts } = formatNamed('openai-agents').convert({ value, canonical: canonicalJson(value), ordinal: 0 });
    expect(named(drafts, 'control.transferred')).toMatchObject([{ from_agent: 'a', to_agent: 'b', kind: 'handoff' }]);
    expect(named(drafts, 'generation.completed')).toMatchObject([
      { response_id: 'resp_1', flags: ['no_content'] },
      { agent_id: 'a' },
    ]);
    expect(named(drafts, 'tool.called')).toMatchObject([{ tool_call_id: 'f', arguments: { x: 1 } }]);
  });
});

describe('times', () => {
  it('of updates count as times, not as texts: in any zone and with any digits', () => {
    const at = (timestamp: string, output: string) => ({
      id: output,
      type: 'generation-update',
      timestamp,
      body: { id: 'g', traceId: 't', endTime: '2026-09-10T10:00:02Z', output },
    });
    const choicesOf = (...events: readonly object[]) => {
      const value = [[{ batch: events }]];
      const { drafts } = formatNamed('langfuse').convert({ value, canonical: canonicalJson(value), ordinal: 0 });
      return named(drafts, 'generation.completed')[0]?.choices;
    };
    const [early, late] = [at('2026-09-10T10:00:01Z', 'early'), at('2026-09-10T10:00:01.5Z', 'late')];
    expect(choicesOf(late, early)).toMatchObject([{ content: 'late' }]);
    expect(choicesOf(at('2026-09-10T12:00:00+02:00', 'zoned'), early)).toMatchObject([{ content: 'early' }]);
  });

  it('and errors of spans that are no call and no tool run are kept', () => {
    const failed = { status: { code: 2, message: 'broken' } };
    const drafts = eventsOf([span({ id: 1, more: failed }), chat({ id: 2, parent: 1 }, [])]);
    expect(named(drafts, 'environment.observed')).toMatchObject([{ unmapped: { error: 'broken' } }]);
    expect(named(drafts, 'episode.finished')).toMatchObject([{ outcome: 'error' }]);
  });
});
