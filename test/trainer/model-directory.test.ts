import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadCheckpoint, saveCheckpoint } from '../../trainer/model/checkpoints/checkpoint.ts';
import { encodeSafetensors } from '../../trainer/model/files/safetensors.ts';
import { modelConfigJson, readModelConfig } from '../../trainer/model/model-config.ts';
import { newModelDirectory, openModel } from '../../trainer/model/model-directory.ts';
import { initialWeights } from '../../trainer/model/parameters.ts';
import { wordTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import type { Weights } from '../../trainer/model/weights.ts';
import { tinyConfig, tinyContents, tinyTemplate, tinyTokenizer } from './tiny-checkpoint.ts';

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'troupe-model-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

let count = 0;
const fresh = (): string => join(root, String(count++));
const model = { config: tinyConfig, tokenizer: tinyTokenizer, chatTemplate: tinyTemplate, seed: 5 };

/** A directory that vouches for nothing, as other programs write it, with the given files in place of its own. */
async function plain(replaced: Record<string, string | Uint8Array | null> = {}): Promise<string> {
  const dir = fresh();
  await newModelDirectory(dir, model);
  await rm(join(dir, 'troupe.json'));
  for (const [name, content] of Object.entries(replaced)) {
    if (content === null) await rm(join(dir, name));
    else await writeFile(join(dir, name), content);
  }
  return dir;
}

describe('a new model', () => {
  it('is a checkpoint without parent whose weights follow from its seed', async () => {
    const [one, same, other] = await Promise.all([
      newModelDirectory(fresh(), model),
      newModelDirectory(fresh(), model),
      newModelDirectory(fresh(), { ...model, seed: 6 }),
    ]);
    expect([same.id === one.id, other.id === one.id]).toEqual([true, false]);
    expect((await loadCheckpoint(one.dir)).meta).toMatchObject({ parent: null, step: 0, seed: 5 });
    const { weights, template, tokenizer, eosIds } = await openModel(one.dir);
    expect(weights).toEqual(initialWeights(tinyConfig, 5));
    expect(tokenizer.decode(template!.promptIds([{ role: 'user', content: 'one' }]))).toBe(
      '<bos> user one <end> assistant',
    );
    expect(eosIds).toEqual([1]);
  });

  it('is not left behind where it could not be loaded, and takes no place that is taken', async () => {
    const dir = fresh();
    const large = wordTokenizer(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n'], []);
    await expect(newModelDirectory(dir, { ...model, tokenizer: large })).rejects.toMatchObject({ code: 'usage' });
    await expect(newModelDirectory(dir, { ...model, chatTemplate: '{% if %}' })).rejects.toMatchObject({
      code: 'model_unsupported',
    });
    await expect(readdir(dir)).rejects.toMatchObject({ code: 'ENOENT' });
    await newModelDirectory(dir, model);
    await expect(newModelDirectory(dir, { ...model, seed: 6 })).rejects.toMatchObject({ code: 'conflict' });
  });

  it('keeps tokenizer and template, byte for byte, through training', async () => {
    const made = await newModelDirectory(fresh(), model);
    const opened = await openModel(made.dir);
    const trained = await saveCheckpoint(fresh(), {
      ...opened,
      optimizer: null,
      state: { row: 3 },
      meta: { ...opened.meta, parent: made.id, step: 1 },
    });
    for (const name of ['tokenizer.json', 'tokenizer_config.json', 'config.json', 'model.safetensors']) {
      expect(await readFile(join(trained.dir, name))).toEqual(await readFile(join(made.dir, name)));
    }
    expect(await openModel(trained.dir, opened)).toMatchObject({ tokenizer: opened.tokenizer, id: trained.id });
  });
});

describe('a model directory of another program', () => {
  it('is opened as it is, whatever lies beside the model', async () => {
    const dir = await plain({ 'README.md': 'x', 'training_args.bin': 'x' });
    await mkdir(join(dir, '.cache'));
    const opened = await openModel(dir);
    expect(opened.weights).toEqual(initialWeights(tinyConfig, 5));
    expect(opened.id).toMatch(/^[0-9a-f]{16}$/);
    await writeFile(join(dir, 'chat_template.jinja'), 'only {{ messages[0].content }}');
    const changed = await openModel(dir);
    expect(changed.id).not.toBe(opened.id);
    expect(changed.template!.render([{ role: 'user', content: 'two' }])).toBe('only two');
  });

  it('is opened in shards', async () => {
    const all = [...initialWeights(tinyConfig, 5)];
    const half = (part: typeof all): Uint8Array => encodeSafetensors(new Map(part));
    const [a, b] = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'];
    const weight_map = Object.fromEntries(all.map(([name], i) => [name, i < 9 ? a : b]));
    const shards = { [a!]: half(all.slice(0, 9)), [b!]: half(all.slice(9)), 'model.safetensors': null };
    const index = (map: object): string => JSON.stringify({ metadata: {}, weight_map: map });
    const dir = await plain({ ...shards, 'model.safetensors.index.json': index(weight_map) });
    expect((await openModel(dir)).weights).toEqual(new Map(all));
    await writeFile(join(dir, 'model.safetensors.index.json'), index({ ...weight_map, x: '../x.safetensors' }));
    await expect(openModel(dir)).rejects.toThrow(/names "..\/x.safetensors", which is not there/);
  });

  it.each(['F16', 'BF16'] as const)('is opened as it is where its weights are stored in %s', async (dtype) => {
    const weights = initialWeights(tinyConfig, 5);
    const dir = await plain({ 'model.safetensors': encodeSafetensors(weights, { dtype }) });
    for (const [name, { shape, data }] of (await openModel(dir)).weights) {
      const exact = weights.get(name)!;
      expect(shape).toEqual(exact.shape);
      // 8 bits of fraction are the fewer of the two; below 2^-14 F16 has steps of 2^-24.
      const near = data.every((x, i) => Math.abs(x - exact.data[i]!) <= Math.max(Math.abs(x) / 256, 2 ** -24));
      expect(near, name).toBe(true);
    }
  });

  it.each([
    { model_type: 'qwen2', tie_word_embeddings: true },
    { model_type: 'qwen3', head_dim: 8, head: 'value', extra: { max_window_layers: 28 } },
    { model_type: 'llama', attention_bias: true, mlp_bias: true, head: 'reward', eos_token_id: [1, 4] },
  ] as const)('is opened as what it is and saved as that again: %j', async (differs) => {
    const config = { ...tinyConfig, ...differs };
    const weights = initialWeights(config, 5);
    const made = await newModelDirectory(fresh(), { ...model, config, weights });
    const opened = await openModel(made.dir);
    expect(opened.config).toEqual(config);
    expect(opened.weights).toEqual(weights);
    const again = await saveCheckpoint(fresh(), opened);
    expect(again.id).toBe(made.id);
  });

  it('P52: is refused where its weights could run code, and says what to do', async () => {
    const pickle = Buffer.from('\x80\x04\x95 pickled', 'latin1');
    const dir = await plain({ 'model.safetensors': null, 'pytorch_model.bin': pickle });
    await expect(openModel(dir)).rejects.toThrow(/no model.safetensors; pytorch_model.bin is a pickle .* can run code/);
    const disguised = await plain({ 'model.safetensors': Buffer.from('\x80\x04\x95 pickled, whatever its name says') });
    await expect(openModel(disguised)).rejects.toMatchObject({ code: 'checkpoint_damaged' });
  });

  it('is refused where its weights are not those its configuration describes', async () => {
    const change = async (edit: (weights: Map<string, never>) => void): Promise<string> => {
      const weights = new Map(initialWeights(tinyConfig, 5)) as unknown as Map<string, never>;
      edit(weights);
      return plain({ 'model.safetensors': encodeSafetensors(weights as unknown as Weights) });
    };
    const odd = { shape: [1], data: Float32Array.of(1) } as never;
    const missing = change((weights) => void weights.delete('model.norm.weight'));
    const extra = change((weights) => void weights.set('score.weight', odd));
    const misshapen = change((weights) => void weights.set('model.norm.weight', odd));
    const spare = change((weights) => void weights.set('model.layers.0.self_attn.rotary_emb.inv_freq', odd));
    await expect(openModel(await missing)).rejects.toThrow(
      /model.norm.weight must be \[16\] by its config.json, it is missing/,
    );
    await expect(openModel(await extra)).rejects.toThrow(/"score.weight" has no place/);
    await expect(openModel(await misshapen)).rejects.toThrow(/it is \[1\]/);
    expect((await openModel(await spare)).weights.size).toBe(initialWeights(tinyConfig, 5).size);
  });

  it('is refused where it is none, or lacks its tokenizer', async () => {
    await expect(openModel(join(root, 'nowhere'))).rejects.toMatchObject({ code: 'not_found' });
    await expect(openModel(await plain({ 'config.json': null }))).rejects.toMatchObject({ code: 'not_found' });
    await expect(openModel(await plain({ 'config.json': '{' }))).rejects.toThrow(/config.json is not JSON/);
    await expect(openModel(await plain({ 'tokenizer.json': null }))).rejects.toThrow(/no tokenizer.json/);
  });
});

describe('config.json', () => {
  it('is read back as it was written', () => {
    expect(readModelConfig(modelConfigJson(tinyConfig))).toEqual(tinyConfig);
    expect(readModelConfig(tinyContents(1).config)).toEqual(tinyConfig);
  });
});
