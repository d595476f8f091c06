import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { adapterFiles, openAdapter, readAdapter } from '../../trainer/model/adapter-directory.ts';
import { decodeSafetensors, encodeSafetensors } from '../../trainer/model/files/safetensors.ts';
import { type Adapter, checkAdapter, initialAdapter } from '../../trainer/model/lora.ts';
import type { Weights } from '../../trainer/model/weights.ts';
import { GROUPED } from './tiny-model.ts';

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'troupe-adapter-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

const adapter: Adapter = {
  r: 2,
  alpha: 8,
  targets: ['q_proj', 'mlp.up_proj'],
  useRslora: true,
  rankPattern: { 'layers.1.mlp.up_proj': 3 },
};
const weights = initialAdapter(GROUPED, adapter, 1);
const files = adapterFiles(adapter, weights, { baseModel: 'some/base' });
const json = (): Record<string, unknown> => JSON.parse(new TextDecoder().decode(files.get('adapter_config.json')));

/** Reads the adapter with other fields, and other tensors where they are given. */
const read = (fields: Record<string, unknown>, tensors?: Weights) =>
  readAdapter(
    new Map([
      ['adapter_config.json', new TextEncoder().encode(JSON.stringify({ ...json(), ...fields }))],
      ['adapter_model.safetensors', tensors ? encodeSafetensors(tensors) : files.get('adapter_model.safetensors')!],
    ]),
  );

describe("an adapter's directory", () => {
  it('is read back as it was written', () => {
    expect(readAdapter(files)).toEqual({ adapter, weights, baseModel: 'some/base' });
    const plain: Adapter = { r: 1, alpha: 2, targets: ['v_proj'] };
    const made = initialAdapter(GROUPED, plain, 2);
    expect(readAdapter(adapterFiles(plain, made, { baseModel: null }))).toEqual({
      adapter: plain,
      weights: made,
      baseModel: null,
    });
  });

  it("has PEFT's names", () => {
    const names = [...decodeSafetensors(files.get('adapter_model.safetensors')!).tensors.keys()];
    expect(names[0]).toBe('base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight');
    expect(json()).toMatchObject({
      peft_type: 'LORA',
      task_type: 'CAUSAL_LM',
      r: 2,
      lora_alpha: 8,
      target_modules: ['q_proj', 'mlp.up_proj'],
    });
    const value = adapterFiles(adapter, weights, { baseModel: null, head: 'value' });
    expect(new TextDecoder().decode(value.get('adapter_config.json'))).toContain('"TOKEN_CLS"');
  });

  it('names the modules that have matrices where it chose them by a pattern or by layers', () => {
    const all = [...new Set([...weights.keys()].map((name) => name.replace(/\.lora_.*/, '')))];
    for (const fields of [
      { target_modules: '.*(q|up)_proj' },
      { target_modules: 'all-linear' },
      // Run as an expression it would not come back.
      { target_modules: '(.+)+(.+)+(.+)+(.+)+(.+)+x' },
      { layers_to_transform: [0, 1, 2] },
    ]) {
      const { adapter: found } = read(fields);
      expect(found.targets).toEqual(all);
      expect(() => checkAdapter(GROUPED, found, weights)).not.toThrow();
    }
  });

  it.each([
    ['peft_type', 'IA3'],
    ['bias', 'all'],
    ['use_dora', true],
    ['modules_to_save', ['score']],
    ['fan_in_fan_out', true],
    ['lora_bias', true],
    ['layer_replication', [[0, 2]]],
    ['trainable_token_indices', [1]],
    ['init_lora_weights', 'pissa'],
    ['something_new', { on: 1 }],
    ['r', 'many'],
    ['lora_alpha', null],
    ['rank_pattern', { '(a+)+$': 2 }],
    ['alpha_pattern', { q_proj: 'x' }],
    ['target_modules', [1]],
    ['target_modules', ['q_proj']],
  ])('is refused by name where %s is %j', (field, value) => {
    expect(() => read({ [field]: value })).toThrow(
      expect.objectContaining({ code: 'model_unsupported', message: expect.stringContaining(field) }),
    );
  });

  it('is read whatever it says of dropout, of how it was made and of its version', () => {
    const fields = {
      lora_dropout: 0.1,
      peft_version: '9',
      init_lora_weights: 'gaussian',
      loftq_config: {},
      revision: 'x',
    };
    expect(read(fields).adapter).toEqual(adapter);
  });

  it('P52: is refused where a tensor is none of its matrices, or where it is pickled', async () => {
    const one = { shape: [1, 1], data: Float32Array.of(1) };
    const named = (name: string): Weights => new Map([[name, one]]);
    for (const name of ['base_model.model.lm_head.weight', 'model.layers.0.self_attn.q_proj.lora_A.weight']) {
      expect(() => read({}, named(name))).toThrow(expect.objectContaining({ message: expect.stringContaining(name) }));
    }
    expect(() => read({}, new Map())).toThrow(/target_modules/);
    await writeFile(join(root, 'adapter_config.json'), JSON.stringify(json()));
    await writeFile(join(root, 'adapter_model.bin'), 'x');
    await expect(openAdapter(root)).rejects.toThrow(/adapter_model.bin can run code/);
    await writeFile(join(root, 'adapter_model.safetensors'), files.get('adapter_model.safetensors')!);
    expect(await openAdapter(root)).toEqual(readAdapter(files));
    await writeFile(join(root, 'adapter_config.json'), '{');
    await expect(openAdapter(root)).rejects.toThrow(/adapter_config.json is not JSON/);
    await expect(openAdapter(join(root, 'none'))).rejects.toMatchObject({ code: 'not_found' });
  });

  it('is not written with a number that is not finite', () => {
    const bad = new Map(weights).set('a.lora_A.weight', { shape: [1, 1], data: Float32Array.of(Number.NaN) });
    expect(() => adapterFiles(adapter, bad, { baseModel: null })).toThrow(
      expect.objectContaining({ code: 'training_failed' }),
    );
  });
});
