/** The sampling process for other machines: what the socket answers, with a key. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { type SavedCheckpoint, saveCheckpoint } from '../../trainer/model/checkpoints/checkpoint.ts';
import { startInfer } from '../../trainer/sample/infer.ts';
import { connectInfer } from '../../trainer/sample/infer-client.ts';
import { type InferHttpOptions, startInferHttp } from '../../trainer/sample/infer-http.ts';
import { connectInferHttp } from '../../trainer/sample/infer-http-client.ts';
import { Policy } from '../../trainer/sample/policy.ts';
import { tinyConfig, tinyContents } from './tiny-checkpoint.ts';

const KEY = 'a-key-of-the-proof-of-32-letters';
/** Room for an answer of minutes. */
const LENGTH = 200_000;

let root: string;
let saved: SavedCheckpoint;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'troupe-infer-http-'));
  saved = await saveCheckpoint(root, tinyContents(1, { ...tinyConfig, max_position_embeddings: LENGTH }), {
    durable: false,
  });
});
afterAll(() => rm(root, { recursive: true, force: true }));

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function started(options: Partial<InferHttpOptions> = {}, key: string | null = KEY) {
  const server = await startInferHttp({ host: '127.0.0.1', port: 0, key: KEY, threads: 1, ...options }, Policy.load);
  await server.load({ dir: saved.dir, name: 'main' });
  const address = `http://127.0.0.1:${server.port}`;
  const client = connectInferHttp(address, key, { connectMs: 1000, silentMs: 1000 });
  ends.push(
    () => server.close(),
    () => client.close(),
  );
  return { server, client, address };
}

it('answers what the socket answers, and streams the same text', async () => {
  const { client } = await started();
  const socket = join(root, 'infer.sock');
  const local = await startInfer({ socket, threads: 1 }, Policy.load);
  const near = connectInfer(socket);
  ends.push(
    () => local.close(),
    () => near.close(),
  );
  await near.load(saved.dir, 'main');
  const ask = { prompt: 'one two', n: 3, max_tokens: 8, seed: 5 };
  const wanted = await near.sample(ask);
  expect(wanted.checkpoint).toBe(saved.id);
  expect(await client.sample(ask)).toEqual(wanted);
  const texts = ['', '', ''];
  const streamed = await client.sample(ask, {
    onPart: ({ choice, text }, { checkpoint }) => {
      expect(checkpoint).toBe(saved.id);
      texts[choice] += text;
    },
  });
  expect(streamed).toEqual(wanted);
  expect(texts).toEqual(wanted.choices.map(({ text }) => text));
  const rows = [{ prompt_ids: wanted.prompt_token_ids, completion_ids: wanted.choices[0]!.token_ids }];
  expect(await client.logprobs({ rows })).toEqual(await near.logprobs({ rows }));
  expect(await client.prompt({ prompt: 'one two' })).toEqual(await near.prompt({ prompt: 'one two' }));
  expect((await client.status()).models).toEqual((await near.status()).models);
});

it('passes on where a request is in a trace', async () => {
  const seen: (string | string[] | undefined)[] = [];
  const server = createHttpServer((request, response) => {
    seen.push(request.headers.traceparent);
    response.end(`${JSON.stringify({ models: [] })}\n`);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  let place: Record<string, string> = { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' };
  const client = connectInferHttp(`http://127.0.0.1:${port}`, KEY, undefined, () => place);
  ends.push(
    () => server.close(),
    () => client.close(),
  );
  await client.status();
  place = {};
  await client.status();
  expect(seen).toEqual(['00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', undefined]);
});

it('refuses what is wrong as the process on this machine does', async () => {
  const { client } = await started();
  await expect(client.sample({ prompt: 'one', n: 0 })).rejects.toMatchObject({
    code: 'input_refused',
    detail: { field: 'n' },
  });
  await expect(client.sample({ prompt: 'one', model: 'other' })).rejects.toMatchObject({ code: 'not_found' });
});

it('answers nobody without its key, and loads nothing for another machine', async () => {
  const { client, address, server } = await started({}, 'a-key-of-somebody-else-altogether');
  await expect(client.sample({ prompt: 'one' })).rejects.toMatchObject({
    code: 'unreachable',
    message: expect.stringContaining('TROUPE_INFER_KEY'),
  });
  const none = connectInferHttp(address, null);
  await expect(none.status()).rejects.toThrow('wants a key');
  const post = (body: string, headers: Record<string, string>, path = '/v1/infer') =>
    fetch(`${address}${path}`, { method: 'POST', body, headers });
  expect((await post('{"op":"status"}', {})).status).toBe(401);
  const authorization = `Bearer ${KEY}`;
  expect((await post('{"op":"status"}', { authorization }, '/')).status).toBe(404);
  const load = await post(JSON.stringify({ op: 'load', dir: saved.dir, name: 'main' }), { authorization });
  expect(await load.text()).toContain('op must be sample, prompt, logprobs or status');
  expect(await (await post('[', { authorization })).text()).toContain('input_refused');
  expect(server.status().requests).toBe(0);
});

it('has a key that nobody guesses', async () => {
  await expect(started({ key: 'short' })).rejects.toMatchObject({
    code: 'config_invalid',
    message: expect.stringContaining('at least 16 characters'),
  });
});

it('ends what its client cancels, and what a client that went away had asked', async () => {
  const { client, server } = await started();
  const cancelled = new AbortController();
  const ask = { prompt: 'one two', stop_ids: [], seed: 1 };
  const lost = client.sample(ask, { signal: cancelled.signal }).catch(({ code }) => code);
  await expect.poll(() => server.status().waiting).toBe(1);
  cancelled.abort();
  expect(await lost).toBe('interrupted');
  await expect.poll(() => server.status().waiting).toBe(0);
  const gone = client.sample(ask).catch(({ code }) => code);
  await expect.poll(() => server.status().waiting).toBe(1);
  client.close();
  expect(await gone).toBe('unreachable');
  await expect.poll(() => server.status().waiting).toBe(0);
  expect(server.status().requests).toBe(0);
});

it('shows while it samples that it is there, so that a long answer is waited for', async () => {
  const { client } = await started({ aliveMs: 100 });
  // About two seconds, twice what the client lets pass in silence.
  const { usage } = await client.sample({ prompt: 'one', max_tokens: 3000, stop_ids: [], seed: 1 });
  expect(usage.completion_tokens).toBe(3000);
});

it('says to those who wait that it stops', async () => {
  const { client, server } = await started();
  const waiting = client.sample({ prompt: 'one', stop_ids: [] }).catch(({ code }) => code);
  await expect.poll(() => server.status().waiting).toBe(1);
  await server.close();
  expect(await waiting).toBe('interrupted');
});

it('is unreachable where nobody listens, and where somebody listens and sends nothing', async () => {
  const { client, server } = await started();
  await server.close();
  await expect(client.status()).rejects.toMatchObject({ code: 'unreachable', retriable: true });
  const sockets: Socket[] = [];
  const mute = createServer((socket) => sockets.push(socket));
  await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
  const { port } = mute.address() as AddressInfo;
  const silent = connectInferHttp(`http://127.0.0.1:${port}`, KEY, { connectMs: 200, silentMs: 300 });
  await expect(silent.status()).rejects.toMatchObject({
    code: 'unreachable',
    message: expect.stringContaining('sent nothing for 0.3 s'),
  });
  silent.close();
  for (const socket of sockets) socket.destroy();
  mute.close();
});
