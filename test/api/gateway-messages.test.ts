/** Anthropic's Messages API: answered by a policy, and passed on to a server that implements it. What is expected is written down from its reference. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { messageEvents } from '../../api/gateway/upstream/assemble.ts';
import { eventStream } from '../../api/gateway/upstream/event-stream.ts';
import { readUpstreams } from '../../api/gateway/upstream/settings.ts';
import { openUpstreams } from '../../api/gateway/upstream/upstreams.ts';
import { openKeyRing } from '../../api/http/key-ring.ts';
import { createKey } from '../../store/keys/api-keys.ts';
import { freshDatabase } from '../support/database.ts';
import { post, type TestApp, testApp } from './support/app.ts';
import { type ScriptedPolicy, scriptedPolicy } from './support/scripted-policy.ts';

const MESSAGES = '/v1/messages';
const COUNT = '/v1/messages/count_tokens';
const WEATHER = {
  name: 'get_weather',
  description: 'The weather of a city.',
  input_schema: { type: 'object', properties: { city: { type: 'string' } } },
};
const CALLS = `Let me look.
<tool_call>
{"name": "get_weather", "arguments": {"city": "Oslo"}}
</tool_call>
<tool_call>
{"name": "get_weather", "arguments": {"city": "Rome"}}
</tool_call>`;
/** Members and numbers that JavaScript would write in another order and otherwise. */
const ODD = '{"town": "Oslo", "days": 2.0, "10": 1e3, "2": [9007199254740993]}';
const say = (prompt: string): string => {
  if (prompt.includes('<|im_start|>tool\n')) return 'It is cold.';
  if (prompt.includes('in numbers')) return `<tool_call>\n{"name": "get_weather", "arguments": ${ODD}}\n</tool_call>`;
  return prompt.includes('weather?') ? CALLS : 'One two STOP three';
};

/** The answer of the scripted server, and the same as events (the example of the reference, with a cache). */
const MESSAGE = {
  id: 'msg_01',
  type: 'message',
  role: 'assistant',
  model: 'claude-x-1',
  content: [
    { type: 'text', text: 'Let me look.' },
    { type: 'tool_use', id: 'toolu_01', name: 'get_weather', input: { city: 'Oslo' } },
  ],
  stop_reason: 'tool_use',
  stop_sequence: null,
  usage: { input_tokens: 10, cache_read_input_tokens: 4, cache_creation_input_tokens: 0, output_tokens: 6 },
};
const EVENTS = [
  {
    type: 'message_start',
    message: { ...MESSAGE, content: [], stop_reason: null, usage: { ...MESSAGE.usage, output_tokens: 1 } },
  },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'ping' },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Let me' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: ' look.' } },
  { type: 'content_block_stop', index: 0 },
  {
    type: 'content_block_start',
    index: 1,
    content_block: { type: 'tool_use', id: 'toolu_01', name: 'get_weather', input: {} },
  },
  { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: '{"city": "O' } },
  { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: 'slo"}' } },
  { type: 'content_block_stop', index: 1 },
  { type: 'message_delta', delta: { stop_reason: 'tool_use', stop_sequence: null }, usage: { output_tokens: 6 } },
  { type: 'message_stop' },
];

// biome-ignore lint/suspicious/noExplicitAny: each test states what it looks at
type Any = any;
const seen: { url: string; headers: Record<string, unknown>; body: Any }[] = [];
let policy: ScriptedPolicy;
let at: TestApp;
const ends: (() => unknown)[] = [];
beforeAll(async () => {
  const server = createServer(async (request, response) => {
    const body = request.method === 'POST' ? JSON.parse(await text(request)) : null;
    seen.push({ url: request.url!, headers: request.headers, body });
    const json = (status: number, answer: unknown) =>
      response
        .writeHead(status, { 'content-type': 'application/json', 'request-id': 'req_1' })
        .end(JSON.stringify(answer));
    if (request.url === '/v1/models') return json(200, { data: [{ type: 'model', id: 'claude-x-1' }] });
    if (request.url === '/v1/messages/count_tokens') return json(200, { input_tokens: 14 });
    if (body.model === 'claude-busy')
      return json(529, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } });
    if (!body.stream) return json(200, MESSAGE);
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    for (const data of EVENTS) response.write(`event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`);
    response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const base_url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const upstreams = openUpstreams(
    readUpstreams(
      {
        anthropic: {
          base_url,
          api_key_env: 'KEY',
          api_key_header: 'x-api-key',
          models: ['claude-*'],
          prices: { 'claude-x-1': { input: 1, cached_input: 0.1, output: 10 } },
        },
      },
      { KEY: 'sk-ant-configured' },
    ),
  );
  const { db, close } = await freshDatabase();
  policy = await scriptedPolicy(db, { policy: 'team', say });
  at = await testApp({ policyServers: policy.policyServers, upstreams });
  ends.push(
    () => at.close(),
    policy.close,
    upstreams.close,
    () => server.close(),
    close,
  );
});
afterAll(async () => {
  for (const end of ends) await end();
});

const user = (content: unknown) => ({ role: 'user', content });
const ask = (more: object = {}) => ({ model: 'policy:team', max_tokens: 500, messages: [user('hello')], ...more });
const call = (body: object, episode: string, url = MESSAGES) => post(at.app, body, { 'troupe-episode': episode }, url);
const eventsOf = async (episode: string) =>
  (
    await at.db.query<{ name: string; data: Any }>(
      'select name, data from troupe.events where key = $1 order by position',
      [`e/${episode}`],
    )
  ).rows;
const eventsOfStream = (body: string) => [...eventStream().take(Buffer.from(body))].map((data) => JSON.parse(data));

describe('a policy asked for a message', () => {
  it('answers as Anthropic does, and is recorded with its tokens', async () => {
    const answer = await call(ask({ system: [{ type: 'text', text: 'Be brief.', cache_control: {} }] }), 'plain');
    expect(answer.statusCode).toBe(200);
    const { id, usage, troupe, ...message } = answer.json();
    expect(message).toEqual({
      type: 'message',
      role: 'assistant',
      model: 'policy:team',
      content: [{ type: 'text', text: 'One two STOP three' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
    });
    expect(answer.headers).toMatchObject({ 'troupe-recorded': 'true', 'troupe-call-id': troupe.call_id });
    const [requested, completed] = await eventsOf('plain');
    expect(requested!.data).toMatchObject({
      model: 'policy:team',
      params: { max_tokens: 500 },
      input: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'hello' },
      ],
    });
    const { choices, prompt_token_ids, response_id, checkpoint_id } = completed!.data;
    expect([response_id, checkpoint_id]).toEqual([id, policy.checkpoint]);
    expect(policy.tokenizer.decode(prompt_token_ids)).toBe(
      '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n',
    );
    expect(usage).toMatchObject({
      input_tokens: prompt_token_ids.length,
      output_tokens: choices[0].token_ids.length,
    });
    expect(policy.tokenizer.decode(choices[0].token_ids)).toBe('One two STOP three<|im_end|>');
    expect(choices[0].logprobs).toHaveLength(choices[0].token_ids.length);
  });

  it('calls a tool with the order and the numbers that it wrote, and reads those of a call before', async () => {
    const tools = [WEATHER];
    const whole = await call(ask({ tools, messages: [user('The weather in numbers')] }), 'odd');
    expect(whole.body).toContain(`"input":${ODD.replaceAll(' ', '')}`);
    const streamed = await call(ask({ tools, stream: true, messages: [user('The weather in numbers')] }), 'odd-2');
    const [delta] = eventsOfStream(streamed.body).flatMap(({ delta }) => delta?.partial_json ?? []);
    expect(delta).toBe(ODD.replaceAll(' ', ''));

    const placed = (body: object): Any => JSON.stringify(body).replace('"ODD"', ODD);
    const asks = { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: 'ODD' };
    const result = { type: 'tool_result', tool_use_id: 'toolu_1', content: 'cold' };
    const messages = [user('weather?'), { role: 'assistant', content: [asks] }, user([result])];
    const chat = [
      user('weather?'),
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: 'ODD' } }],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'cold' },
    ];
    for (const [url, sent, episode] of [
      [MESSAGES, placed(ask({ tools, messages })), 'odd-3'],
      ['/v1/chat/completions', placed({ model: 'policy:team', messages: chat }), 'odd-4'],
    ]) {
      const answer = await call(sent, episode, url);
      expect([answer.statusCode, answer.body]).toEqual([200, expect.stringContaining('It is cold.')]);
      const completed = (await eventsOf(episode)).find(({ name }) => name === 'generation.completed')!;
      expect(policy.tokenizer.decode(completed.data.prompt_token_ids)).toContain(ODD);
    }
  });

  it('says why it ended: at a stop sequence, or because it was cut off', async () => {
    const stopped = (await call(ask({ stop_sequences: ['never', ' STOP'] }), 'stops')).json();
    expect(stopped).toMatchObject({
      content: [{ type: 'text', text: 'One two' }],
      stop_reason: 'stop_sequence',
      stop_sequence: ' STOP',
    });
    const cut = (await call(ask({ max_tokens: 3 }), 'cut')).json();
    expect(cut).toMatchObject({ stop_reason: 'max_tokens', stop_sequence: null, usage: { output_tokens: 3 } });
  });

  it('calls tools in parallel, and reads their results', async () => {
    const asked = ask({ messages: [user('the weather?')], tools: [WEATHER] });
    const first = (await call(asked, 'tools')).json();
    expect(first).toMatchObject({
      stop_reason: 'tool_use',
      content: [
        { type: 'text', text: 'Let me look.' },
        { type: 'tool_use', name: 'get_weather', input: { city: 'Oslo' } },
        { type: 'tool_use', name: 'get_weather', input: { city: 'Rome' } },
      ],
    });
    const results = first.content
      .filter(({ type }: Any) => type === 'tool_use')
      .map(({ id }: Any, i: number) => ({
        type: 'tool_result',
        tool_use_id: id,
        content: i === 0 ? '3 degrees' : [{ type: 'text', text: 'no such city' }],
        ...(i === 0 ? {} : { is_error: true }),
      }));
    const messages = [
      ...asked.messages,
      { role: 'assistant', content: first.content },
      user([...results, { type: 'text', text: 'And?' }]),
    ];
    const second = (await call({ ...asked, messages }, 'tools')).json();
    expect(second).toMatchObject({ stop_reason: 'end_turn', content: [{ type: 'text', text: 'It is cold.' }] });
    const [, , , , requested, completed] = await eventsOf('tools');
    expect(requested!.data.input.map(({ role }: Any) => role)).toEqual(['user', 'assistant', 'tool', 'tool', 'user']);
    const before = (await eventsOf('tools'))[1]!.data;
    const drawn = [...before.prompt_token_ids, ...before.choices[0].token_ids];
    // The model reads its own words again as it drew them.
    expect(completed!.data.prompt_token_ids.slice(0, drawn.length)).toEqual(drawn);
    await at.project();
    const { rows } = await at.db.query(
      `select arguments->>'city' as city, status from traj.tool_calls where episode_id = 'tools' order by 1`,
    );
    expect(rows).toEqual([
      { city: 'Oslo', status: 'ok' },
      { city: 'Rome', status: 'error' },
    ]);
  });

  it('ends after its first call where parallel ones are disabled', async () => {
    const choice = { type: 'auto', disable_parallel_tool_use: true };
    const asked = ask({ messages: [user('the weather?')], tools: [WEATHER], tool_choice: choice });
    const { content, stop_reason, stop_sequence } = (await call(asked, 'one call')).json();
    expect(content).toMatchObject([
      { type: 'text', text: 'Let me look.' },
      { type: 'tool_use', input: { city: 'Oslo' } },
    ]);
    expect([content.length, stop_reason, stop_sequence]).toEqual([2, 'tool_use', null]);
  });

  it('streams the events of the reference, which make up the whole answer', async () => {
    const asked = ask({ messages: [user('the weather?')], tools: [WEATHER], seed: 1 });
    const whole = (await call(asked, 'whole')).json();
    const streamed = await call({ ...asked, stream: true }, 'streamed');
    expect(streamed.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'troupe-recorded': 'true',
    });
    const names = [...streamed.body.matchAll(/^event: (.*)$/gm)].map(([, name]) => name);
    const events = eventsOfStream(streamed.body);
    expect(events.map(({ type }) => type)).toEqual(names);
    const block = ['content_block_start', 'content_block_delta', 'content_block_stop'];
    expect(names).toEqual(['message_start', ...block, ...block, ...block, 'message_delta', 'message_stop']);
    expect(events[0].message).toMatchObject({ type: 'message', role: 'assistant', content: [], stop_reason: null });
    expect(events[1]).toMatchObject({ index: 0, content_block: { type: 'text', text: '' } });
    expect(events[2].delta).toEqual({ type: 'text_delta', text: 'Let me look.' });
    expect(events[4]).toMatchObject({ index: 1, content_block: { type: 'tool_use', input: {} } });
    expect(events[5].delta).toEqual({ type: 'input_json_delta', partial_json: '{"city":"Oslo"}' });
    expect(events.at(-2)).toMatchObject({ delta: { stop_reason: 'tool_use' }, usage: whole.usage });
    const together = messageEvents();
    for (const event of events) together.take(event);
    const plain = ({ content, stop_reason, usage }: Any) => ({
      content: content.map(({ id: _, ...rest }: Any) => rest),
      stop_reason,
      usage,
    });
    expect(plain(together.body())).toEqual(plain(whole));
    expect((await eventsOf('streamed')).map(({ name }) => name)).toEqual([
      'generation.requested',
      'generation.completed',
      'tool.called',
      'tool.called',
    ]);
  });

  it('reads the session and the sub-agent from the headers of Claude Code, an episode of the URL before the session', async () => {
    const headers = { 'x-claude-code-session-id': 'session-1', 'x-claude-code-agent-id': 'agent-2' };
    await post(at.app, ask(), headers, MESSAGES);
    await post(at.app, ask(), headers, `/e/url-1/a/planner${MESSAGES}`);
    await post(at.app, ask(), { ...headers, 'x-claude-code-agent-id': '' }, `/e/url-1/a/planner${MESSAGES}`);
    const agents = async (episode: string) =>
      (await eventsOf(episode)).filter(({ name }) => name === 'generation.requested').map(({ data }) => data.agent_id);
    expect(await agents('session-1')).toEqual(['agent-2']);
    expect(await agents('url-1')).toEqual(['agent-2', 'planner']);
  });

  it('counts tokens as it would read them, and records nothing', async () => {
    const asked = ask({ messages: [user('the weather?')], tools: [WEATHER], system: 'Be brief.' });
    const { max_tokens: _, ...counted } = asked;
    const answer = await call(counted, 'count', COUNT);
    const { usage } = (await call(asked, 'counted')).json();
    expect(answer.json()).toEqual({ input_tokens: usage.input_tokens });
    expect(await eventsOf('count')).toEqual([]);
  });

  it('takes what Claude Code 2.1.332 sends: instructions in the middle, the default effort, and tools that are deferred', async () => {
    const instructions = { role: 'system', content: [{ type: 'text', text: 'It is Monday.' }] };
    const asked = ask({
      messages: [user('the weather?'), instructions],
      tools: [{ name: 'later', input_schema: { type: 'object' }, defer_loading: true }, WEATHER],
      output_config: { effort: 'high' },
    });
    const answer = await call(asked, 'claude code', `${MESSAGES}?beta=true`);
    expect(answer.statusCode).toBe(200);
    const [requested] = await eventsOf('claude code');
    expect(requested!.data.input.map(({ role }: Any) => role)).toEqual(['user', 'system']);
    expect(requested!.data.tools.map((tool: Any) => tool.function.name)).toEqual([WEATHER.name]);
    const low = await call({ ...asked, output_config: { effort: 'low' } }, 'claude code');
    expect([low.statusCode, low.json().error.message]).toEqual([400, expect.stringContaining('output_config.effort')]);
  });

  it.each([
    [{ max_tokens: undefined }, 'max_tokens'],
    [{ messages: [] }, 'messages'],
    [{ messages: [user([{ type: 'image', source: {} }])] }, 'messages[0].content[0]'],
    [{ messages: [{ role: 'system', content: 'x' }] }, 'messages[0].role'],
    [{ messages: [user('x'), { role: 'assistant', content: 'I' }] }, 'messages[1].role'],
    [
      {
        messages: [
          user([
            { type: 'text', text: 'x' },
            { type: 'tool_result', tool_use_id: 'a' },
          ]),
        ],
      },
      'messages[0].content[1]',
    ],
    [{ tools: [{ type: 'web_search_20250305', name: 'web_search' }] }, 'tools[0]'],
    [{ tools: [WEATHER], tool_choice: { type: 'tool', name: 'unknown' } }, 'tool_choice'],
    [{ tools: [WEATHER], tool_choice: { type: 'auto', disable_parallel_tool_use: 1 } }, 'tool_choice.disable'],
    [{ thinking: { type: 'enabled', budget_tokens: 1024 } }, 'thinking'],
    [{ output_config: { format: {} } }, 'output_config'],
    [{ stop_sequences: [''] }, 'stop_sequences'],
    [{ temperature: -1 }, 'temperature'],
    [{ stream: 'yes' }, 'stream'],
  ])('refuses %j in the shape of that API', async (more, field) => {
    const answer = await call(ask(more), 'refused');
    expect(answer.statusCode).toBe(400);
    const { type, error, request_id } = answer.json();
    expect([type, error.type, typeof request_id]).toEqual(['error', 'invalid_request_error', 'string']);
    expect(error.message).toContain(field);
  });

  it('answers 404 for a model that nobody has, in the shape of that API', async () => {
    for (const url of [MESSAGES, COUNT]) {
      const answer = await call(ask({ model: 'policy:nobody' }), 'nobody', url);
      expect(answer.statusCode).toBe(404);
      expect(answer.json()).toMatchObject({ type: 'error', error: { type: 'not_found_error' } });
    }
  });
});

describe('a server with the Messages API', () => {
  const asked = ask({
    model: 'claude-x-1',
    system: 'Be brief.',
    messages: [user([{ type: 'text', text: 'the weather?', cache_control: { type: 'ephemeral' } }])],
    tools: [WEATHER],
  });

  it.each([false, true])('is asked as the caller asked, and recorded (streamed: %s)', async (stream) => {
    const episode = `upstream ${stream}`;
    const answer = await call({ ...asked, ...(stream ? { stream } : {}) }, episode);
    expect(answer.statusCode).toBe(200);
    if (stream) expect(eventsOfStream(answer.body)).toEqual(EVENTS);
    else expect(answer.json()).toEqual(MESSAGE);
    const { url, headers, body } = seen.at(-1)!;
    expect([url, body.messages]).toEqual(['/v1/messages', asked.messages]);
    expect(headers).toMatchObject({ 'x-api-key': 'sk-ant-configured', 'anthropic-version': '2023-06-01' });
    expect(headers.authorization).toBeUndefined();
    const results = MESSAGE.content
      .filter(({ type }) => type === 'tool_use')
      .map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: '3 degrees' }));
    const later = {
      ...asked,
      messages: [
        user([{ type: 'text', text: 'the weather?' }]),
        { role: 'assistant', content: MESSAGE.content },
        user(results),
      ],
    };
    await call(later, episode);
    const [requested, completed] = await eventsOf(episode);
    expect(requested!.data).toMatchObject({
      model: 'claude-x-1',
      input: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: [{ type: 'text', content: 'the weather?' }] },
      ],
      params: { max_tokens: 500 },
    });
    expect(completed!.data).toMatchObject({
      response_id: 'msg_01',
      choices: [
        {
          content: [
            { type: 'text', content: 'Let me look.' },
            { type: 'tool_call', id: 'toolu_01', name: 'get_weather', arguments: { city: 'Oslo' } },
          ],
        },
      ],
      // 10 fresh and 4 from the cache: 10 x 1 + 4 x 0.1 + 6 x 10 millionths of a dollar.
      usage: { input_tokens: 14, cached_input_tokens: 4, output_tokens: 6, cost_usd: 0.0000704 },
    });
    await at.project();
    const { rows } = await at.db.query(
      'select name, status, output from traj.tool_calls where episode_id = $1 and status is not null',
      [episode],
    );
    expect(rows).toEqual([{ name: 'get_weather', status: 'ok', output: '3 degrees' }]);
  });

  it('counts tokens itself', async () => {
    const answer = await call(asked, 'upstream count', COUNT);
    expect([answer.json(), seen.at(-1)!.url]).toEqual([{ input_tokens: 14 }, '/v1/messages/count_tokens']);
    expect(answer.headers).toMatchObject({ 'troupe-recorded': 'false', 'troupe-call-id': expect.any(String) });
    expect(await eventsOf('upstream count')).toEqual([]);
  });

  it("has its own errors reach the caller, and is shown the caller's own key", async () => {
    const headers = { 'x-api-key': 'sk-ant-of-the-caller', 'anthropic-version': '2099-01-01' };
    const answer = await post(at.app, ask({ model: 'claude-busy' }), headers, MESSAGES);
    expect([answer.statusCode, answer.json().error.type]).toEqual([529, 'overloaded_error']);
    expect(seen.at(-1)!.headers).toMatchObject(headers);
    const { rows } = await at.db.query<{ found: boolean }>(
      "select bool_or(data::text like '%sk-ant-%') as found from troupe.events",
    );
    expect(rows[0]!.found).toBe(false);
  });
});

it('takes an API key in x-api-key, and shows it to no server', async () => {
  const { db, close } = await freshDatabase();
  const { text: key } = await createKey(db, { name: 'anthropic', scopes: ['ingest'], expiresAt: null });
  const locked = await testApp({ policyServers: policy.policyServers, keys: openKeyRing(db) });
  const refused = await post(locked.app, ask(), {}, MESSAGES);
  expect([refused.statusCode, refused.json().error.type]).toEqual([401, 'authentication_error']);
  expect((await post(locked.app, ask(), { 'x-api-key': key }, MESSAGES)).statusCode).toBe(200);
  await locked.close();
  await close();
});
