import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readUpstreams } from '../../api/gateway/upstream/settings.ts';
import { openUpstreams, type Upstreams } from '../../api/gateway/upstream/upstreams.ts';
import { openKeyRing } from '../../api/http/key-ring.ts';
import { TroupeError } from '../../errors.ts';
import { fileArtifacts } from '../../ingest/log/artifacts.ts';
import { createKey } from '../../store/keys/api-keys.ts';
import { post, type TestApp, testApp } from './support/app.ts';
import { type OpenaiServer, openaiServer } from './support/openai-server.ts';

const CHAT = '/v1/chat/completions';
const UPSTREAM_KEY = `sk-upstream-${randomBytes(12).toString('hex')}`;
const ask = (more: object = {}) => ({ model: 'echo', messages: [{ role: 'user', content: 'hello' }], ...more });
const context = (episode: string) => ({
  'troupe-episode': episode,
  'troupe-agent': 'ann',
  'troupe-role': 'coder',
  'troupe-turn': '3',
});

let server: OpenaiServer;
let upstreams: Upstreams;
let at: TestApp;
const folder = mkdtempSync(join(tmpdir(), 'troupe-upstream-'));
const artifacts = fileArtifacts(folder);
const open = (more: object = {}) =>
  openUpstreams(
    readUpstreams(
      {
        main: {
          base_url: server.baseUrl,
          api_key_env: 'KEY',
          models: [
            'echo',
            'tools',
            'wrong-key',
            'busy',
            'broken',
            'fastapi',
            'sglang',
            'elsewhere',
            'html',
            'breaks-off',
            'endless',
            'long',
          ],
          prices: { echo: { input: 2, cached_input: 1, output: 10 } },
          ...more,
        },
        quick: { base_url: server.baseUrl, models: ['silent'], timeout_s: 0.2 },
        gone: { base_url: 'http://127.0.0.1:9/v1', models: ['absent'] },
      },
      { KEY: UPSTREAM_KEY },
    ),
  );
beforeAll(async () => {
  server = await openaiServer();
  upstreams = open();
  at = await testApp({ upstreams, artifacts, recordLimit: 100_000 });
});
afterAll(async () => {
  await at.close();
  upstreams.close();
  await server.close();
  rmSync(folder, { recursive: true });
});

// biome-ignore lint/suspicious/noExplicitAny: each test states what it looks at
type StoredEvent = { name: string; data: Record<string, any> };
const eventsOf = async (episode: string, db = at.db) =>
  (
    await db.query<StoredEvent>('select name, data from troupe.events where key = $1 order by position', [
      `e/${episode}`,
    ])
  ).rows;
const completed = async (episode: string, db = at.db) =>
  (await eventsOf(episode, db)).find(({ name }) => name === 'generation.completed')!.data;

describe('a model of a configured server', () => {
  it('is answered as the server answered, and recorded with usage, price, times and the raw record', async () => {
    const answer = await post(at.app, ask({ n: 2, logprobs: true, temperature: 0.5 }), context('plain'), CHAT);
    expect(answer.statusCode).toBe(200);
    expect(answer.headers).toMatchObject({ 'troupe-recorded': 'true', 'troupe-episode-id': 'plain' });
    expect(answer.json().choices[1].message.content).toBe('You said hello (1)');
    const [requested, answered] = await eventsOf('plain');
    expect(requested!.data).toMatchObject({
      agent_id: 'ann',
      role: 'coder',
      turn: 3,
      model: 'echo',
      input: [{ role: 'user', content: 'hello' }],
      params: { n: 2, logprobs: true, temperature: 0.5 },
    });
    expect(answered!.data).toMatchObject({
      call_id: answer.headers['troupe-call-id'],
      response_id: 'id-chat.completion',
      response_model: 'echo',
      choices: [0, 1].map((index) => ({
        index,
        content: `You said hello (${index})`,
        finish_reason: 'stop',
        logprobs: [-0.25, -0.5, -0.75, -1],
      })),
      // (12 - 4) x 2 + 4 x 1 + 6 x 10 millionths of a dollar.
      usage: { input_tokens: 12, output_tokens: 8, cached_input_tokens: 4, reasoning_tokens: 2, cost_usd: 0.0001 },
      unmapped: { upstream: 'main', status: 200, first_token_ms: null },
    });
    expect(answered!.data.latency_ms).toBeGreaterThan(0);
    const raw = JSON.parse((await artifacts.get(answered!.data.raw.artifact_id)).toString());
    expect(raw).toEqual({ request: ask({ n: 2, logprobs: true, temperature: 0.5 }), response: answer.json() });
    await at.project();
    const { rows } = await at.db.query(
      "select agent, role, text from traj.steps where episode_id = 'plain' order by candidate",
    );
    expect(rows).toEqual([0, 1].map((i) => ({ agent: 'ann', role: 'coder', text: `You said hello (${i})` })));
  });

  it('streams byte by byte, and the record is the same as without', async () => {
    for (const [model, more] of [
      ['echo', { n: 2, logprobs: true, stream_options: { include_usage: true } }],
      ['tools', {}],
    ] as const) {
      await post(at.app, ask({ model, ...more }), context(`whole-${model}`), CHAT);
      const answer = await post(at.app, ask({ model, stream: true, ...more }), context(`streamed-${model}`), CHAT);
      expect(answer.headers).toMatchObject({
        'content-type': 'text/event-stream; charset=utf-8',
        'troupe-recorded': 'later',
        'x-ratelimit-remaining-requests': '7',
      });
      const direct = await fetch(`${server.baseUrl}/chat/completions`, {
        method: 'POST',
        body: JSON.stringify(ask({ model, stream: true, ...more })),
      });
      expect(answer.body).toBe(await direct.text());
      const [whole, streamed] = [await completed(`whole-${model}`), await completed(`streamed-${model}`)];
      expect(streamed.choices).toEqual(whole.choices);
      expect(streamed.usage).toEqual(model === 'echo' ? whole.usage : undefined);
      expect(streamed.unmapped.first_token_ms).toBeGreaterThan(0);
      expect(streamed.unmapped.first_token_ms).toBeLessThanOrEqual(streamed.latency_ms);
    }
  });

  it('records tool calls, and pairs the results that a later call brings', async () => {
    const first = ask({ model: 'tools', tools: [{ type: 'function', function: { name: 'get_weather' } }] });
    const { message } = (await post(at.app, first, context('tools'), CHAT)).json().choices[0];
    const result = { role: 'tool', tool_call_id: 'call_1', content: 'rain' };
    await post(at.app, { ...first, messages: [...first.messages, message, result] }, context('tools'), CHAT);
    await at.project();
    const { rows } = await at.db.query(
      "select name, arguments, status, output from traj.tool_calls where episode_id = 'tools'",
    );
    expect(rows).toEqual([{ name: 'get_weather', arguments: { city: 'Oslo' }, status: 'ok', output: 'rain' }]);
  });

  it('answers the Responses API, streamed or not, text completions and embeddings', async () => {
    for (const stream of [false, true]) {
      const episode = `responses-${stream}`;
      const body = { model: 'tools', instructions: 'be kind', input: 'hi', stream };
      expect((await post(at.app, body, context(episode), '/v1/responses')).statusCode).toBe(200);
      const [requested, answered, called] = await eventsOf(episode);
      expect(requested!.data.input).toEqual([
        { role: 'system', content: 'be kind' },
        { role: 'user', content: 'hi' },
      ]);
      expect(answered!.data).toMatchObject({
        choices: [
          {
            index: 0,
            finish_reason: 'completed',
            content: [
              { type: 'text', content: 'You said "hi"' },
              { type: 'tool_call', name: 'get_weather' },
            ],
          },
        ],
        usage: { input_tokens: 12, output_tokens: 2, cost_usd: null },
      });
      expect(called!).toMatchObject({ name: 'tool.called', data: { arguments: { city: 'Oslo' } } });
    }
    const text = await post(at.app, { model: 'echo', prompt: 'one' }, context('text'), '/e/text/a/bob/v1/completions');
    expect(text.json().choices[0].text).toBe(' and one');
    expect(await completed('text')).toMatchObject({ agent_id: 'ann', choices: [{ content: ' and one' }] });
    await post(at.app, { model: 'echo', input: ['a', 'b'] }, context('vectors'), '/v1/embeddings');
    expect(await completed('vectors')).toMatchObject({
      choices: [],
      flags: ['embedding'],
      usage: { input_tokens: 5, output_tokens: null, cost_usd: 0.00001 },
    });
  });

  it('makes a call without an episode an episode of its own', async () => {
    const answer = await post(at.app, ask(), {}, CHAT);
    const events = await eventsOf(answer.headers['troupe-episode-id'] as string);
    expect(events.map(({ name }) => name)).toEqual([
      'episode.started',
      'generation.requested',
      'generation.completed',
      'artifact.attached',
      'episode.finished',
    ]);
    expect(events[0]!.data.flags).toEqual(['no_episode']);
  });

  it('is found by its listed name, or by its server and name; all are listed; others are not found', async () => {
    expect((await post(at.app, ask({ model: 'gone/whatever' }), {}, CHAT)).statusCode).toBe(502);
    expect((await post(at.app, ask({ model: 'quick/echo' }), context('prefixed'), CHAT)).statusCode).toBe(200);
    expect(JSON.parse(server.asked.at(-1)!.text).model).toBe('echo');
    expect((await eventsOf('prefixed'))[0]!.data.model).toBe('quick/echo');
    const { data } = (await at.app.inject('/v1/models')).json();
    const names = data.map(({ id }: { id: string }) => id);
    expect(names).toEqual(expect.arrayContaining(['policy:solver', 'echo', 'silent', 'absent']));
    for (const url of [CHAT, '/v1/completions', '/v1/responses', '/v1/embeddings']) {
      const answer = await post(at.app, ask({ model: 'unheard-of', prompt: 'x' }), {}, url);
      expect([url, answer.statusCode]).toEqual([url, 404]);
      expect(answer.json().error.message).toContain('policy:solver');
    }
  });
});

describe('whose key opens the server', () => {
  const opened = () => server.asked.at(-1)!.headers.authorization;

  it('a bearer that is not ours goes on as sent; without one, or with ours, the configured key does', async () => {
    await post(at.app, ask(), { authorization: 'Bearer sk-of-the-caller' }, CHAT);
    expect(opened()).toBe('Bearer sk-of-the-caller');
    for (const headers of [{}, { authorization: 'Bearer troupe' }, { authorization: 'Bearer troupe_mistyped' }]) {
      await post(at.app, ask(), headers as Record<string, string>, CHAT);
      expect(opened()).toBe(`Bearer ${UPSTREAM_KEY}`);
    }
    const keyed = await testApp({ upstreams, artifacts });
    const { text: key } = await createKey(keyed.db, { name: 'a', scopes: ['ingest'], expiresAt: null });
    expect((await post(keyed.app, ask(), { authorization: 'Bearer sk-of-the-caller' }, CHAT)).statusCode).toBe(401);
    expect((await post(keyed.app, ask(), { authorization: `Bearer ${key}` }, CHAT)).statusCode).toBe(200);
    expect(opened()).toBe(`Bearer ${UPSTREAM_KEY}`);
    const both = { authorization: 'Bearer sk-of-the-caller', 'troupe-key': key };
    expect((await post(keyed.app, ask(), both, CHAT)).statusCode).toBe(200);
    expect(opened()).toBe('Bearer sk-of-the-caller');
    expect(JSON.stringify(server.asked.map(({ headers }) => headers))).not.toContain(key);
    await keyed.close();
  });

  it('P45: no credential is recorded, not even one that the server repeats; the configured one is shown to nobody', async () => {
    const own = `sk-${randomBytes(16).toString('hex')}`;
    const mine = await post(
      at.app,
      ask({ model: 'wrong-key' }),
      { authorization: `Bearer ${own}`, ...context('own') },
      CHAT,
    );
    expect([mine.statusCode, mine.json().error.message]).toEqual([401, `Incorrect API key provided: Bearer ${own}`]);
    const configured = await post(at.app, ask({ model: 'wrong-key' }), context('configured'), CHAT);
    expect(configured.json().error.message).toBe('Incorrect API key provided: Bearer ***');
    expect(await completed('own')).toMatchObject({
      error: { message: 'Incorrect API key provided: Bearer ***', status: 401 },
    });
    const { rows } = await at.db.query<{ data: string }>('select data::text from troupe.events');
    const kept = rows.map(({ data }) => data).join('\n');
    for (const { data } of await eventsOf('own'))
      if (data.sha256) expect((await artifacts.get(data.sha256)).toString()).not.toContain(own);
    expect([kept.includes(own), kept.includes(UPSTREAM_KEY)]).toEqual([false, false]);
  });
});

describe('what goes wrong', () => {
  it('reaches the caller as the server sent it', async () => {
    const busy = await post(at.app, ask({ model: 'busy' }), context('busy'), CHAT);
    expect([busy.statusCode, busy.json().error.code]).toEqual([429, 'rate_limit_exceeded']);
    expect(busy.headers).toMatchObject({
      'retry-after': '7',
      'x-ratelimit-remaining-tokens': '0',
      'troupe-recorded': 'true',
    });
    expect(await completed('busy')).toMatchObject({ choices: [], error: { status: 429, code: 'rate_limit_exceeded' } });
    // Servers that have no `error` give the reason elsewhere.
    await post(at.app, ask({ model: 'fastapi' }), context('fastapi'), CHAT);
    expect((await completed('fastapi')).error).toEqual({
      ...{ code: 'upstream_error', status: 422, message: '[{"loc":["body","n"],"msg":"Input should be 1"}]' },
    });
    await post(at.app, ask({ model: 'sglang' }), context('sglang'), CHAT);
    expect(await completed('sglang')).toMatchObject({ error: { status: 400, message: 'The input is too long' } });
    expect((await post(at.app, ask({ model: 'broken' }), context('broken'), CHAT)).statusCode).toBe(500);
    const html = await post(at.app, ask({ model: 'html' }), context('html'), CHAT);
    expect([html.statusCode, html.headers['content-type'], html.body]).toEqual([
      502,
      'text/html',
      '<h1>Bad gateway</h1>',
    ]);
    expect(await completed('html')).toMatchObject({ flags: ['unread_answer'], error: { status: 502 } });
  });

  it('a server that says nothing is 504, one that is not there 502, in the shape OpenAI clients read', async () => {
    const late = await post(at.app, ask({ model: 'silent' }), context('late'), CHAT);
    expect([late.statusCode, late.json().error.code]).toEqual([504, 'upstream_timeout']);
    expect(await completed('late')).toMatchObject({ choices: [], error: { code: 'upstream_timeout' } });
    const away = await post(at.app, ask({ model: 'absent' }), context('away'), CHAT);
    expect([away.statusCode, away.json().error.code]).toEqual([502, 'upstream_failed']);
    expect(away.headers['troupe-call-id']).toMatch(/^[0-9a-z]{8,16}$/);
  });

  it('a stream that breaks off breaks off for the caller too, and what came is recorded', async () => {
    const url = await at.app.listen({ host: '127.0.0.1', port: 0 });
    const answer = await fetch(`${url}${CHAT}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...context('cut') },
      body: JSON.stringify(ask({ model: 'breaks-off', stream: true })),
    });
    await expect(answer.text()).rejects.toThrow();
    await expect.poll(async () => (await eventsOf('cut')).length).toBeGreaterThan(1);
    expect(await completed('cut')).toMatchObject({
      choices: [{ content: 'You said' }],
      error: { code: 'upstream_failed' },
    });
  });

  it('who goes away ends the call at the server, and what came is recorded', async () => {
    const url = `http://127.0.0.1:${(at.app.server.address() as { port: number }).port}`;
    const client = new AbortController();
    const answer = await fetch(`${url}${CHAT}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'troupe-task': 'abandoned' },
      body: JSON.stringify(ask({ model: 'endless', stream: true })),
      signal: client.signal,
    });
    const episode = answer.headers.get('troupe-episode-id')!;
    await answer.body!.getReader().read();
    const asked = server.asked.at(-1)!;
    client.abort();
    await expect.poll(() => asked.gone()).toBe(true);
    await expect.poll(async () => (await eventsOf(episode)).length).toBeGreaterThan(3);
    expect(await completed(episode)).toMatchObject({ error: { code: 'interrupted' } });
    expect((await completed(episode)).choices[0].content).toMatch(/^(more )+$/);
    expect((await eventsOf(episode)).at(-1)!.data.outcome).toBe('aborted');
  });

  it('an answer too long to hold is passed on whole and recorded as cut', async () => {
    const answer = await post(at.app, ask({ model: 'long', max_tokens: 300_000 }), context('long'), CHAT);
    expect(answer.json().padding).toHaveLength(300_000);
    expect(answer.headers['troupe-recorded']).toBe('later');
    expect(await completed('long')).toMatchObject({ choices: [], flags: ['cut_answer'], error: { code: 'too_large' } });
  });

  it('a log that is away, or hangs, breaks no call', async () => {
    for (const append of [
      () => Promise.reject(new TroupeError('unreachable', 'away')),
      () => new Promise<never>(() => {}),
    ]) {
      const away = await testApp({
        upstreams,
        artifacts,
        recordTimeoutMs: 50,
        log: { name: 'away', append, close: async () => {} },
      });
      const answer = await post(away.app, ask(), {}, CHAT);
      expect([answer.statusCode, answer.headers['troupe-recorded']]).toEqual([200, 'false']);
      const streamed = await post(away.app, ask({ stream: true }), {}, CHAT);
      expect([streamed.statusCode, streamed.body.slice(-40)]).toEqual([
        200,
        'data: [DONE]\n\n: troupe-recorded: false\n\n',
      ]);
      void away.app.close();
    }
  });

  it('P51: no redirect is followed, whatever it leads to', async () => {
    const before = server.asked.length;
    const answer = await post(at.app, ask({ model: 'elsewhere' }), context('redirect'), CHAT);
    expect([answer.statusCode, answer.headers.location]).toEqual([307, undefined]);
    expect(server.asked.length).toBe(before + 1);
  });
});

it('a key ring that knows keys asks the gateway for one too', async () => {
  const keyed = await testApp({ upstreams, keys: openKeyRing(at.db, { firstKey: randomBytes(32) }) });
  for (const url of [CHAT, '/e/x/a/y/v1/responses', '/v1/embeddings'])
    expect((await post(keyed.app, ask(), {}, url)).statusCode).toBe(401);
  await keyed.close();
});
