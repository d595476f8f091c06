/** Responses of a policy that are read while they are sampled, in each interface. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { registeredPolicyServers } from '../../api/gateway/policy-servers.ts';
import { type Assembler, chunks, messageEvents, responseEvents } from '../../api/gateway/upstream/assemble.ts';
import { eventStream } from '../../api/gateway/upstream/event-stream.ts';
import { registerProcess } from '../../store/queue/jobs/processes.ts';
import { newModelDirectory } from '../../trainer/model/model-directory.ts';
import { CHATML_ROLES, CHATML_SPECIAL, CHATML_TEMPLATE } from '../../trainer/model/tokens/chatml.ts';
import { trainBpe } from '../../trainer/model/tokens/tokenizer-training.ts';
import { type InferServer, startInfer } from '../../trainer/sample/infer.ts';
import { connectInfer } from '../../trainer/sample/infer-client.ts';
import { Policy } from '../../trainer/sample/policy.ts';
import { freshDatabase } from '../support/database.ts';
import { tinyConfig } from '../trainer/tiny-checkpoint.ts';
import { post, type TestApp, testApp } from './support/app.ts';
import { scriptedPolicy } from './support/scripted-policy.ts';

const LENGTH = 100_000;
let root: string;
let infer: InferServer;
let at: TestApp;
let url: string;
const ends: (() => unknown)[] = [];

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'troupe-streaming-'));
  const socket = join(root, 'infer.sock');
  const tokenizer = trainBpe(['a text'], { vocabSize: 300, special: CHATML_SPECIAL, roles: CHATML_ROLES });
  const config = { ...tinyConfig, vocab_size: 300, max_position_embeddings: LENGTH };
  const model = { config, tokenizer, chatTemplate: CHATML_TEMPLATE, seed: 1 };
  const { dir } = await newModelDirectory(join(root, 'model'), model, { durable: false });
  infer = await startInfer({ socket, threads: 1 }, Policy.load);
  await infer.load({ dir, name: 'team' });
  const { db, close } = await freshDatabase();
  const leave = await registerProcess(db, { processId: 'p', role: 'infer', policy: 'team', address: socket });
  const reply = (prompt: string) =>
    prompt.includes('weather')
      ? 'I ask.\n<tool_call>\n{"name": "get", "arguments": {"a": 1}}\n</tool_call>'
      : 'yes END no';
  const scripted = await scriptedPolicy(db, { policy: 'script', grows: true, say: reply });
  const policyServers = registeredPolicyServers(db, connectInfer);
  at = await testApp({ policyServers });
  url = await at.app.listen({ host: '127.0.0.1', port: 0 });
  ends.push(
    () => at.close(),
    leave,
    policyServers.close,
    () => scripted.close(),
    () => infer.close(),
    close,
  );
});
afterAll(async () => {
  for (const end of ends) await end();
  await rm(root, { recursive: true, force: true });
});

type Interface = {
  readonly path: string;
  readonly body: (more: object) => object;
  readonly assembler: () => Assembler;
  /** The text that an event adds, and the text of a whole response. */
  readonly added: (event: Json) => string | undefined;
  readonly text: (whole: Json) => string;
};
// biome-ignore lint/suspicious/noExplicitAny: bodies of four interfaces
type Json = any;
const hello = [{ role: 'user', content: 'hello' }];
const INTERFACES: Readonly<Record<string, Interface>> = {
  'chat completions': {
    path: '/v1/chat/completions',
    body: (more) => ({ model: 'policy:team', messages: hello, max_tokens: 24, ...more }),
    assembler: () => chunks('chat.completion'),
    added: ({ choices }) => choices?.[0]?.delta?.content || undefined,
    text: ({ choices }) => choices[0].message.content,
  },
  completions: {
    path: '/v1/completions',
    body: (more) => ({ model: 'policy:team', prompt: 'hello', max_tokens: 24, ...more }),
    assembler: () => chunks('text_completion'),
    added: ({ choices }) => choices?.[0]?.text || undefined,
    text: ({ choices }) => choices[0].text,
  },
  messages: {
    path: '/v1/messages',
    body: (more) => ({ model: 'policy:team', messages: hello, max_tokens: 24, ...more }),
    assembler: messageEvents,
    added: ({ delta }) => delta?.text,
    text: ({ content }) => content[0].text,
  },
  responses: {
    path: '/v1/responses',
    body: (more) => ({ model: 'policy:team', input: 'hello', max_output_tokens: 24, ...more }),
    assembler: responseEvents,
    added: ({ type, delta }) => (type === 'response.output_text.delta' ? delta : undefined),
    text: ({ output }) => output[0].content[0].text,
  },
};
const eventsIn = (text: string): Json[] =>
  eventStream()
    .take(Buffer.from(text))
    .filter((data) => data !== '[DONE]')
    .map((data) => JSON.parse(data));
const completed = async (episode: string) =>
  (
    await at.db.query<{ data: Json }>(
      "select data from troupe.events where key = $1 and name = 'generation.completed'",
      [`e/${episode}`],
    )
  ).rows.map(({ data }) => data);

describe.each(Object.entries(INTERFACES))('%s of a policy', (name, { path, body, assembler, added, text }) => {
  it('are streamed as they are sampled: in many parts, which are the response of the same seed', async () => {
    const whole = await post(at.app, body({ seed: 5 }), { 'troupe-episode': `${name} whole` }, path);
    const streamed = await post(
      at.app,
      body({ seed: 5, stream: true }),
      { 'troupe-episode': `${name} streamed` },
      path,
    );
    expect(streamed.headers).toMatchObject({ 'troupe-recorded': 'later', 'troupe-episode-id': /./ });
    const events = eventsIn(streamed.body);
    const parts = events.flatMap((event) => added(event) ?? []);
    expect(parts.length).toBeGreaterThan(4);
    expect(parts.join('')).toBe(text(whole.json()));
    const together = assembler();
    for (const event of events) together.take(event);
    expect(text(together.body())).toBe(text(whole.json()));
    const [one, ...others] = await completed(`${name} streamed`);
    expect(others).toEqual([]);
    expect(one.call_id).toBe(streamed.headers['troupe-call-id']);
    const [plain] = await completed(`${name} whole`);
    expect([one.choices, one.prompt_token_ids]).toEqual([plain.choices, plain.prompt_token_ids]);
  });

  it('begin before their end, and end where the client goes away, with the record of what was sent', async () => {
    const client = new AbortController();
    const episode = `${name} gone`;
    const answer = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'troupe-episode': episode },
      body: JSON.stringify(
        body({
          temperature: 0,
          stream: true,
          [path === '/v1/responses' ? 'max_output_tokens' : 'max_tokens']: LENGTH,
        }),
      ),
      signal: client.signal,
    });
    const reader = answer.body!.getReader();
    const decoder = new TextDecoder();
    let got = '';
    const deltas = () => eventsIn(got.slice(0, got.lastIndexOf('\n\n') + 2)).flatMap((event) => added(event) ?? []);
    while (deltas().length < 2) got += decoder.decode((await reader.read()).value, { stream: true });
    expect(infer.status().waiting).toBe(1);
    client.abort();
    await expect.poll(() => infer.status().waiting, { timeout: 10_000 }).toBe(0);
    await expect
      .poll(async () => (await completed(episode)).map(({ error }) => error?.code), { timeout: 10_000 })
      .toEqual(['interrupted']);
    const [{ choices, prompt_token_ids, usage }] = (await completed(episode)) as [Json];
    expect(choices).toEqual([{ index: 0, content: expect.any(String), finish_reason: 'incomplete' }]);
    expect(choices[0].content.startsWith(deltas().join(''))).toBe(true);
    expect(prompt_token_ids.length).toBeGreaterThan(0);
    expect(usage).toBeUndefined();
  });
});

describe('a streamed response', () => {
  const script = async (body: object, episode: string, path = '/v1/chat/completions') =>
    eventsIn(
      (await post(at.app, { model: 'policy:script', stream: true, ...body }, { 'troupe-episode': episode }, path)).body,
    );
  const TOOLS = [{ type: 'function', function: { name: 'get', parameters: { type: 'object' } } }];

  it('shows no part of a stop text', async () => {
    const events = await script({ messages: hello, stop: ['END'] }, 'stop');
    const texts = events.flatMap(({ choices }) => choices[0]?.delta.content || []);
    expect(texts.length).toBeGreaterThan(1);
    expect(texts.join('')).toBe('yes ');
  });

  it('shows the call of a tool as a call, with the text before it, in each interface', async () => {
    const weather = [{ role: 'user', content: 'weather?' }];
    const chat = chunks('chat.completion');
    for (const event of await script({ messages: weather, tools: TOOLS }, 'tool chat')) chat.take(event);
    expect((chat.body() as Json).choices[0]).toMatchObject({
      message: { content: 'I ask.', tool_calls: [{ function: { name: 'get', arguments: '{"a": 1}' } }] },
      finish_reason: 'tool_calls',
    });
    const messages = messageEvents();
    const tools = [{ name: 'get', input_schema: { type: 'object' } }];
    const asked = { messages: weather, tools, max_tokens: 90 };
    for (const event of await script(asked, 'tool messages', '/v1/messages')) messages.take(event);
    expect((messages.body() as Json).content).toMatchObject([
      { type: 'text', text: 'I ask.' },
      { type: 'tool_use', name: 'get', input: { a: 1 } },
    ]);
    const flat = [{ type: 'function', name: 'get', parameters: { type: 'object' } }];
    const events = await script({ input: 'weather?', tools: flat }, 'tool responses', '/v1/responses');
    expect(events.map(({ sequence_number: n }) => n)).toEqual(events.map((_, i) => i));
    expect(events.at(-1).response.output).toMatchObject([
      { type: 'message', content: [{ text: 'I ask.' }] },
      { type: 'function_call', name: 'get', arguments: '{"a": 1}' },
    ]);
  });

  it('gives each of several choices its own text', async () => {
    const body = { messages: hello, n: 2, max_tokens: 24, seed: 5 };
    const whole = (await post(at.app, { ...body, model: 'policy:team' }, {}, '/v1/chat/completions')).json();
    const { body: sent } = await post(
      at.app,
      { ...body, model: 'policy:team', stream: true, logprobs: true, stream_options: { include_usage: true } },
      {},
      '/v1/chat/completions',
    );
    const together = chunks('chat.completion');
    for (const event of eventsIn(sent)) together.take(event);
    const { choices, usage } = together.body() as Json;
    for (const i of [0, 1]) {
      expect(choices[i].message.content).toBe(whole.choices[i].message.content);
      expect(choices[i].token_ids).toEqual(whole.choices[i].token_ids);
      expect(choices[i].logprobs.content).toHaveLength(choices[i].token_ids.length);
    }
    expect(usage).toEqual(whole.usage);
  });
});
