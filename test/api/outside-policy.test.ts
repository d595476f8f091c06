import { mkdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { outsidePolicies } from '../../api/upstream/outside-policy.ts';
import { readUpstreams } from '../../api/upstream/settings.ts';
import { type SavedCheckpoint, saveCheckpoint } from '../../trainer/checkpoints/checkpoint.ts';
import { type Batches, startBatches } from '../../trainer/sampling/infer-batches.ts';
import { tinyContents } from '../trainer/tiny-checkpoint.ts';

type Fields = Record<string, unknown>;

/** A server that is told what to load as vLLM and SGLang are, answers after a while, and says the number of the weights and of the sample. */
function scripted() {
  const loaded = new Map<string, string>();
  const asked: { readonly path: string; readonly body: Fields }[] = [];
  let weights = '/models/base';
  let unhealthy = 0;
  const done = { status: 200, value: { success: true } };
  const answers: Readonly<Record<string, (body: Fields) => { status: number; value: unknown }>> = {
    '/v1/load_lora_adapter': ({ lora_name, lora_path }) => {
      loaded.set(String(lora_name), String(lora_path));
      unhealthy = 2;
      return done;
    },
    '/v1/unload_lora_adapter': ({ lora_name }) => {
      loaded.delete(String(lora_name));
      return done;
    },
    '/update_weights_from_disk': ({ model_path }) => {
      weights = String(model_path);
      unhealthy = 2;
      return done;
    },
    '/health': () => (unhealthy-- > 0 ? { status: 503, value: {} } : { status: 200, value: {} }),
    '/get_model_info': () => ({ status: 200, value: { model_path: weights } }),
    '/v1/models': () => ({
      status: 200,
      value: { data: [{ id: 'base', root: '/models/base' }, ...[...loaded].map(([id, root]) => ({ id, root }))] },
    }),
    '/v1/completions': ({ model, n }) => {
      const place = [...loaded.keys()].indexOf(String(model));
      if (place < 0) return { status: 404, value: { error: { message: `The model ${model} does not exist.` } } };
      const choices = Array.from({ length: Number(n) }, (_, i) => ({
        ...{ index: i, text: '', finish_reason: 'stop', token_ids: [5 + i, 1] },
        logprobs: { token_logprobs: [-0.5, -0.25] },
      }));
      return { status: 200, value: { choices } };
    },
    '/generate': () => ({
      status: 200,
      value: [
        {
          ...{ text: '', output_ids: [7, 1] },
          meta_info: {
            finish_reason: { type: 'length' },
            output_token_logprobs: [
              [-2, 7, null],
              [-1, 1, null],
            ],
          },
        },
      ],
    }),
  };
  const server: Server = createServer(async (request, response) => {
    const body = request.method === 'POST' ? ((await json(request)) as Fields) : {};
    asked.push({ path: request.url!, body });
    const { status, value } = answers[request.url!]?.(body) ?? { status: 404, value: {} };
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  });
  return { server, asked, loaded, restart: () => loaded.clear() };
}

describe('A policy that a model server outside of Troupe serves', () => {
  let root: string;
  let adapted: SavedCheckpoint;
  let next: SavedCheckpoint;
  let whole: SavedCheckpoint;
  const ends: (() => unknown)[] = [];
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'troupe-outside-'));
    [adapted, next, whole] = [
      await saveCheckpoint(root, tinyContents(1), { durable: false }),
      await saveCheckpoint(root, tinyContents(2), { durable: false }),
      await saveCheckpoint(root, tinyContents(3), { durable: false }),
    ];
    for (const { dir } of [adapted, next]) mkdirSync(`${dir}-adapter`);
  });
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end();
  });
  afterAll(() => rm(root, { recursive: true, force: true }));

  const started = async (settings: Fields): Promise<ReturnType<typeof scripted> & { readonly batches: Batches }> => {
    const outside = scripted();
    await new Promise<void>((resolve) => outside.server.listen(0, '127.0.0.1', resolve));
    const { port } = outside.server.address() as AddressInfo;
    const [upstream] = readUpstreams({ gpu: { base_url: `http://127.0.0.1:${port}/v1`, ...settings } }, {});
    const batches = startBatches({ threads: 1 }, outsidePolicies(upstream!));
    ends.push(
      () => new Promise((resolve) => outside.server.close(resolve)),
      () => batches.close(),
    );
    return { ...outside, batches };
  };
  const load = (batches: Batches, { dir }: SavedCheckpoint) =>
    batches.submit({ op: 'load', ask: { dir, name: 'solver' } });
  const ask = { model: 'solver', prompt_ids: [3, 4], n: 2, max_tokens: 4, temperature: 1, seed: 9 };
  const paths = (asked: readonly { readonly path: string }[]) => asked.map(({ path }) => path);

  it('vLLM is told of each release: it loads the adapter, is waited for, asked what it serves, and gives up the one before', async () => {
    const { batches, asked, loaded } = await started({ token_ids: 'vllm' });
    await load(batches, adapted);
    expect(paths(asked)).toEqual([
      '/v1/models',
      '/v1/load_lora_adapter',
      ...['/health', '/health', '/health'],
      '/v1/models',
    ]);
    expect([...loaded]).toEqual([[adapted.id, `${adapted.dir}-adapter`]]);
    expect(await batches.submit({ op: 'sample', ask })).toMatchObject({
      checkpoint: adapted.id,
      prompt_token_ids: [3, 4],
      choices: [
        { token_ids: [5, 1], logprobs: [-0.5, -0.25], finish_reason: 'stop' },
        { token_ids: [6, 1], logprobs: [-0.5, -0.25] },
      ],
    });
    expect(asked.at(-1)!.body).toMatchObject({
      ...{ model: adapted.id, prompt: [3, 4], n: 2, max_tokens: 4, seed: 9, temperature: 1 },
      ...{ top_k: -1, top_p: 1, logprobs: 0, return_token_ids: true },
    });
    await load(batches, next);
    expect([...loaded.keys()]).toEqual([next.id]);
    expect(await batches.submit({ op: 'sample', ask })).toMatchObject({ checkpoint: next.id });
    expect(batches.status().models).toMatchObject([{ name: 'solver', checkpoint: next.id }]);
  });

  it('a server that was restarted is told again at the next request', async () => {
    const { batches, loaded, restart } = await started({ token_ids: 'vllm' });
    await load(batches, adapted);
    restart();
    expect(await batches.submit({ op: 'sample', ask })).toMatchObject({ checkpoint: adapted.id });
    expect([...loaded.keys()]).toEqual([adapted.id]);
  });

  it('SGLang loads whole weights from their directory, and says where it has them from', async () => {
    const { batches, asked } = await started({ token_ids: 'sglang' });
    await load(batches, whole);
    expect(asked).toContainEqual({ path: '/update_weights_from_disk', body: { model_path: whole.dir } });
    expect(paths(asked).at(-1)).toBe('/get_model_info');
    expect(await batches.submit({ op: 'sample', ask: { ...ask, n: 1 } })).toMatchObject({
      checkpoint: whole.id,
      choices: [{ token_ids: [7, 1], logprobs: [-2, -1], finish_reason: 'length' }],
    });
  });

  it('refuses whole weights for vLLM, and log-probabilities that are not those of the draw, with what to do', async () => {
    const { batches } = await started({ token_ids: 'vllm' });
    await expect(load(batches, whole)).rejects.toThrow(/has none beside it/);
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
