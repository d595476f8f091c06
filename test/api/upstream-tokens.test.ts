import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readUpstreams } from '../../api/gateway/upstream/settings.ts';
import { openUpstreams, type Upstreams } from '../../api/gateway/upstream/upstreams.ts';
import { fileArtifacts } from '../../ingest/log/artifacts.ts';
import { post, type TestApp, testApp } from './support/app.ts';
import { type OpenaiServer, openaiServer } from './support/openai-server.ts';

const CHAT = '/v1/chat/completions';
const ask = (model: string, more: object = {}) => ({ model, messages: [{ role: 'user', content: 'hello' }], ...more });

let server: OpenaiServer;
let upstreams: Upstreams;
let at: TestApp;
const folder = mkdtempSync(join(tmpdir(), 'troupe-tokens-'));

beforeAll(async () => {
  server = await openaiServer();
  const one = (more: object) => ({ base_url: server.baseUrl, ...more });
  upstreams = openUpstreams(
    readUpstreams(
      {
        plain: one({ models: ['plain'] }),
        vllm: one({ models: ['v', 'tools'], token_ids: 'vllm', logprobs: 'processed', checkpoints: { v: 'c-7' } }),
        raw: one({ models: ['r'], token_ids: 'vllm' }),
        sglang: one({ models: ['s'], token_ids: 'sglang', logprobs: 'processed' }),
      },
      {},
    ),
  );
  at = await testApp({ upstreams, artifacts: fileArtifacts(folder) });
});
afterAll(async () => {
  await at.close();
  upstreams.close();
  await server.close();
  rmSync(folder, { recursive: true });
});

const call = (episode: string, body: object, url = CHAT) => post(at.app, body, { 'troupe-episode': episode }, url);
const recordOf = async (episode: string) => {
  const { rows } = await at.db.query<{ name: string; data: Record<string, unknown> }>(
    "select name, data from troupe.events where key = $1 and name = 'generation.completed'",
    [`e/${episode}`],
  );
  return rows[0]!.data;
};
/** What a client gets of the same request at a server that is asked for nothing else. */
const direct = async (body: object, url = '/chat/completions') =>
  (await fetch(`${server.baseUrl}${url}`, { method: 'POST', body: JSON.stringify(body) })).text();

describe('a server that the configuration marks as vLLM', () => {
  it('is asked for token ids and log-probabilities, which are recorded and not shown to the client', async () => {
    const answer = await call('v-whole', ask('v', { n: 2 }));
    expect(JSON.parse(server.asked.at(-1)!.text)).toMatchObject({ return_token_ids: true, logprobs: true, n: 2 });
    expect(answer.json()).toEqual(JSON.parse(await direct(ask('v', { n: 2 }))));
    expect(await recordOf('v-whole')).toMatchObject({
      prompt_token_ids: [7, 8, 9],
      checkpoint_id: 'c-7',
      choices: [
        { index: 0, token_ids: [100, 101, 102, 103], logprobs: [-0.25, -0.5, -0.75, -1] },
        { index: 1, token_ids: [200, 201, 202, 203], logprobs: [-0.25, -0.5, -0.75, -1] },
      ],
    });
  });

  it('streams them too: the client sees the events it asked for, and the record is the same', async () => {
    const body = ask('v', { n: 2, stream: true, stream_options: { include_usage: true } });
    const answer = await call('v-stream', body);
    expect(answer.body).toBe(await direct(body));
    const [whole, streamed] = [await recordOf('v-whole'), await recordOf('v-stream')];
    expect(streamed.choices).toEqual(whole.choices);
    expect(streamed.prompt_token_ids).toEqual(whole.prompt_token_ids);
  });

  it('gives a client what it asks for itself', async () => {
    const body = ask('v', { logprobs: true, return_token_ids: true });
    expect((await call('v-own', body)).json()).toEqual(JSON.parse(await direct(body)));
    const some = ask('v', { logprobs: true });
    expect((await call('v-some', some)).json()).toEqual(JSON.parse(await direct(some)));
    expect(await recordOf('v-some')).toMatchObject({ choices: [{ token_ids: [100, 101, 102, 103] }] });
  });

  it('is asked at /v1/completions too', async () => {
    const body = { model: 'v', prompt: 'x' };
    expect((await call('v-text', body, '/v1/completions')).json()).toEqual(
      JSON.parse(await direct(body, '/completions')),
    );
    expect(await recordOf('v-text')).toMatchObject({
      prompt_token_ids: [7, 8, 9],
      choices: [{ token_ids: [41, 42], logprobs: [-0.5, -1] }],
    });
  });

  it('is asked in the Responses API too, for log-probabilities only where the client asks for them', async () => {
    for (const stream of [false, true]) {
      const body = { model: 'v', input: 'hello', stream };
      expect((await call(`v-responses-${stream}`, body, '/v1/responses')).body).toBe(await direct(body, '/responses'));
      const { choices, prompt_token_ids: prompt } = await recordOf(`v-responses-${stream}`);
      expect(prompt).toEqual([7, 8, 9]);
      expect(choices).toMatchObject([{ token_ids: [61, 62] }]);
      expect((choices as object[])[0]).not.toHaveProperty('logprobs');
    }
    const body = { model: 'v', input: 'hello', include: ['message.output_text.logprobs'] };
    expect((await call('v-logprobs', body, '/v1/responses')).json()).toEqual(
      JSON.parse(await direct(body, '/responses')),
    );
    expect(await recordOf('v-logprobs')).toMatchObject({ choices: [{ token_ids: [61, 62], logprobs: [-0.5, -1] }] });
  });

  it('is not asked where it returns none', async () => {
    await call('v-background', { model: 'v', input: 'hello', background: true }, '/v1/responses');
    expect(JSON.parse(server.asked.at(-1)!.text)).toEqual({ model: 'v', input: 'hello', background: true });
  });

  it('has log-probabilities before temperature and filters, unless the configuration says otherwise', async () => {
    await call('r-default', ask('r'));
    const [choice] = (await recordOf('r-default')).choices as object[];
    expect(choice).toMatchObject({ token_ids: [100, 101, 102, 103], raw_logprobs: [-0.25, -0.5, -0.75, -1] });
    expect(choice).not.toHaveProperty('logprobs');
    const plain = { temperature: 1, top_p: 1, top_k: -1, min_p: 0, repetition_penalty: 1 };
    await call('r-plain', ask('r', { ...plain, presence_penalty: 0, frequency_penalty: 0 }));
    expect(await recordOf('r-plain')).toMatchObject({ choices: [{ logprobs: [-0.25, -0.5, -0.75, -1] }] });
  });

  it('a penalty that a request leaves out may be one of the model, so its log-probabilities stay raw', async () => {
    await call('r-penalty', ask('r', { temperature: 1, top_p: 1, top_k: -1, min_p: 0 }));
    expect(((await recordOf('r-penalty')).choices as object[])[0]).not.toHaveProperty('logprobs');
  });
});

describe('a server that the configuration marks as SGLang', () => {
  it('is asked in its own words, and answers with ids on each choice', async () => {
    const answer = await call('s-whole', ask('s'));
    expect(JSON.parse(server.asked.at(-1)!.text)).toEqual({
      ...ask('s'),
      logprobs: true,
      return_prompt_token_ids: true,
      return_meta_info: true,
    });
    expect(answer.json()).toEqual(JSON.parse(await direct(ask('s'))));
    expect(await recordOf('s-whole')).toMatchObject({
      prompt_token_ids: [7, 8, 9],
      choices: [{ token_ids: [100, 101, 102, 103], logprobs: [-0.25, -0.5, -0.75, -1] }],
    });
  });

  it('is asked in other words in a stream, where it refuses these: its last event is not shown', async () => {
    for (const usage of [false, true]) {
      const body = ask('s', { n: 2, stream: true, stream_options: { include_usage: usage } });
      const answer = await call(`s-stream-${usage}`, body);
      expect(answer.statusCode).toBe(200);
      expect(answer.body).toBe(await direct(body));
      expect(await recordOf(`s-stream-${usage}`)).toMatchObject({
        prompt_token_ids: [7, 8, 9],
        choices: [
          { index: 0, token_ids: [100, 101, 102, 103], logprobs: [-0.25, -0.5, -0.75, -1] },
          { index: 1, token_ids: [200, 201, 202, 203], logprobs: [-0.25, -0.5, -0.75, -1] },
        ],
      });
    }
    const own = ask('s', { stream: true, return_output_ids_in_sglext: true });
    expect((await call('s-own', own)).body).toBe(await direct(own));
  });

  it('is asked at /v1/completions too', async () => {
    await call('s-text', { model: 's', prompt: 'x' }, '/v1/completions');
    expect(await recordOf('s-text')).toMatchObject({
      prompt_token_ids: [7, 8, 9],
      choices: [{ token_ids: [41, 42], logprobs: [-0.5, -1] }],
    });
  });

  it('has log-probabilities that do not count what a request cuts off', async () => {
    await call('s-cut', ask('s', { top_p: 0.9 }));
    const [choice] = (await recordOf('s-cut')).choices as object[];
    expect(choice).toMatchObject({ token_ids: [100, 101, 102, 103], raw_logprobs: [-0.25, -0.5, -0.75, -1] });
    expect(choice).not.toHaveProperty('logprobs');
  });
});

it('A server that is not marked has its log-probabilities recorded as it gives them, with token ids only where they are sure', async () => {
  await call('p-warm', ask('plain', { logprobs: true, temperature: 0.5 }));
  expect(await recordOf('p-warm')).toMatchObject({ choices: [{ logprobs: [-0.25, -0.5, -0.75, -1] }] });
  for (const [temperature, name] of [
    [1, 'logprobs'],
    [0.5, 'raw_logprobs'],
  ] as const) {
    const episode = `p-${temperature}`;
    await call(episode, ask('plain', { logprobs: true, return_token_ids: true, temperature }));
    expect(await recordOf(episode)).toMatchObject({
      choices: [{ token_ids: [100, 101, 102, 103], [name]: [-0.25, -0.5, -0.75, -1] }],
    });
  }
});

it('A server without that setting is asked for nothing more', async () => {
  await call('plain', ask('plain'));
  expect(JSON.parse(server.asked.at(-1)!.text)).toEqual(ask('plain'));
});

it('The settings are checked', () => {
  for (const [more, field] of [
    [{ token_ids: 'ollama' }, 'token_ids'],
    [{ logprobs: true }, 'logprobs'],
    [{ checkpoints: { v: 7 } }, 'checkpoints.v'],
  ] as const)
    expect(() => readUpstreams({ a: { base_url: 'http://a.example/v1', ...more } }, {})).toThrow(
      `upstreams.a.${field} should be`,
    );
});

describe('token ids that are fewer than the tokens of the answer', () => {
  const data = (event: object) => `data: ${JSON.stringify(event)}\n\n`;
  const text = (content: string, token_ids: readonly number[] | null) =>
    data({
      id: 'c',
      prompt_token_ids: [7],
      choices: [
        {
          ...{ index: 0, delta: { content }, finish_reason: null, token_ids },
          logprobs: token_ids && { content: token_ids.map((id) => ({ token: `token_id:${id}`, logprob: -0.5 })) },
        },
      ],
    });
  const end = data({ id: 'c', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
  const usage = (completion_tokens: number) => data({ id: 'c', choices: [], usage: { completion_tokens } });
  const stepOf = async (episode: string) => {
    await at.project();
    return (
      await at.db.query(
        'select text, token_ids, logprobs, trainable, untrainable from traj.steps where episode_id = $1',
        [episode],
      )
    ).rows;
  };
  const scripted = (episode: string, sse: readonly string[], more: object = {}) =>
    call(episode, ask('vllm/scripted', { stream: true, script: { sse }, ...more }));

  it('are not recorded as those of the step, which says so', async () => {
    await scripted('lost', [text('One', [11]), text(' two', [12, 13]), end, usage(9)]);
    expect(await recordOf('lost')).toMatchObject({ flags: ['lost_token_ids'], usage: { output_tokens: 9 } });
    expect(await stepOf('lost')).toEqual([
      { text: 'One two', token_ids: null, logprobs: null, trainable: false, untrainable: 'lost_token_ids' },
    ]);
  });

  it('are recorded where they are as many as the server counts', async () => {
    await scripted('all', [text('One', [11]), text(' two', [12, 13]), end, usage(3)]);
    expect(await stepOf('all')).toMatchObject([{ token_ids: [11, 12, 13], untrainable: 'unknown_weights' }]);
    expect(await recordOf('all')).not.toHaveProperty('flags');
  });

  it('are seen without a count where a part of the text has none', async () => {
    await scripted('part', [text('One', [11]), text(' two', null), text(' three', [13]), end]);
    expect(await stepOf('part')).toMatchObject([
      { text: 'One two three', token_ids: null, untrainable: 'lost_token_ids' },
    ]);
  });

  it('are seen whole, over several candidates, at /v1/completions and in the Responses API', async () => {
    const choice = (index: number, ids: readonly number[]) => ({
      ...{ index, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop', token_ids: ids },
    });
    const lost = async (episode: string, body: object, url?: string) => {
      await call(episode, { model: 'vllm/scripted', messages: [], prompt: 'x', input: 'x', script: { body } }, url);
      return (await recordOf(episode)).flags;
    };
    const two = { choices: [choice(0, [1, 2]), choice(1, [3])], usage: { completion_tokens: 4 } };
    expect(await lost('two', two)).toEqual(['lost_token_ids']);
    expect(await lost('three', { ...two, usage: { completion_tokens: 3 } })).toBeUndefined();
    const plain = { choices: [{ index: 0, text: 'x', token_ids: [1] }], usage: { completion_tokens: 2 } };
    expect(await lost('written', plain, '/v1/completions')).toContain('lost_token_ids');
    const response = {
      ...{ object: 'response', status: 'completed', usage: { output_tokens: 3 } },
      output: [{ type: 'message', content: [{ type: 'output_text', text: 'x' }] }],
      ...{ input_messages: [{ tokens: [7] }], output_messages: [{ tokens: [1, 2] }] },
    };
    expect(await lost('respond', response, '/v1/responses')).toEqual(['lost_token_ids']);
  });

  it('of one candidate of SGLang, which counts each, leave the others as they are', async () => {
    const choice = (index: number, counted: number) => ({
      ...{ index, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' },
      meta_info: { output_token_logprobs: [[-0.5, 5, 'x']], completion_tokens: counted },
    });
    await call('each', ask('sglang/scripted', { script: { body: { choices: [choice(0, 1), choice(1, 2)] } } }));
    const [whole, short] = (await recordOf('each')).choices as object[];
    expect(whole).toMatchObject({ token_ids: [5] });
    expect(short).not.toHaveProperty('token_ids');
  });

  it('are counted though the client asks for no usage, of which it sees none', async () => {
    for (const options of [undefined, { include_usage: false }]) {
      const body = ask('v', { stream: true, ...(options ? { stream_options: options } : {}) });
      const answer = await call(`counted-${options === undefined}`, body);
      expect(JSON.parse(server.asked.at(-1)!.text).stream_options).toEqual({ include_usage: true });
      expect(answer.body).toBe(await direct(body));
    }
    expect(await recordOf('counted-true')).toMatchObject({ usage: { output_tokens: 4 } });
  });
});
