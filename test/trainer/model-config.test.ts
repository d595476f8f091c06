import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { modelConfigJson, readModelConfig } from '../../trainer/model/model-config.ts';
import { parameterShapes } from '../../trainer/model/parameters.ts';
import type { ModelConfig } from '../../trainer/model/weights.ts';
import { randomConfig } from './random-model.ts';
import { TINY } from './tiny-model.ts';

const written = modelConfigJson(TINY);
const qwen2 = modelConfigJson({ ...TINY, model_type: 'qwen2' });
const qwen3 = modelConfigJson({ ...TINY, model_type: 'qwen3' });
const refusal = (text: string) =>
  expect.objectContaining({ code: 'model_unsupported', message: expect.stringContaining(`config.json: ${text}`) });

describe('config.json', () => {
  it.each(['llama', 'qwen2', 'qwen3'] as const)('of the family %s is read back as it was written', (type) => {
    const anyHead = fc.constantFrom(undefined, 'value' as const, 'reward' as const);
    fc.assert(
      fc.property(randomConfig(type), anyHead, (made, head) => {
        const config: ModelConfig = head === undefined ? made : { ...made, head };
        const json = JSON.parse(JSON.stringify(modelConfigJson(config)));
        expect(readModelConfig(json)).toEqual(config);
        expect(modelConfigJson(readModelConfig(json))).toEqual(json);
      }),
    );
  });

  it('carries the fields that change nothing, as they were', () => {
    const more = {
      transformers_version: '5.1.0',
      max_window_layers: 28,
      initializer_range: 0.041,
      attention_dropout: 0.1,
      pretraining_tp: 1,
      own: { a: [1, null] },
      eos_token_id: [5, 7],
    };
    const config = readModelConfig({ ...qwen2, ...more });
    expect(modelConfigJson(config)).toEqual({ ...qwen2, ...more });
    expect(config.eos_token_id).toEqual([5, 7]);
  });

  it('does not carry how the weights were stored, for they are written anew', () => {
    const json = modelConfigJson(readModelConfig({ ...written, dtype: 'bfloat16', torch_dtype: 'bfloat16' }));
    expect(json).toMatchObject({ torch_dtype: 'float32' });
    expect(json).not.toHaveProperty('dtype');
  });

  it('names the classes of transformers', () => {
    const classOf = (config: ModelConfig): unknown => (modelConfigJson(config).architectures as string[])[0];
    expect(classOf(TINY)).toBe('LlamaForCausalLM');
    expect(classOf({ ...TINY, model_type: 'qwen2', head: 'value' })).toBe('Qwen2ForTokenClassification');
    expect(classOf({ ...TINY, model_type: 'qwen3', head: 'reward' })).toBe('Qwen3ForSequenceClassification');
    expect(modelConfigJson({ ...TINY, head: 'reward' })).toMatchObject({ id2label: { 0: 'LABEL_0' } });
  });

  it('says the same in its older and its newer spelling of rotary positions', () => {
    const { rope_theta: _, rope_scaling: __, ...rest } = written;
    const llama3 = {
      factor: 32,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 8192,
      rope_type: 'llama3',
    };
    const older = readModelConfig({ ...rest, rope_theta: 500000, rope_scaling: llama3 });
    expect(older).toEqual({ ...TINY, rope_theta: 500000, rope_scaling: llama3 });
    expect(readModelConfig({ ...rest, rope_parameters: { ...llama3, rope_theta: 500000 } })).toEqual(older);
    expect(readModelConfig({ ...rest, rope_scaling: { type: 'linear', factor: 2 } })).toEqual({
      ...TINY,
      rope_scaling: { rope_type: 'linear', factor: 2 },
    });
    expect(readModelConfig({ ...rest, rope_parameters: { rope_type: 'default', rope_theta: 7 } })).toEqual({
      ...TINY,
      rope_theta: 7,
    });
  });

  it('takes the length first trained on from beside the scaling, from within, or from the longest position', () => {
    const yarn = { rope_type: 'yarn', factor: 4 };
    const length = (fields: object): unknown =>
      (readModelConfig({ ...written, ...fields }).rope_scaling as { original_max_position_embeddings: number })
        .original_max_position_embeddings;
    expect(length({ rope_scaling: yarn })).toBe(128);
    expect(length({ rope_scaling: { ...yarn, original_max_position_embeddings: 32 } })).toBe(32);
    expect(
      length({ rope_scaling: { ...yarn, original_max_position_embeddings: 32 }, original_max_position_embeddings: 16 }),
    ).toBe(16);
  });

  it('takes the width of a head from its family where it names none', () => {
    const without = (json: object): ModelConfig => readModelConfig({ ...json, head_dim: null });
    expect(without(written).head_dim).toBeUndefined();
    expect(without(qwen2).head_dim).toBeUndefined();
    expect(without(qwen3).head_dim).toBe(128);
  });

  it('reads a sliding window that no layer has, and refuses one that a layer has', () => {
    const window = { use_sliding_window: true, sliding_window: 16 };
    expect(readModelConfig({ ...qwen2, ...window, max_window_layers: 2 }).num_hidden_layers).toBe(2);
    expect(() => readModelConfig({ ...qwen2, ...window, max_window_layers: 1 })).toThrow(refusal('use_sliding_window'));
    const types = { layer_types: ['full_attention', 'sliding_attention'] };
    expect(() => readModelConfig({ ...qwen3, ...types })).toThrow(refusal('layer_types'));
    expect(readModelConfig({ ...written, ...window, max_window_layers: 0 }).model_type).toBe('llama');
  });

  it.each([
    ['model_type', 'gpt2'],
    ['model_type', 'constructor'],
    ['model_type', ['llama']],
    ['architectures', ['LlamaForQuestionAnswering']],
    ['architectures', 'LlamaForCausalLM'],
    ['hidden_act', 'gelu'],
    ['partial_rotary_factor', 0.5],
    ['is_causal', false],
    ['layer_types', ['full_attention', 'sliding_attention']],
    ['quantization_config', { quant_method: 'gptq' }],
    ['auto_map', { AutoModel: 'modeling.Own' }],
    ['attention_bias', 'yes'],
    ['tie_word_embeddings', 1],
    ['head_dim', 7],
    ['head_dim', 1e9],
    ['hidden_size', 33],
    ['hidden_size', 2 ** 40],
    ['num_hidden_layers', 0],
    ['num_hidden_layers', 1e9],
    ['num_key_value_heads', 3],
    ['intermediate_size', 1.5],
    ['vocab_size', undefined],
    ['vocab_size', 1e300],
    ['vocab_size', '32000'],
    ['rms_norm_eps', '1e-5'],
    ['rms_norm_eps', Number.NaN],
    ['rope_theta', -1],
    ['rope_theta', Number.POSITIVE_INFINITY],
    ['eos_token_id', 'end'],
    ['rope_scaling', 'linear'],
  ])('P52: is refused by name where %s is %j', (field, value) => {
    expect(() => readModelConfig({ ...written, [field]: value })).toThrow(refusal(`${field} must be`));
  });

  it.each([
    ['rope_type', { rope_type: 'longrope', factor: 2 }],
    ['factor', { rope_type: 'linear', factor: '2' }],
    ['factor', { rope_type: 'dynamic' }],
    ['low_freq_factor', { rope_type: 'llama3', factor: 8, high_freq_factor: 4 }],
    ['high_freq_factor', { rope_type: 'llama3', factor: 8, low_freq_factor: 4, high_freq_factor: 4 }],
    ['original_max_position_embeddings', { rope_type: 'yarn', factor: 4, original_max_position_embeddings: 0 }],
    ['attention_factor', { rope_type: 'yarn', factor: 4, attention_factor: 'much' }],
    ['truncate', { rope_type: 'yarn', factor: 4, truncate: 'no' }],
    ['partial_rotary_factor', { rope_type: 'default', partial_rotary_factor: 0.25 }],
    ['full_attention', { full_attention: { rope_type: 'default' } }],
  ])('P52: is refused by name where %s of its rotary scaling is that of %j', (field, scaling) => {
    for (const name of ['rope_scaling', 'rope_parameters']) {
      const json = { ...written, rope_scaling: null, [name]: scaling };
      expect(() => readModelConfig(json)).toThrow(refusal(`${name}.${field} must be`));
    }
  });

  it('P52: is refused where a classifier has more labels than one', () => {
    const reward = { ...modelConfigJson({ ...TINY, head: 'reward' }) };
    expect(() => readModelConfig({ ...reward, id2label: { 0: 'bad', 1: 'good' } })).toThrow(refusal('id2label'));
    expect(() => readModelConfig({ ...reward, id2label: null })).toThrow(refusal('id2label'));
    const named = readModelConfig({ ...reward, id2label: { 0: 'reward' } });
    expect(modelConfigJson(named).id2label).toEqual({ 0: 'reward' });
  });

  it('P52: any JSON is a configuration whose parameters can be listed, or refused as unsupported', () => {
    const keys = Object.keys({ ...written, rope_parameters: 0, layer_types: 0, use_sliding_window: 0, id2label: 0 });
    const change = fc.dictionary(fc.constantFrom(...keys), fc.jsonValue({ maxDepth: 2 }));
    const base = fc.constantFrom(written, qwen2, qwen3, {}, modelConfigJson({ ...TINY, head: 'value' }));
    fc.assert(
      fc.property(
        fc.oneof(
          fc.tuple(base, change).map(([a, b]) => ({ ...a, ...b })),
          fc.jsonValue(),
        ),
        (json) => {
          try {
            const config = readModelConfig(json);
            expect(parameterShapes(config).length).toBeGreaterThan(0);
            expect(modelConfigJson(config)).toBeTypeOf('object');
          } catch (error) {
            expect(error).toMatchObject({ code: 'model_unsupported' });
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});
