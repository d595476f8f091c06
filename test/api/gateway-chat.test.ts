/** Chat completions of a policy as clients ask for them: streamed, with tools, in several candidates. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chunks } from '../../api/gateway/upstream/assemble.ts';
import { eventStream } from '../../api/gateway/upstream/event-stream.ts';
import { freshDatabase } from '../support/database.ts';
import { post, type TestApp, testApp } from './support/app.ts';
import { type ScriptedPolicy, scriptedPolicy } from './support/scripted-policy.ts';

const CHAT = '/v1/chat/completions';
const WEATHER = {
  type: 'function',
  function: { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
};
const TWO_CALLS = `Let me look.
<tool_call>
{"name": "get_weather", "arguments": {"city":  "Oslo"}}
</tool_call>
<tool_call>
{"name": "get_weather", "arguments": {"city": "Rome", "days": 2}}
</tool_call>`;

/** What the model says of its last turn. */
const say = (prompt: string, candidate: number): string => {
  if (prompt.includes('<|im_start|>tool\n')) return 'It is cold.';
  if (prompt.includes('broken')) return '<tool_call>\n{"name": "get_weather", "arguments": [1]}\n</tool_call>';
  if (prompt.includes('weather?')) return TWO_CALLS;
  return `Hello ${candidate}, é`;
};

let policy: ScriptedPolicy;
let at: TestApp;
const ends: (() => Promise<unknown>)[] = [];
beforeAll(async () => {
  const { db, close } = await freshDatabase();
  policy = await scriptedPolicy(db, { policy: 'team', say });
  at = await testApp({
    policyServers: policy.policyServers,
    prices: { team: { input: 2, cachedInput: null, output: 10 } },
  });
  ends.push(() => at.close(), policy.close, close);
});
afterAll(async () => {
  for (const end of ends) await end();
});

const user = (content: unknown) => ({ role: 'user', content });
const ask = (more: object = {}) => ({ model: 'policy:team', messages: [user('hello')], seed: 1, ...more });
const call = (body: object, episode: string) => post(at.app, body, { 'troupe-episode': episode }, CHAT);
// biome-ignore lint/suspicious/noExplicitAny: each test states what it looks at
type StoredEvent = { name: string; data: Record<string, any> };
const eventsOf = async (episode: string) =>
  (
    await at.db.query<StoredEvent>('select name, data from troupe.events where key = $1 order by position', [
      `e/${episode}`,
    ])
  ).rows;
const dataOf = (body: string) => [...eventStream().take(Buffer.from(body))];

it('has the cost of the price that the configuration gives its policy', async () => {
  await call(ask(), 'priced');
  const { usage } = (await eventsOf('priced')).find(({ name }) => name === 'generation.completed')!.data;
  expect(usage.cost_usd).toBeCloseTo((2 * usage.input_tokens + 10 * usage.output_tokens) / 1e6, 12);
});

describe('a streamed chat completion of a policy', () => {
  it.each([
    ['text', ask({ n: 2, logprobs: true, top_logprobs: 0 })],
    ['tool calls', ask({ messages: [user('the weather?')], tools: [WEATHER] })],
  ])('is the whole one in pieces, and one call in the record: %s', async (what, body) => {
    const whole = await call(body, `whole ${what}`);
    const streamed = await call({ ...body, stream: true, stream_options: { include_usage: true } }, `streamed ${what}`);
    expect(streamed.statusCode).toBe(200);
    expect(streamed.headers['content-type']).toContain('text/event-stream');
    expect(streamed.headers['troupe-recorded']).toBe('true');
    const data = dataOf(streamed.body);
    expect(data.at(-1)).toBe('[DONE]');
    const pieces = data.slice(0, -1).map((one) => JSON.parse(one));
    expect(pieces.every(({ object, id }) => object === 'chat.completion.chunk' && id === pieces[0].id)).toBe(true);
    expect(pieces[0].choices[0].delta.role).toBe('assistant');
    expect(pieces.at(-1)).toMatchObject({ choices: [], usage: whole.json().usage });
    const together = chunks('chat.completion');
    for (const piece of pieces) together.take(piece);
    const idsOf = (text: string) =>
      text.replaceAll(/"(?:id|call_id|episode_id|created)":(?:"[^"]*"|\d+)|"step_ids":\[[^\]]*\]/g, '""');
    const { object, choices, usage, prompt_token_ids } = whole.json();
    const again = together.body() as Record<string, unknown>;
    expect(idsOf(JSON.stringify(again.choices, sorted))).toBe(idsOf(JSON.stringify(choices, sorted)));
    expect(again).toMatchObject({ object, usage, prompt_token_ids });
    const [requested, completed, ...others] = await eventsOf(`streamed ${what}`);
    expect(completed!.data.call_id).toBe(streamed.headers['troupe-call-id']);
    expect(requested!.data.params.stream).toBe(true);
    expect(others.every(({ name }) => name === 'tool.called')).toBe(true);
    expect(completed!.data.choices.map((one: { token_ids: number[] }) => one.token_ids)).toEqual(
      choices.map((one: { token_ids: number[] }) => one.token_ids),
    );
  });

  it('says what it used only where that is asked for', async () => {
    const data = dataOf((await call(ask({ stream: true }), 'no usage')).body);
    expect(data.some((one) => one.includes('"usage"'))).toBe(false);
  });

  it('is refused before it begins where the request is wrong', async () => {
    for (const more of [{ stream: 'yes' }, { stream: true, temperature: -1 }, { stream: true, model: 'policy:none' }]) {
      const answer = await call(ask(more), 'wrong');
      expect([answer.statusCode >= 400, answer.json().error.message.length > 0]).toEqual([true, true]);
    }
  });

  it('of a text completion is the text in pieces', async () => {
    const body = { model: 'policy:team', prompt: 'hello', max_tokens: 100, stream: true };
    const answer = await post(at.app, body, { 'troupe-episode': 'text' }, '/v1/completions');
    const together = chunks('text_completion');
    for (const one of dataOf(answer.body).slice(0, -1)) together.take(JSON.parse(one));
    expect(together.body()).toMatchObject({ choices: [{ index: 0, text: 'Hello 0, é', finish_reason: 'stop' }] });
  });
});

describe('tools of a policy', () => {
  const asked = ask({ messages: [user('the weather?')], tools: [WEATHER] });

  it('are shown by the chat template, and calls of them come as the OpenAI interface writes them', async () => {
    const { choices, prompt_token_ids } = (await call(asked, 'tools')).json();
    expect(policy.tokenizer.decode(prompt_token_ids)).toContain(`Tools:\n{"type": "function", "function": {"name"`);
    const [{ message, finish_reason }] = choices;
    expect(finish_reason).toBe('tool_calls');
    expect(message).toMatchObject({
      content: 'Let me look.',
      tool_calls: [
        { type: 'function', function: { name: 'get_weather', arguments: '{"city":  "Oslo"}' } },
        { type: 'function', function: { name: 'get_weather', arguments: '{"city": "Rome", "days": 2}' } },
      ],
    });
    const ids = message.tool_calls.map(({ id }: { id: string }) => id);
    expect(new Set(ids).size).toBe(2);
    const [, completed, ...called] = await eventsOf('tools');
    expect(completed!.data.choices[0].content).toMatchObject([
      { type: 'text', content: 'Let me look.' },
      { type: 'tool_call', id: ids[0], name: 'get_weather', arguments: { city: 'Oslo' } },
      { type: 'tool_call', id: ids[1] },
    ]);
    // What was drawn is kept as it was drawn, whatever was read in it.
    expect(policy.tokenizer.decode(completed!.data.choices[0].token_ids)).toBe(`${TWO_CALLS}<|im_end|>`);
    expect(called.map(({ name, data }) => [name, data.name, data.native.tool_call_id])).toEqual(
      ids.map((id: string) => ['tool.called', 'get_weather', id]),
    );
  });

  it('have results that the next call brings, and the model reads its own words again as it wrote them', async () => {
    const first = (await call(asked, 'results')).json();
    const { message } = first.choices[0];
    const results = message.tool_calls.map(({ id }: { id: string }, i: number) => ({
      role: 'tool',
      tool_call_id: id,
      content: `${i} degrees`,
    }));
    const second = (await call({ ...asked, messages: [...asked.messages, message, ...results] }, 'results')).json();
    expect(second.choices[0]).toMatchObject({ message: { content: 'It is cold.' }, finish_reason: 'stop' });
    const drawn = [...first.prompt_token_ids, ...first.choices[0].token_ids];
    expect(second.prompt_token_ids.slice(0, drawn.length)).toEqual(drawn);
    await at.project();
    const { rows } = await at.db.query("select name, status, output from traj.tool_calls where episode_id = 'results'");
    expect(rows).toHaveLength(2);
    expect(rows).toEqual(
      expect.arrayContaining([0, 1].map((i) => ({ name: 'get_weather', status: 'ok', output: `${i} degrees` }))),
    );
  });

  it('end the response after the first where no parallel ones are wanted, whole and streamed', async () => {
    const one = { ...asked, parallel_tool_calls: false };
    const { choices, usage } = (await call(one, 'one')).json();
    expect(choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: { content: 'Let me look.', tool_calls: [{ function: { arguments: '{"city":  "Oslo"}' } }] },
    });
    expect(choices[0].message.tool_calls).toHaveLength(1);
    const first = TWO_CALLS.slice(0, TWO_CALLS.indexOf('</tool_call>') + '</tool_call>'.length);
    const [requested, completed, ...called] = await eventsOf('one');
    expect(requested!.data.params.parallel_tool_calls).toBe(false);
    expect(policy.tokenizer.decode(completed!.data.choices[0].token_ids)).toBe(first);
    expect(usage.completion_tokens).toBe(completed!.data.choices[0].token_ids.length);
    expect(called.map(({ name }) => name)).toEqual(['tool.called']);
    await at.project();
    const { rows } = await at.db.query("select trainable from traj.steps where episode_id = 'one'");
    expect(rows).toEqual([{ trainable: true }]);

    const together = chunks('chat.completion');
    const body = (await call({ ...one, stream: true }, 'one streamed')).body;
    for (const part of dataOf(body).slice(0, -1)) together.take(JSON.parse(part));
    expect(together.body()).toMatchObject({
      choices: [
        { finish_reason: 'tool_calls', message: { content: 'Let me look.', tool_calls: [{ type: 'function' }] } },
      ],
    });
  });

  it('that cannot be read stay whole where the response ends with them, and a stop text of the client goes before', async () => {
    const broken = { ...asked, messages: [user('broken weather?')], parallel_tool_calls: false };
    const { choices } = (await call(broken, 'broken one')).json();
    expect(choices[0]).toMatchObject({
      finish_reason: 'stop',
      message: { content: expect.stringMatching(/<\/tool_call>$/) },
    });
    const stopped = (await call({ ...asked, parallel_tool_calls: false, stop: 'look' }, 'stopped')).json();
    expect(stopped.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: 'Let me ' } });
  });

  it('that cannot be read are text', async () => {
    const { choices } = (await call({ ...asked, messages: [user('broken weather?')] }, 'broken')).json();
    expect(choices[0]).toMatchObject({
      finish_reason: 'stop',
      message: { content: expect.stringMatching(/^<tool_call>/) },
    });
    expect(choices[0].message.tool_calls).toBeUndefined();
  });

  it('are not offered where the choice is none', async () => {
    const { prompt_token_ids, choices } = (await call({ ...asked, tool_choice: 'none' }, 'none')).json();
    expect(policy.tokenizer.decode(prompt_token_ids)).not.toContain('get_weather');
    expect(choices[0].finish_reason).toBe('stop');
  });

  it.each([
    [{ tool_choice: 'sometimes' }, 'tool_choice'],
    [{ tool_choice: { type: 'function', function: { name: 'unknown' } } }, 'tool_choice'],
    [{ response_format: { type: 'json_object' } }, 'response_format'],
    [{ parallel_tool_calls: 'no' }, 'parallel_tool_calls'],
    [{ tools: [{ type: 'web_search' }] }, 'tools[0]'],
    [{ reasoning_effort: 'high' }, 'reasoning_effort'],
    [{ messages: [user([{ type: 'image_url', image_url: { url: 'x' } }])] }, 'messages[0].content[0]'],
  ])('are refused where they cannot be held to: %j', async (more, field) => {
    const answer = await call({ ...asked, ...more }, 'refused');
    expect([answer.statusCode, answer.json().error.param]).toEqual([400, field]);
  });
});

it('reads texts in parts, and takes developer for system', async () => {
  const promptOf = async (messages: object[]) => (await call(ask({ messages }), 'parts')).json().prompt_token_ids;
  const parts = [
    { type: 'text', text: 'hello ' },
    { type: 'text', text: 'you' },
  ];
  expect(await promptOf([{ role: 'developer', content: 'Be brief.' }, user(parts)])).toEqual(
    await promptOf([{ role: 'system', content: 'Be brief.' }, user('hello you')]),
  );
});

/** Objects with their members in one order. */
function sorted(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
