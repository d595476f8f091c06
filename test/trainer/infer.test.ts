import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type SavedCheckpoint, saveCheckpoint } from '../../trainer/model/checkpoints/checkpoint.ts';
import { withScoreHead } from '../../trainer/model/parameters.ts';
import { openTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import { type InferServer, startInfer } from '../../trainer/sample/infer.ts';
import type { BatchOptions, LoadPolicy } from '../../trainer/sample/infer-batches.ts';
import { connectInfer, type InferClient } from '../../trainer/sample/infer-client.ts';
import { Policy } from '../../trainer/sample/policy.ts';
import { compiledProgram } from '../support/program.ts';
import { tinyConfig, tinyContents, tinyTokenizer } from './tiny-checkpoint.ts';

let root: string;
let first: SavedCheckpoint;
let second: SavedCheckpoint;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'troupe-infer-'));
  first = await saveCheckpoint(root, tinyContents(1), { durable: false });
  second = await saveCheckpoint(root, tinyContents(2), { durable: false });
});
afterAll(() => rm(root, { recursive: true, force: true }));

const tokenizer = openTokenizer(tinyTokenizer);
const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

let count = 0;
const newSocket = (): string => join(root, `${count++}.sock`);

/** A server with the first checkpoint under the name main, a client, and the sizes of the batches that ran. */
async function started(
  options: Partial<BatchOptions> = {},
  loadPolicy: LoadPolicy = Policy.load,
): Promise<{ server: InferServer; client: InferClient; socket: string; batches: number[] }> {
  const batches: number[] = [];
  const socket = newSocket();
  const server = await startInfer({ socket, threads: 1, ...options }, async (config, weights, at) => {
    const policy = await loadPolicy(config, weights, at);
    return {
      sample(requests, options) {
        batches.push(requests.length);
        return policy.sample(requests, options);
      },
      logprobs: (rows) => policy.logprobs(rows),
      values: (rows) => policy.values(rows),
      setWeights: (next, model) => policy.setWeights(next, model),
      close: () => policy.close(),
    };
  });
  const client = connectInfer(socket);
  ends.push(
    () => server.close(),
    () => client.close(),
  );
  await client.load(first.dir, 'main');
  return { server, client, socket, batches };
}

/** What a policy with a checkpoint's weights says, with nothing in between. */
async function spokenBy(step: number, prompt: string, seed: number, n: number): Promise<number[][]> {
  const policy = await Policy.load(tinyConfig, tinyContents(step).weights);
  const request = { promptIds: tokenizer.encode(prompt), n, maxTokens: 8, temperature: 1, seed, stopIds: [1] };
  const samples = (await policy.sample([request]))[0]!.map(({ tokenIds }) => [...tokenIds]);
  await policy.close();
  return samples;
}

describe('the sampling process', () => {
  it('samples as the policy does, with the id of the checkpoint that generated the answer', async () => {
    const { client } = await started();
    const answer = await client.sample({ prompt: 'one two', n: 4, max_tokens: 8, seed: 5 });
    expect(answer.choices.map((choice) => choice.token_ids)).toEqual(await spokenBy(1, 'one two', 5, 4));
    expect(answer).toMatchObject({
      prompt_token_ids: tokenizer.encode('one two'),
      checkpoint: first.id,
      model: 'main',
    });
    expect(answer.usage).toEqual({
      prompt_tokens: 2,
      completion_tokens: answer.choices.flatMap((c) => c.token_ids).length,
    });
    for (const { token_ids, logprobs, text, finish_reason } of answer.choices) {
      expect(logprobs).toHaveLength(token_ids.length);
      const textIds = finish_reason === 'stop' ? token_ids.slice(0, -1) : token_ids;
      expect(text).toBe(tokenizer.decode(textIds));
      if (finish_reason === 'stop') expect(token_ids.at(-1)).toBe(tinyConfig.eos_token_id);
      else expect(token_ids).toHaveLength(8);
    }
  });

  it('takes messages, text or ids, and means the same by them', async () => {
    const { client } = await started();
    const ids = tokenizer.encode('<bos> user one two <end> assistant');
    const answers = await Promise.all([
      client.sample({ messages: [{ role: 'user', content: 'one two' }], seed: 1 }),
      client.sample({ prompt: '<bos> user one two <end> assistant', seed: 1 }),
      client.sample({ prompt_ids: ids, seed: 1, model: 'main' }),
    ]);
    for (const { choices, prompt_token_ids } of answers) {
      expect(prompt_token_ids).toEqual(ids);
      expect(choices.map(({ token_ids }) => token_ids)).toEqual(answers[0].choices.map(({ token_ids }) => token_ids));
    }
  });

  it('gives log-probabilities that agree with those of the samples', async () => {
    const { client } = await started();
    const { choices, prompt_token_ids } = await client.sample({ prompt: 'three four', n: 3, seed: 2 });
    const { rows, checkpoint } = await client.logprobs({
      rows: choices.map((choice) => ({ prompt_ids: prompt_token_ids, completion_ids: choice.token_ids })),
    });
    expect(checkpoint).toBe(first.id);
    for (const [i, row] of rows.entries()) {
      expect(row).toHaveLength(choices[i]!.token_ids.length);
      for (const [j, value] of row.entries()) expect(value).toBeCloseTo(choices[i]!.logprobs[j]!, 4);
    }
  });

  it('ends a sample at a stop text or a stop token, and leaves both out of its text', async () => {
    const { client } = await started();
    const free = (await client.sample({ prompt: 'one', n: 1, max_tokens: 12, seed: 3, stop_ids: [] })).choices[0]!;
    const words = free.text.split(' ');
    const word = words[4]!;
    const at = words.indexOf(word);
    const [byText, byToken, byPair] = await Promise.all([
      client.sample({ prompt: 'one', max_tokens: 12, seed: 3, stop_ids: [], stop: [word] }),
      client.sample({ prompt: 'one', max_tokens: 12, seed: 3, stop_ids: [free.token_ids[at]!] }),
      client.sample({ prompt: 'one', max_tokens: 12, seed: 3, stop_ids: [], stop: [`${words[3]} ${word}`] }),
    ]);
    for (const { choices } of [byText, byToken]) {
      expect(choices[0]).toMatchObject({ token_ids: free.token_ids.slice(0, at + 1), finish_reason: 'stop' });
      expect(choices[0]!.text).toBe(words.slice(0, at).join(' '));
    }
    const pair = `${words[3]} ${word}`;
    expect(byPair.choices[0]!.text).toBe(free.text.slice(0, free.text.indexOf(pair)));
    expect(byPair.choices[0]!.finish_reason).toBe('stop');
    expect(tokenizer.decode(byPair.choices[0]!.token_ids)).toMatch(new RegExp(`${pair}$`));
    expect(byPair.choices[0]!.logprobs).toHaveLength(byPair.choices[0]!.token_ids.length);
  });

  it('serves a request that comes while another is under way, and answers about itself meanwhile', async () => {
    const { client } = await started();
    const ended: string[] = [];
    const many = client.sample({ prompt: 'one two', n: 4000, stop_ids: [], seed: 1 });
    void many.then(() => ended.push('many'));
    while ((await client.status()).waiting === 0);
    let answered = 0;
    const few = client.sample({ prompt: 'one', max_tokens: 3, stop_ids: [], seed: 2 });
    void few.then(() => ended.push('few'));
    while (ended.length < 2) {
      await client.status();
      answered++;
    }
    expect(ended).toEqual(['few', 'many']);
    expect(answered).toBeGreaterThan(10);
    const alone = await client.sample({ prompt: 'one', max_tokens: 3, stop_ids: [], seed: 2 });
    expect((await few).choices).toEqual(alone.choices);
  });

  it('ends what its client withdraws, and what a client that went away had asked', async () => {
    const { client, socket } = await started();
    const withdrawal = new AbortController();
    const ask = { prompt: 'one two', n: 4096, stop_ids: [], seed: 1 };
    const lost = client.sample(ask, { signal: withdrawal.signal }).catch(({ code }) => code);
    while ((await client.status()).waiting === 0);
    withdrawal.abort();
    expect(await lost).toBe('interrupted');
    const other = connectInfer(socket);
    const gone = other.sample(ask).catch(({ code }) => code);
    while ((await client.status()).waiting === 0);
    other.close();
    expect(await gone).toBe('unreachable');
    while ((await client.status()).waiting > 0);
    expect(await client.status()).toMatchObject({ requests: 0, samples: 0 });
    expect(await client.sample(ask, { signal: withdrawal.signal }).catch(({ code }) => code)).toBe('interrupted');
  });

  it('cuts distributions as asked and reports the alternatives of each token', async () => {
    const { client } = await started();
    const free = { prompt: 'one two', max_tokens: 6, seed: 4, stop_ids: [] };
    const [greedy, first, both] = await Promise.all([
      client.sample({ ...free, temperature: 0 }),
      client.sample({ ...free, top_k: 1 }),
      client.sample({ ...free, temperature: 2, top_p: 0.5, min_p: 0.01, raw_logprobs: true, top_logprobs: 2 }),
    ]);
    expect(first.choices[0]!.token_ids).toEqual(greedy.choices[0]!.token_ids);
    const { token_ids, logprobs, raw_logprobs, top_logprobs } = both.choices[0]!;
    const { rows } = await client.logprobs({
      rows: [{ prompt_ids: both.prompt_token_ids, completion_ids: token_ids }],
    });
    for (const [t, raw] of raw_logprobs!.entries()) {
      expect(raw).toBeCloseTo(rows[0]![t]!, 4);
      expect(top_logprobs![t]!.length).toBeLessThanOrEqual(2);
      expect(top_logprobs![t]![0]!.logprob).toBeGreaterThanOrEqual(logprobs[t]!);
    }
    expect(raw_logprobs).not.toEqual(logprobs);
  });

  it('answers each request by the weights it names, also while others are loaded between', async () => {
    const { client } = await started();
    const seeds = Array.from({ length: 40 }, (_, seed) => seed);
    const asked = seeds.map((seed) => {
      if (seed % 7 === 3) void client.load(seed % 2 === 0 ? first.dir : second.dir, 'main');
      return client.sample({ prompt: 'five six', n: 3, max_tokens: 8, seed });
    });
    const answers = await Promise.all(asked);
    const steps = new Map([
      [first.id, 1],
      [second.id, 2],
    ]);
    for (const [seed, { checkpoint, choices }] of answers.entries()) {
      const expected = await spokenBy(steps.get(checkpoint)!, 'five six', seed, 3);
      expect(choices.map(({ token_ids }) => token_ids)).toEqual(expected);
    }
    expect(new Set(answers.map(({ checkpoint }) => checkpoint)).size).toBe(2);
    // In the order asked: what came after a load was generated by the loaded weights.
    const checkpoints = [2, 3, 9, 10, 16, 17, 39].map((seed) =>
      answers[seed]!.checkpoint === first.id ? 'first' : 'second',
    );
    expect(checkpoints).toEqual(['first', 'second', 'second', 'first', 'first', 'second', 'first']);
  });

  it('holds several models by name', async () => {
    const { client } = await started();
    await client.load(second.dir, 'other');
    const [one, two] = await Promise.all([
      client.sample({ model: 'main', prompt: 'one' }),
      client.sample({ model: 'other', prompt: 'one' }),
    ]);
    expect([one.checkpoint, two.checkpoint]).toEqual([first.id, second.id]);
    await expect(client.sample({ prompt: 'one' })).rejects.toMatchObject({ code: 'not_found', message: /main, other/ });
    expect((await client.status()).models.map(({ name, checkpoint }) => [name, checkpoint])).toEqual([
      ['main', first.id],
      ['other', second.id],
    ]);
  });

  it('answers what a model was asked before it is unloaded, and then has it no more', async () => {
    const { server, client } = await started();
    await client.load(second.dir, 'other');
    const under = client.sample({ model: 'other', prompt: 'one' });
    // It has begun once a later request of the same connection is answered.
    await client.status();
    server.unload('other');
    server.unload('nothing');
    expect((await under).checkpoint).toBe(second.id);
    await expect(client.sample({ model: 'other', prompt: 'one' })).rejects.toMatchObject({ code: 'not_found' });
    expect((await client.sample({ prompt: 'one' })).checkpoint).toBe(first.id);
  });

  it('refuses what is wrong, naming the field, and serves what is right beside it', async () => {
    const { client } = await started({ maxRows: 100 });
    const good = client.sample({ prompt: 'one', seed: 1 });
    const wrong: [object, string, string | undefined][] = [
      [{}, 'input_refused', 'prompt'],
      [{ prompt: 'one', prompt_ids: [1] }, 'input_refused', 'prompt'],
      [{ prompt: '' }, 'input_refused', 'prompt'],
      [{ prompt: 'unheard' }, 'input_refused', undefined],
      [{ prompt_ids: [1, 13] }, 'input_refused', 'prompt_ids[1]'],
      [{ prompt_ids: Array(32).fill(1) }, 'context_length_exceeded', 'prompt'],
      [{ prompt: 'one', n: 0 }, 'input_refused', 'n'],
      [{ prompt: 'one', n: 101 }, 'input_refused', 'n'],
      [{ prompt: 'one', n: 'many' }, 'input_refused', 'n'],
      [{ prompt: 'one', max_tokens: 0.5 }, 'input_refused', 'max_tokens'],
      [{ prompt: 'one', temperature: -1 }, 'input_refused', 'temperature'],
      [{ prompt: 'one', seed: -1 }, 'input_refused', 'seed'],
      [{ prompt: 'one', top_p: 0 }, 'input_refused', 'top_p'],
      [{ prompt: 'one', top_k: -1 }, 'input_refused', 'top_k'],
      [{ prompt: 'one', min_p: 'x' }, 'input_refused', 'min_p'],
      [{ prompt: 'one', raw_logprobs: 1 }, 'input_refused', 'raw_logprobs'],
      [{ prompt: 'one', top_logprobs: 21 }, 'input_refused', 'top_logprobs'],
      [{ prompt: 'one', stop: ['', 'x'] }, 'input_refused', 'stop'],
      [{ prompt: 'one', stop_ids: 'x' }, 'input_refused', 'stop_ids'],
      [{ messages: [{ content: 'no role' }] }, 'input_refused', 'messages'],
      [{ prompt: 'one', model: 'unheard' }, 'not_found', 'model'],
    ];
    const refused = wrong.map(([ask]) => client.sample(ask).catch((error) => [error.code, error.detail.field]));
    expect(await Promise.all(refused)).toEqual(wrong.map(([, code, field]) => [code, field]));
    await expect(client.logprobs({ rows: [{ prompt_ids: [], completion_ids: [] }] })).rejects.toMatchObject({
      code: 'input_refused',
    });
    await expect(client.load(join(root, 'nowhere'), 'main')).rejects.toMatchObject({ code: 'not_found' });
    expect((await good).choices).toHaveLength(1);
    expect((await client.sample({ prompt: 'one', seed: 1 })).choices[0]!.text).toBe((await good).choices[0]!.text);
  });

  it('answers lines that are no requests', async () => {
    const { socket } = await started();
    const raw = connect(socket);
    const lines = createInterface({ input: raw });
    raw.write('{"id":7,"op":"dance"}\nnonsense\n[1]\n\n{"op":"status"}\n');
    const replies: unknown[] = [];
    for await (const line of lines) if (replies.push(JSON.parse(line)) === 4) break;
    raw.destroy();
    expect(replies).toMatchObject([
      { id: 7, error: { code: 'input_refused', field: 'op' } },
      { id: null, error: { code: 'input_refused' } },
      { id: null, error: { code: 'input_refused' } },
      { id: null, waiting: 0 },
    ]);
  });

  it('answers with the value of the prompt where the model has a value head, and draws nothing', async () => {
    const { client } = await started();
    const contents = tinyContents(1);
    const judge = withScoreHead(contents.config, contents.weights, 'value', { seed: 3 });
    const saved = await saveCheckpoint(root, { ...contents, ...judge, optimizer: null }, { durable: false });
    await client.load(saved.dir, 'judge');
    const policy = await Policy.load(judge.config, judge.weights);
    const promptIds = tokenizer.encode('one two');
    const [[value]] = (await policy.values([{ promptIds, tokenIds: [1] }])) as [[number]];
    await policy.close();
    const answer = await client.sample({ model: 'judge', prompt: 'one two', n: 2 });
    expect(answer).toMatchObject({ checkpoint: saved.id, usage: { prompt_tokens: 2, completion_tokens: 0 } });
    expect(answer.choices.map(({ text }) => Number(text))).toEqual([
      expect.closeTo(value, 6),
      expect.closeTo(value, 6),
    ]);
    const parts: string[] = [];
    await client.sample({ model: 'judge', prompt: 'one two' }, { onPart: ({ text }) => parts.push(text) });
    expect(parts).toEqual([answer.choices[0]!.text]);
    const schema = { model: 'judge', prompt: 'one', json_schema: {} };
    await expect(client.sample(schema)).rejects.toMatchObject({
      code: 'input_refused',
      message: 'This model has a value head and answers with one number, but the request demands JSON of a schema.',
    });
  });

  it('lets one failed run spoil no other request', async () => {
    const { client } = await started({}, async (config, weights, at) => {
      const policy = await Policy.load(config, weights, at);
      return {
        sample: (requests) =>
          requests.some(({ seed }) => seed === 13) ? Promise.reject(new Error('unlucky')) : policy.sample(requests),
        logprobs: (rows) => policy.logprobs(rows),
        values: (rows) => policy.values(rows),
        setWeights: (next) => policy.setWeights(next),
        close: () => policy.close(),
      };
    });
    const answers = [12, 13, 14].map((seed) =>
      client.sample({ prompt: 'one', seed }).then(
        () => 'sampled',
        ({ code, message }) => `${code}: ${message}`,
      ),
    );
    expect(await Promise.all(answers)).toEqual(['sampled', 'internal: unlucky', 'sampled']);
  });

  it('says it is busy rather than let the queue grow without end', async () => {
    const { client } = await started({ maxWaiting: 3 });
    const asks = Array.from({ length: 5 }, () =>
      client.sample({ prompt: 'one' }).then(
        () => 'sampled',
        ({ code }) => code,
      ),
    );
    expect((await Promise.all(asks)).sort()).toEqual(['busy', 'busy', 'sampled', 'sampled', 'sampled']);
  });

  it('answers waiting requests with an error when it stops', async () => {
    const { client, server } = await started();
    const asks = Array.from({ length: 3 }, () =>
      client.sample({ prompt: 'one', n: 4096, stop_ids: [] }).catch(({ code }) => code),
    );
    while ((await client.status()).waiting < 3);
    await server.close();
    expect(await Promise.all(asks)).toEqual(['interrupted', 'interrupted', 'interrupted']);
  });

  it('lets only this user in, and does not take the place of a living process', async () => {
    const { socket } = await started();
    expect((await stat(socket)).mode & 0o777).toBe(0o600);
    await expect(startInfer({ socket, threads: 1 }, Policy.load)).rejects.toMatchObject({ code: 'port_taken' });
  });

  it('says where a socket path is too long', async () => {
    const long = join(root, 'x'.repeat(100));
    const error = { code: 'config_invalid', message: expect.stringMatching(/can have 100/) };
    await expect(startInfer({ socket: long, threads: 1 }, Policy.load)).rejects.toMatchObject(error);
    expect(() => connectInfer(long)).toThrow(/can have 100/);
  });
});

describe('a client of the sampling process', () => {
  const program = async (socket: string): Promise<{ kill: () => Promise<unknown> }> => {
    const path = await compiledProgram(join(import.meta.dirname, 'infer-program.ts'));
    const child = spawn(process.execPath, [path, socket, first.dir], { stdio: ['ignore', 'pipe', 'inherit'] });
    const exit = once(child, 'exit');
    const kill = (): Promise<unknown> => {
      child.kill('SIGKILL');
      return exit;
    };
    ends.push(kill);
    await Promise.race([once(child.stdout, 'data'), exit.then((how) => Promise.reject(new Error(`it ended: ${how}`)))]);
    return { kill };
  };

  it('says when nobody is there, and goes on once the process is back after it was killed', async () => {
    const socket = newSocket();
    const client = connectInfer(socket);
    ends.push(() => client.close());
    await expect(client.status()).rejects.toMatchObject({ code: 'unreachable', retriable: true });
    const { kill } = await program(socket);
    const before = await client.sample({ prompt: 'one', seed: 1 });
    const lost = client.sample({ prompt: 'one', n: 4000, seed: 1 }).catch(({ code }) => code);
    await kill();
    expect(await lost).toBe('unreachable');
    await expect(client.status()).rejects.toMatchObject({ code: 'unreachable' });
    await program(socket);
    expect(await client.sample({ prompt: 'one', seed: 1 })).toEqual(before);
  }, 30_000);

  it('can ask 192 prompts for 16 samples at once', async () => {
    const { client, batches } = await started();
    const asks = Array.from({ length: 192 }, (_, seed) =>
      client.sample({ messages: [{ role: 'user', content: 'one two three' }], n: 16, max_tokens: 16, seed }),
    );
    const answers = await Promise.all(asks);
    expect(answers.every(({ choices }) => choices.length === 16)).toBe(true);
    expect(batches.reduce((a, b) => a + b)).toBe(192);
  });
});
