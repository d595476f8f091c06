import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { registeredPolicyServers } from '../../api/gateway/policy-servers.ts';
import { TroupeError } from '../../errors.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { registerProcess } from '../../store/queue/jobs/processes.ts';
import type { SampleAsk } from '../../trainer/sample/infer-wire.ts';
import { fixedPolicyServers, post, type TestApp, testApp } from './support/app.ts';

const CHAT = '/v1/chat/completions';
const ask = (more: object = {}) => ({
  model: 'policy:solver',
  messages: [{ role: 'user', content: 'What is 6 x 7?' }],
  ...more,
});
const context = {
  'troupe-episode': 'ep-1',
  'troupe-task': 'task-1',
  'troupe-group': 'group-1',
  'troupe-agent': 'sam',
  'troupe-role': 'solver',
  'troupe-turn': '2',
};

const policyServers = fixedPolicyServers();
let at: TestApp;
beforeAll(async () => {
  at = await testApp({ policyServers });
});
afterAll(() => at.close());

const eventsOf = async (episode: string) =>
  (
    await at.db.query<{ name: string; source: string; data: Record<string, unknown> }>(
      'select name, source, data from troupe.events where key = $1 order by position',
      [`e/${episode}`],
    )
  ).rows;

describe('POST /v1/chat/completions', () => {
  it('answers as OpenAI does, with token ids, and the answer is in the log before the client reads it', async () => {
    const answer = await post(
      at.app,
      ask({ n: 3, seed: 11, temperature: 0.7, max_tokens: 20, stop: 'X' }),
      context,
      CHAT,
    );
    expect(answer.statusCode).toBe(200);
    expect(answer.headers).toMatchObject({
      'troupe-recorded': 'true',
      'troupe-episode-id': 'ep-1',
      'troupe-call-id': answer.json().troupe.call_id,
    });
    const body = answer.json();
    expect(body).toMatchObject({
      object: 'chat.completion',
      model: 'policy:solver',
      prompt_token_ids: [7, 8, 9],
      usage: { prompt_tokens: 3, completion_tokens: 6, total_tokens: 9 },
      troupe: { episode_id: 'ep-1', checkpoint_id: 'c-1' },
    });
    expect(body.choices[1]).toEqual({
      index: 1,
      message: { role: 'assistant', content: 'answer 1' },
      finish_reason: 'stop',
      logprobs: null,
      token_ids: [11, 1],
    });
    expect(body.troupe.step_ids).toEqual([0, 1, 2].map((i) => `${body.troupe.call_id}/${i}`));
    expect(policyServers.asked.at(-1)).toMatchObject({
      who: { kind: 'policy', name: 'solver' },
      ask: { n: 3, seed: 11, temperature: 0.7, max_tokens: 20, stop: ['X'] },
    });

    const events = await eventsOf('ep-1');
    expect(events.map(({ name, source }) => [name, source])).toEqual([
      ['generation.requested', '/gateway'],
      ['generation.completed', '/gateway'],
    ]);
    expect(events[0]!.data).toMatchObject({
      call_id: body.troupe.call_id,
      agent_id: 'sam',
      role: 'solver',
      turn: 2,
      model: 'policy:solver',
      input: [{ role: 'user', content: 'What is 6 x 7?' }],
      params: { n: 3, seed: 11, temperature: 0.7, max_tokens: 20, stop: ['X'] },
    });
    expect(events[1]!.data).toMatchObject({
      checkpoint_id: 'c-1',
      policy: 'solver',
      seed: 11,
      temperature: 0.7,
      prompt_token_ids: [7, 8, 9],
      usage: { input_tokens: 3, output_tokens: 6 },
      choices: [0, 1, 2].map((index) => ({
        index,
        content: `answer ${index}`,
        token_ids: [11, index],
        logprobs: [-0.5, -0.25 * (index + 1)],
      })),
    });
    await at.project();
    const { rows } = await at.db.query<{ step_id: string; agent: string; turn: number }>(
      "select step_id, agent, turn from traj.steps where episode_id = 'ep-1' order by candidate",
    );
    expect(rows).toEqual(body.troupe.step_ids.map((step_id: string) => ({ step_id, agent: 'sam', turn: 2 })));
  });

  it('names the step that a call was expanded from, in each of its answers', async () => {
    const headers = { ...context, 'troupe-episode': 'ep-tree' };
    const root = (await post(at.app, ask(), headers, CHAT)).json().troupe.step_ids[0];
    const below = (await post(at.app, ask({ n: 2 }), { ...headers, 'troupe-parent': root }, CHAT)).json();
    await at.project();
    const { rows } = await at.db.query<{ step_id: string; parent_step_id: string | null }>(
      "select step_id, parent_step_id from traj.steps where episode_id = 'ep-tree' order by parent_step_id nulls first, candidate",
    );
    expect(rows).toEqual([
      { step_id: root, parent_step_id: null },
      ...below.troupe.step_ids.map((step_id: string) => ({ step_id, parent_step_id: root })),
    ]);
  });

  it('gives a log-probability for each token when asked to', async () => {
    const { choices } = (await post(at.app, ask({ logprobs: true, seed: 5 }), context, CHAT)).json();
    expect(choices[0].logprobs.content).toEqual([
      { token: ' é5', token_id: 5, logprob: -0.5, bytes: [0x20, 0xc3, 0xa9, 0x35], top_logprobs: [] },
      { token: 'bytes:\\xe2\\x80', token_id: 0, logprob: -0.25, bytes: [0xe2, 0x80], top_logprobs: [] },
    ]);
  });

  it('names tokens by their ids where it is asked to, and records their texts all the same', async () => {
    const headers = { ...context, 'troupe-episode': 'named' };
    const more = { logprobs: true, top_logprobs: 2, seed: 5, return_tokens_as_token_ids: true };
    const { choices } = (await post(at.app, ask(more), headers, CHAT)).json();
    const [first] = choices[0].logprobs.content;
    expect([first.token, first.bytes, first.token_id]).toEqual(['token_id:5', null, 5]);
    expect(first.top_logprobs.map((best: { token: string }) => best.token)).toEqual(['token_id:0', 'token_id:1']);
    const [, completed] = await eventsOf('named');
    expect(completed!.data.choices).toMatchObject([{ tokens: [' é5', 'bytes:\\xe2\\x80'], token_ids: [5, 0] }]);
  });

  it('makes a call without an episode an episode of its own, opened, flagged and finished', async () => {
    const { troupe } = (await post(at.app, ask(), { 'troupe-task': 'task-9' }, CHAT)).json();
    const events = await eventsOf(troupe.episode_id);
    expect(events.map(({ name }) => name)).toEqual([
      'episode.started',
      'generation.requested',
      'generation.completed',
      'episode.finished',
    ]);
    expect(events[0]!.data).toMatchObject({ task_id: 'task-9', flags: ['no_episode'] });
  });

  it('reads episode and agent from the base URL too', async () => {
    const { troupe } = (
      await post(at.app, ask(), { 'troupe-turn': '1' }, `/e/${encodeURIComponent('a/b é')}/a/anna${CHAT}`)
    ).json();
    expect(troupe.episode_id).toBe('a/b é');
    expect((await eventsOf('a/b é'))[1]!.data).toMatchObject({ agent_id: 'anna', turn: 1 });
    const models = await at.app.inject('/v1/models');
    expect(models.headers['troupe-call-id']).toMatch(/^[0-9a-z]{8,16}$/);
    expect((await at.app.inject('/e/x/a/anna/v1/models')).json()).toEqual(models.json());
  });

  it('keeps the episode of the base URL and the agent of the header where both name one', async () => {
    const headers = { 'troupe-episode': 'other', 'troupe-agent': 'checker', 'troupe-role': 'checker' };
    const { troupe } = (await post(at.app, ask(), headers, `/e/shared-url/a/agent${CHAT}`)).json();
    expect(troupe.episode_id).toBe('shared-url');
    expect((await eventsOf('shared-url'))[1]!.data).toMatchObject({ agent_id: 'checker', role: 'checker' });
  });

  it('draws a seed where none is named, and records it', async () => {
    const seeds = await Promise.all(
      [1, 2, 3].map(async () => (await post(at.app, ask(), context, CHAT)).json().choices[0].token_ids[0]),
    );
    expect(new Set(seeds).size).toBe(3);
    const recorded = (await eventsOf('ep-1')).map(({ data }) => data.seed);
    for (const seed of seeds) expect(recorded).toContain(seed);
  });

  it('records no credential', async () => {
    const secret = randomBytes(16).toString('hex');
    const headers = {
      ...context,
      'troupe-episode': 'secrets',
      authorization: `Bearer ${secret}`,
      'x-api-key': secret,
      cookie: secret,
    };
    await post(at.app, ask(), headers, CHAT);
    expect(await eventsOf('secrets')).toHaveLength(2);
    const { rows } = await at.db.query<{ found: boolean }>(
      'select bool_or(data::text like $1) as found from troupe.events',
      [`%${secret}%`],
    );
    expect(rows[0]!.found).toBe(false);
  });

  it('answers 404 with the known names for a model that nobody has', async () => {
    for (const model of ['policy:nobody', 'gpt-4', 'policy:', 'checkpoint:zzz']) {
      const answer = await post(at.app, ask({ model }), context, CHAT);
      expect([answer.statusCode, answer.json().code]).toEqual([404, 'not_found']);
      expect(answer.json().error.message).toContain('checkpoint:c-1, policy:solver');
    }
  });

  it.each([
    [{ n: 0 }, 'n'],
    [{ n: 1.5 }, 'n'],
    [{ temperature: -1 }, 'temperature'],
    [{ max_tokens: 0 }, 'max_tokens'],
    [{ stop: [''] }, 'stop'],
    [{ seed: -1 }, 'seed'],
    [{ top_p: 0 }, 'top_p'],
    [{ top_p: 1.5 }, 'top_p'],
    [{ top_k: -2 }, 'top_k'],
    [{ min_p: '0.1' }, 'min_p'],
    [{ logprobs: true, top_logprobs: 21 }, 'top_logprobs'],
    [{ top_logprobs: 2 }, 'top_logprobs'],
    [{ raw_logprobs: 1 }, 'raw_logprobs'],
    [{ presence_penalty: 0.5 }, 'presence_penalty'],
    [{ logit_bias: { 3: 1 } }, 'logit_bias'],
    [{ chat_template_kwargs: { enable_thinking: false } }, 'chat_template_kwargs'],
    [{ structured_outputs: { choice: ['a'] } }, 'structured_outputs'],
    [{ guided_json: { type: 'object' } }, 'guided_json'],
    [{ min_tokens: 4 }, 'min_tokens'],
    [{ ignore_eos: true }, 'ignore_eos'],
    [{ stop_token_ids: [1] }, 'stop_token_ids'],
    [{ continue_final_message: true }, 'continue_final_message'],
    [{ web_search_options: {} }, 'web_search_options'],
    [{ verbosity: 'low' }, 'verbosity'],
    [{ response_format: { type: 'grammar' } }, 'response_format'],
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'user', content: 4 }] }, 'messages[0].content'],
    [{ messages: ['hello'] }, 'messages[0]'],
    [{ model: 7 }, 'model'],
  ])('refuses %j, and names the field', async (more, field) => {
    const answer = await post(at.app, ask(more), context, CHAT);
    expect([answer.statusCode, answer.json().field]).toEqual([400, field]);
    // What is refused has a name as well, which no record has.
    expect(answer.headers).toMatchObject({ 'troupe-recorded': 'false', 'troupe-episode-id': 'ep-1' });
    expect(answer.headers['troupe-call-id']).toMatch(/^[0-9a-z]{8,16}$/);
  });

  it.each([
    [
      '/e/a/a/solver/chat/completions',
      'The route is /e/a/a/solver/v1/chat/completions: the base URL of a client of OpenAI ends with /v1.',
    ],
    ['/v1/v1/messages', 'The route is /v1/messages: the base URL of a client of Anthropic ends before /v1.'],
    ['/chat', 'GET /openapi.json lists the routes.'],
  ])('says for %s where the call is, in the message that the client shows', async (url, hint) => {
    const answer = await post(at.app, ask(), context, url);
    const { detail, error, ...problem } = answer.json();
    expect([answer.statusCode, detail, problem.hint]).toEqual([404, `There is no route POST ${url}.`, hint]);
    expect(error?.message ?? '').toBe(url === '/chat' ? '' : `${detail} ${hint}`);
  });

  it('says where another model would come from', async () => {
    const { error } = (await post(at.app, ask({ model: 'gpt-4o-mini' }), context, CHAT)).json();
    expect(error.message).toMatch(/There is no model "gpt-4o-mini"; served now: .*upstreams/);
    const own = (await post(at.app, ask({ model: 'policy:none' }), context, CHAT)).json();
    expect(own.error.message).toMatch(/troupe run infer/);
  });

  it('takes parameters that change nothing', async () => {
    const more = {
      top_p: 1,
      top_k: -1,
      min_p: 0,
      top_logprobs: 0,
      presence_penalty: 0,
      logit_bias: {},
      min_tokens: 0,
      ignore_eos: false,
      stop_token_ids: [],
      verbosity: 'medium',
      stream: false,
      user: 'me',
      response_format: { type: 'text' },
      n: null,
    };
    expect((await post(at.app, ask(more), context, CHAT)).statusCode).toBe(200);
    expect(Object.keys(policyServers.asked.at(-1)!.ask).sort()).toEqual(['messages', 'n', 'seed', 'temperature']);
  });

  it('passes on how samples are to be drawn, and records it', async () => {
    const headers = { ...context, 'troupe-episode': 'drawn' };
    const more = { top_k: 40, top_p: 0.9, min_p: 0.05, logprobs: true, top_logprobs: 2, raw_logprobs: true };
    const body = (await post(at.app, ask({ ...more, seed: 3 }), headers, CHAT)).json();
    const { logprobs: _, ...passed } = more;
    expect(policyServers.asked.at(-1)!.ask).toMatchObject(passed);
    expect(body.choices[0].raw_logprobs).toEqual([-0.75, -0.5]);
    const best = [
      { token: 'bytes:\\xe2\\x80', token_id: 0, logprob: -0.5, bytes: [0xe2, 0x80] },
      { token: ' é1', token_id: 1, logprob: -1.5, bytes: [0x20, 0xc3, 0xa9, 0x31] },
    ];
    expect(body.choices[0].logprobs.content).toEqual([
      { token: ' é3', token_id: 3, logprob: -0.5, bytes: [0x20, 0xc3, 0xa9, 0x33], top_logprobs: best },
      { token: 'bytes:\\xe2\\x80', token_id: 0, logprob: -0.25, bytes: [0xe2, 0x80], top_logprobs: best },
    ]);
    const [requested, completed] = await eventsOf('drawn');
    expect(requested!.data.params).toEqual({
      n: 1,
      temperature: 1,
      seed: 3,
      top_k: 40,
      top_p: 0.9,
      min_p: 0.05,
      top_logprobs: 2,
    });
    const places = [
      { token_id: 0, token: 'bytes:\\xe2\\x80', logprob: -0.5 },
      { token_id: 1, token: ' é1', logprob: -1.5 },
    ];
    expect(completed!.data.choices).toMatchObject([{ raw_logprobs: [-0.75, -0.5], top_logprobs: [places, places] }]);
  });

  it('stops drawing when whoever asked has gone, and records that', async () => {
    let asked = () => {};
    const speaking = new Promise<void>((resolve) => {
      asked = resolve;
    });
    let withdrawn = 0;
    const patient = await testApp({
      policyServers: {
        models: async () => [],
        prompt: async () => ({ prompt_token_ids: [], model: 'solver', checkpoint: 'c-1' }),
        sample: (_, __, { signal } = {}) =>
          new Promise((_resolve, reject) => {
            asked();
            signal!.addEventListener('abort', () => {
              withdrawn++;
              reject(new TroupeError('interrupted', 'withdrawn'));
            });
          }),
      },
    });
    const url = await patient.app.listen({ host: '127.0.0.1', port: 0 });
    const client = new AbortController();
    const answer = fetch(`${url}${CHAT}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(ask()),
      signal: client.signal,
    });
    await speaking;
    client.abort();
    await expect(answer).rejects.toThrow();
    const recordedEvents = () =>
      patient.db.query<{ data: { error?: object; outcome?: string } }>(
        "select data from troupe.events where name in ('generation.completed', 'episode.finished') order by position",
      );
    await expect.poll(async () => (await recordedEvents()).rows.length).toBe(2);
    expect(withdrawn).toBe(1);
    const [completed, finished] = (await recordedEvents()).rows;
    expect(completed!.data).toMatchObject({ choices: [], error: { code: 'interrupted' } });
    expect(finished!.data).toMatchObject({ outcome: 'aborted' });
    await patient.close();
  });

  it('withdraws nothing that was answered', async () => {
    const signals: AbortSignal[] = [];
    const other = await testApp({
      policyServers: {
        ...policyServers,
        sample: (who, what, options) => {
          signals.push(options!.signal!);
          return policyServers.sample(who, what, options);
        },
      },
    });
    const url = await other.app.listen({ host: '127.0.0.1', port: 0 });
    for (let i = 0; i < 3; i++) {
      const answer = await fetch(`${url}${CHAT}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(ask()),
      });
      expect(((await answer.json()) as { choices: unknown[] }).choices).toHaveLength(1);
    }
    await other.close();
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false, false]);
  });

  it.each([
    [{ 'troupe-turn': 'one' }, 'Troupe-Turn'],
    [{ 'troupe-episode': 'x'.repeat(513) }, 'Troupe-Episode'],
  ])('refuses the context %j', async (headers, field) => {
    const answer = await post(at.app, ask(), headers, CHAT);
    expect([answer.statusCode, answer.json().field]).toEqual([400, field]);
  });

  it('answers even where nothing can be recorded, and says so', async () => {
    const away = await testApp({
      policyServers,
      recordTimeoutMs: 50,
      log: {
        name: 'away',
        append: () => Promise.reject(new TroupeError('unreachable', 'away')),
        close: async () => {},
      },
    });
    const answer = await post(away.app, ask(), context, CHAT);
    expect([answer.statusCode, answer.headers['troupe-recorded']]).toEqual([200, 'false']);
    await away.close();
  });

  it('is recorded by a log that is back within the time, once', async () => {
    let refused = 2;
    const log = postgresLog(at.db);
    const back = await testApp({
      policyServers,
      log: {
        ...log,
        append: (...events) =>
          refused-- > 0 ? Promise.reject(new TroupeError('unreachable', 'away')) : log.append(...events),
      },
    });
    const answer = await post(back.app, ask(), { ...context, 'troupe-episode': 'back' }, CHAT);
    expect([answer.statusCode, answer.headers['troupe-recorded']]).toEqual([200, 'true']);
    expect((await eventsOf('back')).length).toBe(2);
    await back.close();
  });

  it('does not wait for ever for a log that hangs', async () => {
    let release = () => {};
    const hangs = new Promise<never[]>((resolve) => {
      release = () => resolve([]);
    });
    const slow = await testApp({
      policyServers,
      recordTimeoutMs: 50,
      log: { name: 'slow', append: () => hangs, close: async () => {} },
    });
    const answer = await post(slow.app, ask(), context, CHAT);
    expect([answer.statusCode, answer.headers['troupe-recorded']]).toEqual([200, 'false']);
    release();
    await slow.close();
  });

  it('records a call that no policy could answer, with its error', async () => {
    const silent = await testApp({
      policyServers: {
        models: async () => [],
        sample: () => Promise.reject(new TroupeError('unreachable', 'Nobody is there.')),
        prompt: () => Promise.reject(new TroupeError('unreachable', 'Nobody is there.')),
      },
    });
    const answer = await post(silent.app, ask(), context, CHAT);
    expect([answer.statusCode, answer.headers['retry-after']]).toEqual([503, '1']);
    const { rows } = await silent.db.query<{ data: object }>(
      "select data from troupe.events where name = 'generation.completed'",
    );
    expect(rows[0]!.data).toMatchObject({ choices: [], error: { code: 'unreachable', message: 'Nobody is there.' } });
    await silent.close();
  });

  it('takes 192 calls of 16 answers at once in a few appends', async () => {
    const episodes = Array.from({ length: 192 }, (_, i) => `many-${i}`);
    const answers = await Promise.all(
      episodes.map((episode, i) =>
        post(at.app, ask({ n: 16, seed: i }), { ...context, 'troupe-episode': episode }, CHAT),
      ),
    );
    for (const [i, answer] of answers.entries()) {
      expect(answer.headers['troupe-recorded']).toBe('true');
      expect(answer.json().choices.map((choice: { token_ids: number[] }) => choice.token_ids)).toEqual(
        Array.from({ length: 16 }, (_, k) => [i, k]),
      );
    }
    const { rows } = await at.db.query<{ events: number; writes: number }>(
      "select count(*)::integer as events, count(distinct xmin::text)::integer as writes from troupe.stored_events where key like 'e/many-%'",
    );
    expect(rows[0]!.events).toBe(384);
    expect(rows[0]!.writes).toBeLessThan(40);
  });
});

describe('POST /v1/completions', () => {
  const TEXT = '/v1/completions';
  const text = (more: object = {}) => ({ model: 'policy:solver', prompt: 'one and one is', ...more });

  it('continues a text, answers as OpenAI does, and records both', async () => {
    const headers = { ...context, 'troupe-episode': 'text' };
    const answer = await post(at.app, text({ n: 2, seed: 4, logprobs: 1, stop: ['\n'], max_tokens: 5 }), headers, TEXT);
    expect([answer.statusCode, answer.headers['troupe-recorded']]).toEqual([200, 'true']);
    const body = answer.json();
    expect(body).toMatchObject({ object: 'text_completion', model: 'policy:solver', prompt_token_ids: [7, 8, 9] });
    expect(body.choices[1]).toEqual({
      index: 1,
      text: 'answer 1',
      finish_reason: 'stop',
      logprobs: {
        tokens: [' é4', ' é1'],
        token_logprobs: [-0.5, -0.5],
        top_logprobs: [{ 'bytes:\\xe2\\x80': -0.5 }, { 'bytes:\\xe2\\x80': -0.5 }],
      },
      token_ids: [4, 1],
    });
    expect(policyServers.asked.at(-1)!.ask).toEqual({
      prompt: 'one and one is',
      n: 2,
      temperature: 1,
      seed: 4,
      max_tokens: 5,
      stop: ['\n'],
      top_logprobs: 1,
      token_texts: true,
    });
    const [requested, completed] = await eventsOf('text');
    expect(requested!.data).toMatchObject({
      call_id: body.troupe.call_id,
      agent_id: 'sam',
      input: [{ role: 'user', content: 'one and one is' }],
      flags: ['text_prompt'],
    });
    expect(completed!.data).toMatchObject({ checkpoint_id: 'c-1', choices: [{ content: 'answer 0' }, { index: 1 }] });
    await at.project();
    const { rows } = await at.db.query("select step_id from traj.steps where episode_id = 'text' order by candidate");
    expect(rows.map(({ step_id }) => step_id)).toEqual(body.troupe.step_ids);
  });

  it.each([
    [[7, 8], { prompt_ids: [7, 8] }],
    [[[7, 8]], { prompt_ids: [7, 8] }],
    [['hello'], { prompt: 'hello' }],
  ])('takes the prompt %j, and sixteen tokens by default', async (prompt, passed) => {
    const answer = await post(at.app, text({ prompt }), context, TEXT);
    expect([answer.statusCode, answer.json().choices[0].logprobs]).toEqual([200, null]);
    expect(policyServers.asked.at(-1)!.ask).toMatchObject({ ...passed, max_tokens: 16 });
  });

  it.each([
    [{ prompt: undefined }, 'prompt'],
    [{ prompt: '' }, 'prompt'],
    [{ prompt: ['one', 'two'] }, 'prompt'],
    [{ prompt: [1.5] }, 'prompt'],
    [{ logprobs: true }, 'logprobs'],
    [{ echo: true }, 'echo'],
    [{ suffix: 'end' }, 'suffix'],
    [{ best_of: 3 }, 'best_of'],
  ])('refuses %j, and names the field', async (more, field) => {
    const answer = await post(at.app, text(more), context, TEXT);
    expect([answer.statusCode, answer.json().field]).toEqual([400, field]);
  });
});

describe('registered policy servers', () => {
  const talker = (id: string, sample: (ask: SampleAsk) => unknown) => ({
    closed: 0,
    sampled: [] as SampleAsk[],
    signals: [] as (AbortSignal | undefined)[],
    async sample(asked: SampleAsk, { signal }: { readonly signal?: AbortSignal } = {}) {
      this.sampled.push(asked);
      this.signals.push(signal);
      return { checkpoint: id, ...(sample(asked) as object) } as never;
    },
    prompt: () => Promise.reject(new Error('nobody asks for prompts')),
    async status() {
      return { models: [{ name: 'planner', checkpoint: id }] } as never;
    },
    close() {
      this.closed++;
    },
  });
  const gone = () => {
    throw new TroupeError('unreachable', 'gone');
  };
  const request = { messages: [{ role: 'user', content: 'hi' }], n: 1 };

  it('ask the newest process of a policy, and the next one when it has gone', async () => {
    const clients = { '/old': talker('c-old', () => ({})), '/new': talker('c-new', () => ({})) };
    let leave = await registerProcess(at.db, { processId: 'p1', role: 'infer', policy: 'planner', address: '/old' });
    const own = registeredPolicyServers(at.db, (address) => clients[address as keyof typeof clients]);
    expect((await own.sample({ kind: 'policy', name: 'planner' }, request)).checkpoint).toBe('c-old');
    expect(clients['/old'].sampled[0]).toEqual({ ...request, model: 'planner' });
    expect(await own.models()).toEqual(['checkpoint:c-old', 'policy:planner']);

    clients['/old'].sample = gone;
    await leave();
    leave = await registerProcess(at.db, { processId: 'p2', role: 'infer', policy: 'planner', address: '/new' });
    // The look-up that is still believed names only the process that went away.
    expect((await own.sample({ kind: 'policy', name: 'planner' }, request)).checkpoint).toBe('c-new');
    expect(clients['/old'].closed).toBe(1);
    expect((await own.sample({ kind: 'checkpoint', name: 'c-new' }, request)).checkpoint).toBe('c-new');
    await leave();
    own.close();
  });

  it('tell the process what ends a request early, and do not ask again once it has', async () => {
    const withdrawal = new AbortController();
    const client = talker('c', () => {
      withdrawal.abort();
      throw new TroupeError('interrupted', 'withdrawn');
    });
    await registerProcess(at.db, { processId: 'p5', role: 'infer', policy: 'quiet', address: '/quiet' });
    const own = registeredPolicyServers(at.db, () => client);
    const { signal } = withdrawal;
    await expect(own.sample({ kind: 'policy', name: 'quiet' }, request, { signal })).rejects.toMatchObject({
      code: 'interrupted',
    });
    expect(client.signals).toEqual([signal]);
  });

  it('tell a policy that is not running from one that does not exist', async () => {
    const own = registeredPolicyServers(at.db, gone);
    await registerProcess(at.db, { processId: 'p3', role: 'infer', policy: 'asleep', address: '/asleep' });
    await expect(own.sample({ kind: 'policy', name: 'asleep' }, request)).rejects.toMatchObject({
      code: 'unreachable',
      detail: { hint: 'gone Start it with: troupe run infer --policy asleep' },
    });
    await expect(own.sample({ kind: 'policy', name: 'nobody' }, request)).rejects.toMatchObject({ code: 'not_found' });
    await expect(own.sample({ kind: 'checkpoint', name: 'nobody' }, request)).rejects.toMatchObject({
      code: 'not_found',
    });
  });

  it('leave refusals of the process as they are', async () => {
    const refusing = talker('c', () => {
      throw new TroupeError('input_refused', 'too long', { field: 'prompt' });
    });
    await registerProcess(at.db, { processId: 'p4', role: 'infer', policy: 'strict', address: '/strict' });
    const own = registeredPolicyServers(at.db, () => refusing);
    await expect(own.sample({ kind: 'policy', name: 'strict' }, request)).rejects.toMatchObject({
      code: 'input_refused',
    });
    expect(refusing.sampled).toHaveLength(1);
  });
});
