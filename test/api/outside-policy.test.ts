import { mkdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { outsidePolicies } from '../../api/gateway/upstream/outside-policy.ts';
import { readUpstreams } from '../../api/gateway/upstream/settings.ts';
import { type SavedCheckpoint, saveCheckpoint } from '../../trainer/model/checkpoints/checkpoint.ts';
import { Batches } from '../../trainer/sample/infer-batches.ts';
import type { SampleAnswer } from '../../trainer/sample/infer-wire.ts';
import { tinyConfig, tinyContents } from '../trainer/tiny-checkpoint.ts';

type Fields = Record<string, unknown>;

const START = '/models/base';

/**
 * A server that loads what it is asked to, as vLLM and SGLang do, and is healthy after a while. An answer takes a moment, and its first token is the
 * number of the weights that gave it: 5 for an adapter, 6 for those of the start, then as they were loaded.
 */
function scripted({ dev = true, device = 'cuda' } = {}) {
  const adapters = new Map<string, string>();
  const asked: { readonly path: string; readonly body: Fields }[] = [];
  const known = [START];
  let weights = START;
  let version = 'default';
  let paused = false;
  let underWay = 0;
  let unhealthy = 0;
  const done = { status: 200, value: { success: true } };
  const none = { status: 404, value: { detail: 'Not Found' } };
  const take = (dir: unknown): typeof done => {
    expect(underWay).toBe(0);
    weights = String(dir);
    if (!known.includes(weights)) known.push(weights);
    unhealthy = 2;
    return done;
  };
  const tokenOf = (name: unknown): number => (adapters.has(String(name)) ? 5 : 6 + known.indexOf(weights));
  const answers: Readonly<Record<string, (body: Fields) => { status: number; value: unknown }>> = {
    '/v1/load_lora_adapter': ({ lora_name, lora_path }) => {
      adapters.set(String(lora_name), String(lora_path));
      unhealthy = 2;
      return done;
    },
    '/v1/unload_lora_adapter': ({ lora_name }) => {
      adapters.delete(String(lora_name));
      return done;
    },
    '/update_weights_from_disk': ({ model_path }) => take(model_path),
    '/weight_info': () => (dev ? { status: 200, value: { weight_version: version } } : none),
    '/server_info?config_format=json': () => ({ status: 200, value: { vllm_config: { device_config: { device } } } }),
    '/pause?mode=wait': () => {
      paused = true;
      return done;
    },
    '/resume': () => {
      paused = false;
      return done;
    },
    '/collective_rpc': ({ method, kwargs }) => {
      expect([paused, method]).toEqual([true, 'reload_weights']);
      return take((kwargs as Fields).weights_path);
    },
    '/update_weight_version': ({ new_version }) => {
      version = String(new_version);
      return done;
    },
    '/health': () => (unhealthy-- > 0 ? { status: 503, value: {} } : { status: 200, value: {} }),
    '/get_model_info': () => ({ status: 200, value: { model_path: weights } }),
    '/v1/models': () => ({
      status: 200,
      value: {
        data: [
          { id: 'base', root: START, parent: null },
          ...[...adapters].map(([id, root]) => ({ id, root, parent: 'base' })),
        ],
      },
    }),
    '/v1/completions': ({ model, n }) => {
      if (model !== 'base' && !adapters.has(String(model)))
        return { status: 404, value: { error: { message: `The model ${model} does not exist.` } } };
      const choices = Array.from({ length: Number(n) }, (_, i) => ({
        ...{ index: i, text: '', finish_reason: 'stop', token_ids: [tokenOf(model), 1] },
        logprobs: { token_logprobs: [-0.5 - i, -0.25] },
      }));
      return { status: 200, value: { choices } };
    },
    '/generate': ({ input_ids, lora_path }) => ({
      status: 200,
      value: (input_ids as unknown[]).map(() => ({
        ...{ text: '', output_ids: [tokenOf(lora_path), 1] },
        meta_info: {
          finish_reason: { type: 'length' },
          output_token_logprobs: [
            [-2, tokenOf(lora_path), null],
            [-1, 1, null],
          ],
        },
      })),
    }),
  };
  const server: Server = createServer(async (request, response) => {
    const body = request.method === 'POST' ? ((await json(request)) as Fields) : {};
    asked.push({ path: request.url!, body });
    const { status, value } = answers[request.url!]?.(body) ?? none;
    underWay++;
    if (/completions|generate/.test(request.url!)) await sleep(20);
    underWay--;
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  });
  const restart = (): void => {
    adapters.clear();
    weights = START;
    version = 'default';
  };
  return { server, asked, adapters, restart };
}

describe('A policy that a model server outside of Troupe serves', () => {
  let root: string;
  let adapted: SavedCheckpoint;
  let next: SavedCheckpoint;
  let whole: SavedCheckpoint;
  let other: SavedCheckpoint;
  let stacked: SavedCheckpoint;
  const ends: (() => unknown)[] = [];
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'troupe-outside-'));
    const saved = (step: number) => saveCheckpoint(root, tinyContents(step), { durable: false });
    [adapted, next, whole, other, stacked] = [
      await saved(1),
      await saved(2),
      await saved(3),
      await saved(4),
      await saved(5),
    ];
    adapterOver(stacked.dir, adapted.dir);
    for (const { dir } of [adapted, next]) adapterOver(dir, START);
  });
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end();
  });
  afterAll(() => rm(root, { recursive: true, force: true }));

  const adapterOver = (dir: string, base: string): void => {
    mkdirSync(`${dir}-adapter`, { recursive: true });
    writeFileSync(join(`${dir}-adapter`, 'adapter_config.json'), JSON.stringify({ base_model_name_or_path: base }));
  };
  const started = async (
    settings: Fields,
    like?: Parameters<typeof scripted>[0],
  ): Promise<ReturnType<typeof scripted> & { readonly batches: Batches }> => {
    const outside = scripted(like);
    await new Promise<void>((resolve) => outside.server.listen(0, '127.0.0.1', resolve));
    const { port } = outside.server.address() as AddressInfo;
    const [upstream] = readUpstreams({ gpu: { base_url: `http://127.0.0.1:${port}/v1`, ...settings } }, {});
    const batches = new Batches({ threads: 1 }, outsidePolicies(upstream!));
    ends.push(
      () => new Promise((resolve) => outside.server.close(resolve)),
      () => batches.close(),
    );
    return { ...outside, batches };
  };
  const load = (batches: Batches, { dir }: SavedCheckpoint, name = 'solver') =>
    batches.submit({ op: 'load', ask: { dir, name } });
  const ask = { model: 'solver', prompt_ids: [3, 4], n: 2, max_tokens: 4, temperature: 1, seed: 9 };
  const paths = (asked: readonly { readonly path: string }[]) => asked.map(({ path }) => path);
  const firstToken = async (batches: Batches, model = 'solver'): Promise<number> => {
    const { choices } = (await batches.submit({ op: 'sample', ask: { ...ask, model, n: 1 } })) as SampleAnswer;
    return choices[0]!.token_ids[0]!;
  };

  it('vLLM gets each release: it loads the adapter, is waited for, asked what it serves, and unloads the one before', async () => {
    const { batches, asked, adapters } = await started({ token_ids: 'vllm' }, { dev: false });
    await load(batches, adapted);
    expect(paths(asked).filter((path) => !/weight_info|models/.test(path))).toEqual([
      '/v1/load_lora_adapter',
      ...['/health', '/health', '/health'],
    ]);
    expect([...adapters]).toEqual([[adapted.id, `${adapted.dir}-adapter`]]);
    expect(await batches.submit({ op: 'sample', ask })).toMatchObject({
      checkpoint: adapted.id,
      prompt_token_ids: [3, 4],
      choices: [
        { token_ids: [5, 1], logprobs: [-0.5, -0.25], finish_reason: 'stop' },
        { token_ids: [5, 1], logprobs: [-1.5, -0.25] },
      ],
    });
    expect(asked.find(({ path }) => path === '/v1/completions')!.body).toMatchObject({
      ...{ model: adapted.id, prompt: [3, 4], n: 2, max_tokens: 4, seed: 9, temperature: 1 },
      ...{ top_k: -1, top_p: 1, logprobs: 0, return_token_ids: true },
      // A model's own defaults would change what is drawn.
      ...{ min_p: 0, repetition_penalty: 1, presence_penalty: 0, frequency_penalty: 0 },
    });
    await load(batches, next);
    expect([...adapters.keys()]).toEqual([next.id]);
    expect(await batches.submit({ op: 'sample', ask })).toMatchObject({ checkpoint: next.id });
    expect(batches.status().models).toMatchObject([{ name: 'solver', checkpoint: next.id }]);
  });

  it('an adapter that was played with and is released now stays when the play ends', async () => {
    const { batches, adapters } = await started({ token_ids: 'vllm' });
    await load(batches, adapted);
    await load(batches, next, 'beside');
    await load(batches, next);
    batches.unload('beside');
    expect(await firstToken(batches)).toBe(5);
    expect([...adapters.keys()]).toEqual([next.id]);
  });

  it('a server that was restarted loads again at the next request, an adapter and whole weights', async () => {
    const { batches, adapters, restart } = await started({ token_ids: 'vllm' });
    await load(batches, adapted);
    restart();
    expect(await firstToken(batches)).toBe(5);
    expect([...adapters.keys()]).toEqual([adapted.id]);
    await load(batches, whole);
    restart();
    expect(await firstToken(batches)).toBe(7);
  });

  it('a server that is gone is unreachable, as a process would be: others are asked', async () => {
    const { batches, server } = await started({ token_ids: 'vllm' });
    await load(batches, adapted);
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await expect(batches.submit({ op: 'sample', ask })).rejects.toMatchObject({ code: 'unreachable' });
  });

  it('vLLM with its development interface loads whole weights: it ends what it does, reloads, and is given their version', async () => {
    const { batches, asked } = await started({ token_ids: 'vllm' });
    await load(batches, whole);
    expect(asked.filter(({ path }) => /pause|rpc|version|resume/.test(path))).toEqual([
      { path: '/pause?mode=wait', body: {} },
      { path: '/update_weight_version', body: { new_version: `loading ${whole.dir}` } },
      { path: '/collective_rpc', body: { method: 'reload_weights', kwargs: { weights_path: whole.dir } } },
      { path: '/update_weight_version', body: { new_version: whole.dir } },
      { path: '/resume', body: {} },
    ]);
    expect(await batches.submit({ op: 'sample', ask })).toMatchObject({ checkpoint: whole.id });
    expect(asked.find(({ path }) => path === '/v1/completions')!.body).toMatchObject({ model: 'base' });
  });

  it.each(['vllm', 'sglang'])(
    'of %s, which has one set of whole weights, those of two sides take turns',
    async (token_ids) => {
      const { batches } = await started({ token_ids });
      await load(batches, whole);
      await load(batches, other, 'beside');
      const names = Array.from({ length: 12 }, (_, i) => (i % 3 === 0 ? 'solver' : 'beside'));
      const found = await Promise.all(names.map((name) => firstToken(batches, name)));
      expect(found).toEqual(names.map((name) => (name === 'solver' ? 7 : 8)));
    },
  );

  it('an adapter over other weights than those of the server is not loaded: the whole checkpoint is', async () => {
    const { batches, adapters } = await started({ token_ids: 'vllm' });
    await load(batches, stacked);
    expect([...adapters.keys()]).toEqual([]);
    expect(await firstToken(batches)).toBe(7);
    const without = await started({ token_ids: 'vllm' }, { dev: false });
    await expect(load(without.batches, stacked)).rejects.toThrow(/VLLM_SERVER_DEV_MODE=1/);
  });

  it('vLLM on a processor gets no whole weights of a model whose output matrix is its embeddings, which it does not reload', async () => {
    const one = await saveCheckpoint(root, tinyContents(6, { ...tinyConfig, tie_word_embeddings: true }));
    const { batches, asked } = await started({ token_ids: 'vllm' }, { device: 'cpu' });
    await expect(load(batches, one)).rejects.toThrow(/would answer by a mixture/);
    expect(paths(asked)).not.toContain('/collective_rpc');
    await load(batches, whole);
    await load((await started({ token_ids: 'vllm' })).batches, one);
  });

  it('a server of two policies, and one whose models are declared checkpoints, get adapters only', async () => {
    const { batches } = await started({ token_ids: 'vllm', policies: ['solver', 'critic'] });
    await load(batches, adapted);
    await expect(load(batches, whole)).rejects.toThrow(/policies names solver and critic/);
    const fixed = await started({ token_ids: 'vllm', policies: ['solver'], checkpoints: { base: 'c-7' } });
    await expect(load(fixed.batches, whole)).rejects.toThrow(/checkpoints says which checkpoint/);
  });

  it('SGLang loads whole weights from their directory, and says where it has them from', async () => {
    const { batches, asked } = await started({ token_ids: 'sglang' });
    await load(batches, whole);
    expect(asked).toContainEqual({ path: '/update_weights_from_disk', body: { model_path: whole.dir } });
    expect(await batches.submit({ op: 'sample', ask: { ...ask, n: 1 } })).toMatchObject({
      checkpoint: whole.id,
      choices: [{ token_ids: [7, 1], logprobs: [-2, -1], finish_reason: 'length' }],
    });
  });

  it('SGLang is given another seed for each sample of a group, since one for all would draw one answer', async () => {
    const { batches, asked } = await started({ token_ids: 'sglang' });
    await load(batches, whole);
    const answer = await batches.submit({ op: 'sample', ask: { ...ask, n: 3, seed: 7 } });
    const { body } = asked.find(({ path }) => path === '/generate')!;
    const params = body.sampling_params as { readonly n?: number; readonly sampling_seed: number }[];
    expect(answer).toMatchObject({ choices: [{}, {}, {}] });
    expect(body.input_ids).toHaveLength(3);
    expect(new Set(params.map(({ sampling_seed: seed }) => seed)).size).toBe(3);
    expect(params.every(({ n }) => n === undefined)).toBe(true);
  });

  it('refuses log-probabilities that are not those of the draw, with what to do', async () => {
    const { batches } = await started({ token_ids: 'vllm' });
    await load(batches, adapted);
    const warm = { ...ask, temperature: 0.7 };
    await expect(batches.submit({ op: 'sample', ask: warm })).rejects.toThrow(/logprobs: processed/);
    const processed = await started({ token_ids: 'vllm', logprobs: 'processed' });
    await load(processed.batches, adapted);
    expect(await processed.batches.submit({ op: 'sample', ask: warm })).toMatchObject({ checkpoint: adapted.id });
    expect(() => outsidePolicies(readUpstreams({ gpu: { base_url: 'http://127.0.0.1:1/v1' } }, {})[0]!)).toThrow(
      /whether the server is vllm or sglang/,
    );
  });
});
