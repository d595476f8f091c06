/** The OpenAI Responses API, answered by a policy. What is expected is written down from its reference. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { responseEvents } from '../../api/gateway/upstream/assemble.ts';
import { eventStream } from '../../api/gateway/upstream/event-stream.ts';
import { freshDatabase } from '../support/database.ts';
import { post, type TestApp, testApp } from './support/app.ts';
import { type ScriptedPolicy, scriptedPolicy } from './support/scripted-policy.ts';

const RESPONSES = '/v1/responses';
const WEATHER = { type: 'function', name: 'get_weather', parameters: { type: 'object' }, strict: true };
const CALLS = `Let me look.
<tool_call>
{"name": "get_weather", "arguments": {"city":  "Oslo"}}
</tool_call>
<tool_call>
{"name": "get_weather", "arguments": {"city": "Rome"}}
</tool_call>`;
const say = (prompt: string): string => {
  if (prompt.includes('<|im_start|>tool\n')) return 'It is cold.';
  return prompt.includes('weather?') ? CALLS : 'One two three';
};

// biome-ignore lint/suspicious/noExplicitAny: each test states what it looks at
type Any = any;
let policy: ScriptedPolicy;
let at: TestApp;
const ends: (() => Promise<unknown>)[] = [];
beforeAll(async () => {
  const { db, close } = await freshDatabase();
  policy = await scriptedPolicy(db, { policy: 'team', say });
  at = await testApp({ policyServers: policy.policyServers });
  ends.push(() => at.close(), policy.close, close);
});
afterAll(async () => {
  for (const end of ends) await end();
});

const ask = (more: object = {}) => ({ model: 'policy:team', input: 'hello', ...more });
const call = (body: object, episode?: string) =>
  post(at.app, body, episode === undefined ? {} : { 'troupe-episode': episode }, RESPONSES);
const eventsOf = async (episode: string) =>
  (
    await at.db.query<{ name: string; data: Any }>(
      'select name, data from troupe.events where key = $1 order by position',
      [`e/${episode}`],
    )
  ).rows;
const promptOf = async (episode: string) => {
  const completion = (await eventsOf(episode)).filter(({ name }) => name === 'generation.completed').at(-1)!;
  return policy.tokenizer.decode(completion.data.prompt_token_ids);
};
const turn = (role: string, text: string) => `<|im_start|>${role}\n${text}<|im_end|>\n`;

it('answers as the OpenAI API does, and is recorded with its tokens', async () => {
  const answer = await call(ask({ instructions: 'Be brief.', temperature: 0.5, metadata: { a: '1' } }), 'plain');
  expect(answer.statusCode).toBe(200);
  const body = answer.json();
  expect(body).toMatchObject({
    object: 'response',
    status: 'completed',
    error: null,
    incomplete_details: null,
    model: 'policy:team',
    instructions: 'Be brief.',
    metadata: { a: '1' },
    temperature: 0.5,
    tools: [],
    previous_response_id: null,
    output: [
      {
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'One two three', annotations: [], logprobs: [] }],
      },
    ],
  });
  const [requested, completed] = await eventsOf('plain');
  expect(requested!.data.input).toEqual([
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'hello' },
  ]);
  const { choices, prompt_token_ids, response_id, call_id } = completed!.data;
  expect([response_id, call_id]).toEqual([body.id, answer.headers['troupe-call-id']]);
  expect(body.usage).toMatchObject({
    input_tokens: prompt_token_ids.length,
    output_tokens: choices[0].token_ids.length,
    total_tokens: prompt_token_ids.length + choices[0].token_ids.length,
  });
  expect(await promptOf('plain')).toBe(`${turn('system', 'Be brief.')}${turn('user', 'hello')}<|im_start|>assistant\n`);
});

it('says that it was cut off, and gives log-probabilities where they are included', async () => {
  const more = { max_output_tokens: 2, include: ['message.output_text.logprobs'], top_logprobs: 0 };
  const body = (await call(ask(more), 'cut')).json();
  expect(body).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } });
  const [part] = body.output[0].content;
  expect(part.logprobs.map(({ token, logprob }: Any) => [typeof token, logprob])).toEqual([
    ['string', -0.5],
    ['string', -1.5],
  ]);
  expect(part.logprobs.map(({ token }: Any) => token).join('')).toBe(part.text);
});

it('calls functions in parallel, and reads what they returned', async () => {
  const asked = ask({ input: [{ role: 'user', content: 'the weather?' }], tools: [WEATHER] });
  const first = (await call(asked, 'tools')).json();
  expect(first.output).toMatchObject([
    { type: 'message', content: [{ text: 'Let me look.' }] },
    { type: 'function_call', name: 'get_weather', arguments: '{"city":  "Oslo"}', status: 'completed' },
    { type: 'function_call', name: 'get_weather', arguments: '{"city": "Rome"}', status: 'completed' },
  ]);
  const results = first.output
    .slice(1)
    .map(({ call_id }: Any, i: number) => ({ type: 'function_call_output', call_id, output: `${i} degrees` }));
  const second = (await call({ ...asked, input: [...asked.input, ...first.output, ...results] }, 'tools')).json();
  expect(second.output).toMatchObject([{ type: 'message', content: [{ text: 'It is cold.' }] }]);
  const drawn = `${turn('user', 'the weather?')}<|im_start|>assistant\n${CALLS}<|im_end|>\n`;
  expect(await promptOf('tools')).toContain(`${drawn}${turn('tool', '0 degrees')}${turn('tool', '1 degrees')}`);
  await at.project();
  const { rows } = await at.db.query(
    "select arguments->>'city' as city, output from traj.tool_calls where episode_id = 'tools' order by 1",
  );
  expect(rows).toEqual([
    { city: 'Oslo', output: '0 degrees' },
    { city: 'Rome', output: '1 degrees' },
  ]);
});

it('ends after its first call where parallel ones are not wanted, and says so', async () => {
  const asked = ask({ input: 'the weather?', tools: [WEATHER], parallel_tool_calls: false });
  const { output, status, parallel_tool_calls } = (await call(asked, 'one call')).json();
  expect(output.map(({ type }: Any) => type)).toEqual(['message', 'function_call']);
  expect([status, parallel_tool_calls]).toEqual(['completed', false]);
});

describe('a response that goes on from an earlier one', () => {
  it('gets the conversation so far, without its earlier instructions, also over several', async () => {
    const first = (await call(ask({ instructions: 'Be brief.' }), 'chain')).json();
    const again = ask({ input: 'again', instructions: 'Be kind.', previous_response_id: first.id });
    const second = (await call(again, 'chain')).json();
    const before = `${turn('user', 'hello')}${turn('assistant', 'One two three')}${turn('user', 'again')}`;
    expect(await promptOf('chain')).toBe(`${turn('system', 'Be kind.')}${before}<|im_start|>assistant\n`);
    expect(second.previous_response_id).toBe(first.id);
    await call(ask({ input: 'more', previous_response_id: second.id }), 'chain');
    expect(await promptOf('chain')).toBe(
      `${before}${turn('assistant', 'One two three')}${turn('user', 'more')}<|im_start|>assistant\n`,
    );
  });

  it('needs to bring only the results of its tools, which are paired with their calls', async () => {
    const asked = { instructions: 'Be brief.', tools: [WEATHER] };
    const first = (await call(ask({ ...asked, input: 'the weather?' }), 'results')).json();
    const input = first.output
      .slice(1)
      .map(({ call_id }: Any, i: number) => ({ type: 'function_call_output', call_id, output: `${i} degrees` }));
    const second = (await call(ask({ ...asked, input, previous_response_id: first.id }), 'results')).json();
    expect(second.output[0].content[0].text).toBe('It is cold.');
    const drawn = `${turn('user', 'the weather?')}<|im_start|>assistant\n${CALLS}<|im_end|>\n`;
    expect(await promptOf('results')).toContain(`${drawn}${turn('tool', '0 degrees')}${turn('tool', '1 degrees')}`);
    await at.project();
    const { rows } = await at.db.query(
      "select arguments->>'city' as city, output from traj.tool_calls where episode_id = 'results' order by 1",
    );
    expect(rows).toEqual([
      { city: 'Oslo', output: '0 degrees' },
      { city: 'Rome', output: '1 degrees' },
    ]);
  });

  it('is found without an episode where the earlier call had none', async () => {
    const first = (await call(ask())).json();
    const second = await call(ask({ input: 'again', previous_response_id: first.id }));
    expect(second.statusCode).toBe(200);
    expect(await promptOf(second.json().troupe.episode_id)).toContain(turn('assistant', 'One two three'));
  });

  it('is found where the gateway of early 0.1.0 recorded the earlier one', async () => {
    const callId = '0123456789abcdef0123';
    const event = (name: string, data: object) => ({
      specversion: '1.0',
      id: `${callId}/${name}`,
      source: '/gateway',
      type: `troupe.${name}.v1`,
      data: { episode_id: 'early', call_id: callId, ...data },
    });
    const events = [
      event('generation.requested', { input: [{ role: 'user', content: 'long ago' }] }),
      event('generation.completed', { choices: [{ index: 0, content: 'One two three' }] }),
    ];
    expect((await post(at.app, events, {}, '/v1/events')).json()).toMatchObject({ accepted: 2 });
    const answer = await call(ask({ input: 'again', previous_response_id: `resp_${callId}` }), 'early');
    expect(answer.statusCode).toBe(200);
    expect(await promptOf('early')).toContain(`${turn('user', 'long ago')}${turn('assistant', 'One two three')}`);
  });

  it('is refused where that one is not recorded there', async () => {
    const { id } = (await call(ask(), 'one')).json();
    const nobody = 'resp_00000000-0000-4000-8000-000000000000';
    for (const [previous, episode] of [
      [id, 'another'],
      [nobody, 'one'],
      ['resp_0123abcd', 'one'],
    ]) {
      const answer = await call(ask({ previous_response_id: previous }), episode);
      expect([answer.statusCode, answer.json().error.param]).toEqual([400, 'previous_response_id']);
    }
  });
});

it('streams the events of the reference, which make up the whole answer', async () => {
  const asked = ask({ input: 'the weather?', tools: [WEATHER], seed: 1 });
  const whole = (await call(asked, 'whole')).json();
  const streamed = await call({ ...asked, stream: true }, 'streamed');
  expect(streamed.headers).toMatchObject({ 'troupe-recorded': 'true' });
  expect(streamed.headers['content-type']).toContain('text/event-stream');
  const names = [...streamed.body.matchAll(/^event: (.*)$/gm)].map(([, name]) => name);
  const events: Any[] = eventStream()
    .take(Buffer.from(streamed.body))
    .map((data) => JSON.parse(data));
  expect(events.map(({ type }) => type)).toEqual(names);
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, i) => i));
  const called = [
    'response.output_item.added',
    'response.function_call_arguments.delta',
    'response.function_call_arguments.done',
    'response.output_item.done',
  ];
  expect(names).toEqual([
    'response.created',
    'response.in_progress',
    'response.output_item.added',
    'response.content_part.added',
    'response.output_text.delta',
    'response.output_text.done',
    'response.content_part.done',
    'response.output_item.done',
    ...called,
    ...called,
    'response.completed',
  ]);
  expect(events[0].response).toMatchObject({ status: 'in_progress', output: [], usage: null });
  expect(events[4]).toMatchObject({ output_index: 0, content_index: 0, delta: 'Let me look.' });
  expect(events[9]).toMatchObject({ output_index: 1, delta: '{"city":  "Oslo"}' });
  const together = responseEvents();
  for (const event of events) together.take(event);
  const plain = ({ output, status, usage }: Any) => ({
    output: output.map(({ id: _, call_id: __, ...rest }: Any) => rest),
    status,
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

it.each([
  [{ input: [] }, 'input'],
  [{ input: [{ type: 'reasoning', id: 'rs_1', summary: [] }] }, 'input[0].type'],
  [{ input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] }, 'input[0].content[0]'],
  [{ input: [{ type: 'function_call', call_id: 'a', name: 'f', arguments: {} }] }, 'input[0].arguments'],
  [{ tools: [{ type: 'web_search' }] }, 'tools[0]'],
  [{ tools: [WEATHER], tool_choice: { type: 'function', name: 'unknown' } }, 'tool_choice'],
  [{ tools: [WEATHER], parallel_tool_calls: 'no' }, 'parallel_tool_calls'],
  [
    { text: { format: { type: 'json_schema', name: 'x', schema: { type: 'string', pattern: 'a' } } } },
    'text.format.schema.pattern',
  ],
  [{ reasoning: { effort: 'high' } }, 'reasoning.effort'],
  [{ text: { verbosity: 'low' } }, 'text.verbosity'],
  [{ context_management: [{ type: 'compaction', compact_threshold: 9 }] }, 'context_management'],
  [{ background: true }, 'background'],
  [{ conversation: 'conv_1' }, 'conversation'],
  [{ max_output_tokens: 0 }, 'max_output_tokens'],
  [{ stream: 'yes' }, 'stream'],
])('refuses %j, and names the field', async (more, field) => {
  const answer = await call(ask(more), 'refused');
  expect([answer.statusCode, answer.json().error.param]).toEqual([400, field]);
});
