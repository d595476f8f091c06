/** Half an answer is known by its finish reason, in whatever words its source says it: no row of a dataset is made of it by default. */
import { expect, it } from 'vitest';
import { CUT_REASONS } from '../../../store/filter/filter-fields.ts';
import { type Data, read } from './support/convert.ts';

const at = (second: number) => `2026-09-10T10:00:0${second}.000Z`;
const USER = { role: 'user', content: 'How far?' };
const HALF = { role: 'assistant', content: 'It is' };
const claude = (seq: number, type: string, message: object) => ({
  ...{
    type,
    uuid: `u${seq}`,
    parentUuid: seq === 0 ? null : `u${seq - 1}`,
    sessionId: 's',
    timestamp: at(seq),
    message,
  },
});
const codex = (seq: number, type: string, payload: object) => ({ timestamp: at(seq), type, payload });
const META = codex(0, 'session_meta', { id: 'c1', timestamp: at(0), cwd: '/' });
const ASKED = codex(1, 'response_item', {
  type: 'message',
  role: 'user',
  content: [{ type: 'input_text', text: 'q' }],
});
const part = (text: string) => [{ type: 'output_text', text }];
const SAID = codex(2, 'response_item', { type: 'message', role: 'assistant', content: part('It is') });
const response = (more: object) => ({
  ...{ id: 'resp', object: 'response', model: 'm', ...more },
  output: [{ type: 'message', role: 'assistant', content: part('It is') }],
});
const weave = (output: object) => [
  {
    ...{ id: 'w', trace_id: 'w', parent_id: null, op_name: 'weave:///e/p/op/openai.responses.create:v1' },
    ...{ started_at: at(0), ended_at: at(1), inputs: { input: 'q', model: 'm' }, output, summary: null },
    attributes: { weave: { kind: 'llm' } },
  },
];
const langsmith = (outputs: object) => [
  {
    ...{ id: 'r', trace_id: 'r', parent_run_id: null, name: 'ChatModel', run_type: 'llm' },
    ...{ start_time: at(0), end_time: at(1), inputs: { messages: [USER] }, outputs, extra: {} },
  },
];
const lc = (response_metadata: object) => ({
  generations: [[{ text: 'It is', message: { type: 'ai', data: { content: 'It is', response_metadata } } }]],
});
const opencode = (error: object) => ({
  info: { id: 'ses_1', title: 't', time: { created: 1 } },
  messages: [
    { info: { id: 'm1', sessionID: 'ses_1', role: 'user', time: { created: 1 } }, parts: [] },
    {
      info: { id: 'm2', sessionID: 'ses_1', role: 'assistant', time: { created: 2 }, error },
      parts: [{ id: 'p', sessionID: 'ses_1', messageID: 'm2', type: 'text', text: 'It is' }],
    },
  ],
});
const cline = (text: string) => [
  { ...USER, ts: 1 },
  { role: 'assistant', content: [{ type: 'text', text }], ts: 2 },
];
const gemini = (note: string, type = 'info', more: object = {}) => [
  { sessionId: 's', projectHash: 'p', startTime: at(0) },
  { id: '1', timestamp: at(0), type: 'user', content: 'q' },
  { id: '2', timestamp: at(1), type: 'gemini', content: 'It is', model: 'm', ...more },
  { id: '3', timestamp: at(2), type, content: note },
];
const openhands = (choice: object) => [
  { id: 0, source: 'user', action: 'message', args: { content: 'q' } },
  {
    ...{ id: 1, source: 'agent', action: 'message', args: { content: 'It is' } },
    tool_call_metadata: { model_response: { id: 'r', choices: [{ message: HALF, ...choice }] } },
  },
];

it.each<[string, string, unknown, string]>([
  ['gemini-cli', 'a note of the limit', gemini('⚠️  Response truncated due to token limits.'), 'length'],
  ['gemini-cli', 'a note of a filter', gemini('Response stopped due to safety reasons.'), 'content_filter'],
  ['gemini-cli', 'another filter', gemini('⚠️  Response stopped due to forbidden terms.', 'warning'), 'content_filter'],
  ['gemini-cli', 'a note of recitation', gemini('Response stopped due to recitation policy.'), 'recitation'],
  ['gemini-cli', 'a note without a reason', gemini('Response stopped for other reasons.'), 'error'],
  ['gemini-cli', 'an abort', gemini('Request cancelled.'), 'aborted'],
  ['gemini-cli', 'a message', gemini('Ready.', 'info', { finishReason: 'MAX_TOKENS' }), 'MAX_TOKENS'],
  ['openhands', 'a choice', openhands({ finish_reason: 'length' }), 'length'],
  ['openhands', 'Gemini in a choice', openhands({ finish_reason: 'content-filter' }), 'content_filter'],
  ['openhands', 'Anthropic in a choice', openhands({ stop_reason: 'max_tokens' }), 'max_tokens'],
  ['openai-chat', 'a message', { messages: [USER, { ...HALF, finish_reason: 'length' }] }, 'length'],
  ['openai-chat', 'a row', { messages: [USER, HALF], finish_reason: 'content_filter' }, 'content_filter'],
  [
    'claude-code',
    'stop_reason',
    [claude(0, 'user', USER), claude(1, 'assistant', { ...HALF, id: 'a', model: 'm', stop_reason: 'max_tokens' })],
    'max_tokens',
  ],
  [
    'claude-code',
    'an interruption',
    [
      claude(0, 'user', USER),
      claude(1, 'assistant', { ...HALF, id: 'a', model: 'm', stop_reason: null }),
      claude(2, 'user', { role: 'user', content: [{ type: 'text', text: '[Request interrupted by user]' }] }),
    ],
    'aborted',
  ],
  ['codex', 'an abort', [META, ASKED, SAID, codex(3, 'event_msg', { type: 'turn_aborted' })], 'aborted'],
  ['codex', 'a broken stream', [META, ASKED, SAID, codex(3, 'event_msg', { type: 'stream_error' })], 'error'],
  [
    'codex',
    'the status of an item',
    [META, ASKED, { ...SAID, payload: { ...SAID.payload, status: 'incomplete' } }],
    'incomplete',
  ],
  ['opencode', 'a limit', opencode({ name: 'MessageOutputLengthError', data: {} }), 'length'],
  ['opencode', 'an abort', opencode({ name: 'MessageAbortedError', data: {} }), 'aborted'],
  ['opencode', 'another error', opencode({ name: 'APIError', data: {} }), 'error'],
  ['cline', 'an abort', cline('It is\n\n[Response interrupted by user]'), 'aborted'],
  ['cline', 'an error', cline('It is\n\n[Response interrupted by API Error]'), 'error'],
  [
    'atif',
    'extra',
    {
      ...{ schema_version: 'ATIF-v1.7', session_id: 's', agent: { name: 'a', version: '1' } },
      steps: [
        { step_id: 1, source: 'user', message: 'q' },
        { step_id: 2, source: 'agent', message: 'It is', extra: { stop_reason: 'max_tokens' } },
      ],
    },
    'max_tokens',
  ],
  [
    'weave',
    'a response',
    [weave(response({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }))],
    'max_output_tokens',
  ],
  ['weave', 'a response without a reason', [weave(response({ status: 'incomplete' }))], 'incomplete'],
  ['langsmith', 'Anthropic', [langsmith(lc({ stop_reason: 'max_tokens' }))], 'max_tokens'],
  ['langsmith', 'Ollama', [langsmith(lc({ done_reason: 'length' }))], 'length'],
  [
    'session-traces',
    'a message',
    [
      { type: 'session', harness: 'h', id: 's' },
      { type: 'message', message: USER },
      { type: 'message', message: { ...HALF, stopReason: 'length' } },
    ],
    'length',
  ],
])('%s: %s says why an answer is half', (format, _, value, reason) => {
  const { of, refused } = read(format, value);
  expect(refused).toEqual([]);
  const choices = of('generation.completed').map((data) => (data.choices as Data[])[0]!.finish_reason);
  expect(choices).toEqual([reason]);
  expect(CUT_REASONS).toContain(reason.toLowerCase());
});

it('an answer that was whole before its tool or its next turn was stopped is not cut', () => {
  const call = codex(2, 'response_item', { type: 'function_call', call_id: 'c', name: 'run', arguments: '{}' });
  const billed = codex(3, 'event_msg', {
    type: 'token_count',
    info: {
      last_token_usage: { input_tokens: 1, output_tokens: 1 },
      total_token_usage: { input_tokens: 1, output_tokens: 1 },
    },
  });
  const { of } = read('codex', [META, ASKED, call, billed, codex(4, 'event_msg', { type: 'turn_aborted' })]);
  expect(of('generation.completed').map((data) => (data.choices as Data[])[0]!.finish_reason)).toEqual([undefined]);
});

it('a note about something else, and a tool that was stopped, cut no answer of Gemini CLI', () => {
  const call = { toolCalls: [{ id: 'c', name: 'run', args: {}, status: 'cancelled', timestamp: at(1) }] };
  const later = [...gemini('Ready.'), { id: '4', timestamp: at(3), type: 'user', content: 'more' }];
  const truncated = { id: '5', timestamp: at(4), type: 'info', content: 'Response truncated due to token limits.' };
  for (const lines of [gemini('Ready.'), gemini('Request cancelled.', 'info', call), [...later, truncated]]) {
    const choices = read('gemini-cli', lines).of('generation.completed')[0]!.choices as Data[];
    expect(choices[0]).not.toHaveProperty('finish_reason');
  }
});
