import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readUpstreams } from '../../api/gateway/upstream/settings.ts';
import { openUpstreams, type Upstreams } from '../../api/gateway/upstream/upstreams.ts';
import { post, type TestApp, testApp } from './support/app.ts';
import { type OpenaiServer, openaiServer } from './support/openai-server.ts';

const CHAT = '/v1/chat/completions';
const URLS = { chat: CHAT, text: '/v1/completions', messages: '/v1/messages', responses: '/v1/responses' } as const;
type Kind = keyof typeof URLS;
type Script = { readonly sse: readonly string[] } | { readonly body: object };

let server: OpenaiServer;
let upstreams: Upstreams;
let at: TestApp;

beforeAll(async () => {
  server = await openaiServer();
  const one = (more: object) => ({ base_url: server.baseUrl, ...more });
  upstreams = openUpstreams(
    readUpstreams({ main: one({ models: ['scripted'] }), vllm: one({ token_ids: 'vllm' }) }, {}),
  );
  at = await testApp({ upstreams });
});
afterAll(async () => {
  await at.close();
  upstreams.close();
  await server.close();
});

const asked = { messages: [{ role: 'user', content: 'hello' }], prompt: 'hello', input: 'hello' };
let calls = 0;
/** What the client got of a scripted response, and what was recorded of it. */
async function through(kind: Kind, script: Script, model = 'scripted') {
  const episode = `end-${calls++}`;
  const body = { model, max_tokens: 9, stream: 'sse' in script, ...asked, script };
  const answer = await post(at.app, body, { 'troupe-episode': episode }, URLS[kind]);
  const { rows } = await at.db.query<{ data: { choices: Record<string, unknown>[]; [field: string]: unknown } }>(
    "select data from troupe.events where key = $1 and name = 'generation.completed'",
    [`e/${episode}`],
  );
  return { answer, record: rows[0]!.data };
}

const data = (event: object) => `${'type' in event ? `event: ${event.type}\n` : ''}data: ${JSON.stringify(event)}\n\n`;
const piece = (delta: object, finish_reason: string | null = null, index = 0) =>
  data({ id: 'c', object: 'chat.completion.chunk', choices: [{ index, delta, finish_reason }] });
const written = (text: string, finish_reason: string | null = null) =>
  data({ id: 'c', object: 'text_completion', choices: [{ index: 0, text, finish_reason }] });
const message = { id: 'm', type: 'message', role: 'assistant', model: 'x', content: [], stop_reason: null };
const blocks = [
  { type: 'message_start', message },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'half' } },
];
const stop = { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } };
const response = { id: 'r', object: 'response', status: 'in_progress', output: [] };
const item = { type: 'message', id: 'm', role: 'assistant', status: 'in_progress', content: [] };
const parts = [
  { type: 'response.created', response },
  { type: 'response.output_item.added', output_index: 0, item },
  { type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'half' },
];
const whole = {
  ...response,
  status: 'completed',
  output: [{ ...item, content: [{ type: 'output_text', text: 'half' }] }],
};
const text = 'half';

/** Streams that say where they end, and the same without that. */
const STREAMS: Readonly<Record<Kind, readonly [ended: readonly string[], cut: readonly string[]]>> = {
  chat: [[piece({ content: text }), piece({}, 'stop')], [piece({ content: text })]],
  text: [[written(text), written('', 'stop')], [written(text)]],
  messages: [[...blocks, stop, { type: 'message_stop' }].map(data), blocks.map(data)],
  responses: [[...parts, { type: 'response.completed', response: whole }].map(data), parts.map(data)],
};

describe('a stream that ends before its last event', () => {
  for (const kind of Object.keys(STREAMS) as Kind[])
    it(`of ${kind} is recorded as incomplete, and one that ends with it is not`, async () => {
      const [ended, cut] = STREAMS[kind];
      const half = await through(kind, { sse: cut });
      expect(half.answer.statusCode).toBe(200);
      expect(half.record).toMatchObject({ choices: [{ finish_reason: 'incomplete' }] });
      expect(JSON.stringify(half.record.choices[0]!.content)).toContain('half');
      expect(half.record.flags).toContain('incomplete');
      const { record } = await through(kind, { sse: ended });
      expect(record.choices[0]!.finish_reason).toMatch(/^(stop|completed)$/);
      expect(record.flags ?? []).not.toContain('incomplete');
      expect(record).not.toHaveProperty('error');
    });

  it('is incomplete also where a proxy writes [DONE] behind it, and whole where a server leaves that out', async () => {
    const { record } = await through('chat', { sse: [piece({ content: text }), 'data: [DONE]\n\n'] });
    expect(record).toMatchObject({ choices: [{ finish_reason: 'incomplete' }], flags: ['incomplete'] });
  });

  it('is incomplete where one of its candidates is, and only this one has no reason of the server', async () => {
    const sse = [piece({ content: 'a' }), piece({ content: 'b' }, null, 1), piece({}, 'stop', 1), 'data: [DONE]\n\n'];
    expect((await through('chat', { sse })).record).toMatchObject({
      choices: [{ finish_reason: 'incomplete' }, { finish_reason: 'stop' }],
      flags: ['incomplete'],
    });
  });

  it('of Messages is incomplete where the reason came and the end did not', async () => {
    const { record } = await through('messages', { sse: [...blocks, stop].map(data) });
    expect(record).toMatchObject({ choices: [{ finish_reason: 'stop' }], flags: ['incomplete'] });
  });

  it('is whole where the server cut the answer at its limit: the reason is its own', async () => {
    const cut = { ...whole, status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } };
    const sse = [...parts, { type: 'response.incomplete', response: cut }].map(data);
    const { record } = await through('responses', { sse });
    expect(record.choices).toMatchObject([{ finish_reason: 'incomplete' }]);
    expect(record.flags ?? []).not.toContain('incomplete');
  });
});

describe('an answer that a failure behind the server ended', () => {
  const failed = (finish_reason: string, more: object = {}) => ({
    id: 'c',
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason, ...more }],
  });

  it('is a failed call, streamed and whole, with the reason that the server gives', async () => {
    const error = { code: 502, message: 'the provider is gone' };
    expect((await through('chat', { body: failed('error', { error }) })).record).toMatchObject({
      choices: [{ content: text, finish_reason: 'error' }],
      error,
    });
    const last = { index: 0, delta: {}, finish_reason: 'error', native_finish_reason: 'network_error' };
    const { record } = await through('chat', { sse: [piece({ content: text }), data({ id: 'c', choices: [last] })] });
    expect(record).toMatchObject({ choices: [{ content: text, finish_reason: 'error' }] });
    expect(record.error).toMatchObject({ code: 'upstream_error', message: expect.stringContaining('network_error') });
  });

  it('is one whatever the server calls the failure', async () => {
    for (const reason of ['network_error', 'insufficient_system_resource', 'abort'])
      expect((await through('chat', { body: failed(reason) })).record.error).toMatchObject({
        message: expect.stringContaining(reason),
      });
    const sse = [...parts, { type: 'response.failed', response: { ...whole, status: 'failed' } }].map(data);
    expect((await through('responses', { sse })).record.error).toMatchObject({
      message: expect.stringContaining('failed'),
    });
  });

  it('is none where the model ended it', async () => {
    for (const reason of ['stop', 'length', 'content_filter', 'tool_calls'])
      expect((await through('chat', { body: failed(reason) })).record).not.toHaveProperty('error');
  });
});

describe('the last event of a stream, without an empty line behind it', () => {
  const last = data({
    id: 'c',
    choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
    usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
  });

  it('is recorded, however its line ends, and passed on as it came', async () => {
    for (const end of ['', '\n', '\r', '\r\n']) {
      const sse = [piece({ content: text }), last.trimEnd() + end];
      const { answer, record } = await through('chat', { sse });
      expect(answer.body).toBe(sse.join(''));
      expect(record).toMatchObject({
        choices: [{ content: text, finish_reason: 'stop' }],
        usage: { input_tokens: 5, output_tokens: 2 },
      });
      expect(record).not.toHaveProperty('flags');
    }
  });

  it('reaches a client too that is shown less than the server sent', async () => {
    const { answer, record } = await through(
      'chat',
      { sse: [piece({ content: text }), last.trimEnd()] },
      'vllm/scripted',
    );
    expect(answer.body).toContain('"finish_reason":"stop"');
    expect(record.choices).toMatchObject([{ content: text, finish_reason: 'stop' }]);
  });

  it('is none where it broke in the middle', async () => {
    const { record } = await through('chat', { sse: [piece({ content: text }), last.slice(0, 60)] });
    expect(record).toMatchObject({ choices: [{ content: text, finish_reason: 'incomplete' }], flags: ['incomplete'] });
  });
});
