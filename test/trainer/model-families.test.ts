import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { attentionWidth, FAMILIES } from '../../trainer/model/families.ts';
import { initialWeights, parameterShapes, withScoreHead } from '../../trainer/model/parameters.ts';
import { rotaryTable } from '../../trainer/model/positions.ts';
import { rotaryFrequencies } from '../../trainer/model/rotary-frequencies.ts';
import type { ModelConfig } from '../../trainer/model/weights.ts';
import { Policy } from '../../trainer/sample/policy.ts';
import { oneSequence } from './one-sequence.ts';
import { plainLlama, plainValues } from './plain-llama.ts';
import { randomConfig, randomIds, randomWeights } from './random-model.ts';
import { GROUPED, TINY } from './tiny-model.ts';

const types = Object.keys(FAMILIES) as ModelConfig['model_type'][];
const farthest = (a: readonly number[], b: readonly number[]): number => {
  expect(a).toHaveLength(b.length);
  return Math.max(...a.map((x, i) => Math.abs(x - b[i]!)));
};
const plainLogprobs = (config: ModelConfig, weights: ReturnType<typeof randomWeights>, ids: number[]): number[] =>
  plainLlama(config, weights, ids.slice(0, -1)).map((p, t) => p[ids[t + 1]!]!);

describe.each(types)('a decoder of the family %s', (type) => {
  it('gives the log-probabilities of plain loops in double precision, whatever its shape, biases and rotary scaling', async () => {
    await fc.assert(
      fc.asyncProperty(randomConfig(type), fc.integer({ min: 0, max: 1e6 }), async (config, seed) => {
        const weights = randomWeights(config, seed);
        const ids = randomIds(config, seed + 1);
        const { numbers } = await oneSequence(config, weights, ids);
        expect(farthest(numbers, plainLogprobs(config, weights, ids))).toBeLessThan(1e-4);
      }),
      { numRuns: 30 },
    );
  });

  it('gives values and rewards by a score of its own', async () => {
    await fc.assert(
      fc.asyncProperty(randomConfig(type), fc.constantFrom('value', 'reward'), async (speaking, kind) => {
        const config: ModelConfig = { ...speaking, head: kind as 'value' | 'reward' };
        const weights = randomWeights(config, 3);
        const ids = randomIds(config, 4);
        const { numbers } = await oneSequence(config, weights, ids);
        expect(farthest(numbers, plainValues(config, weights, ids))).toBeLessThan(1e-4);
      }),
      { numRuns: 10 },
    );
  });

  it('samples and scores with shared prompts and a cache as without', async () => {
    const config: ModelConfig = {
      ...GROUPED,
      model_type: type,
      head_dim: 6,
      num_hidden_layers: 2,
      rope_scaling: { rope_type: 'yarn', factor: 4, original_max_position_embeddings: 16 },
    };
    expect(attentionWidth(config)).not.toBe(config.hidden_size);
    const weights = randomWeights(config, 8);
    const policy = await Policy.load(config, weights);
    const [long, short] = [randomIds(config, 9, 9), randomIds(config, 10, 2)];
    const ask = { n: 2, maxTokens: 6, temperature: 1, seed: 5, stopIds: [] };
    const samples = await policy.sample([
      { ...ask, promptIds: long },
      { ...ask, promptIds: short },
    ]);
    for (const [i, promptIds] of [long, short].entries()) {
      const rows = samples[i]!.map(({ tokenIds }) => ({ promptIds, tokenIds }));
      const scored = await policy.logprobs(rows);
      for (const [k, { tokenIds, logprobs }] of samples[i]!.entries()) {
        const expected = plainLogprobs(config, weights, [...promptIds, ...tokenIds]).slice(promptIds.length - 1);
        expect(farthest(logprobs, expected)).toBeLessThan(1e-4);
        expect(farthest(scored[k]!, expected)).toBeLessThan(1e-4);
      }
    }
    await policy.close();
  });

  it('has a gradient for every parameter, as finite differences say', async () => {
    const [config] = fc.sample(randomConfig(type), { seed: 11, numRuns: 1 }) as [ModelConfig];
    const weights = randomWeights(config, 1);
    const ids = randomIds(config, 2, 8);
    const lossWeights = ids.slice(1).map((_, i) => Math.cos(i));
    const { slopes } = await oneSequence(config, weights, ids, { lossWeights });
    expect([...slopes.keys()]).toEqual([...weights.keys()]);
    for (const [name, slope] of slopes) {
      const at = slope.reduce((best, x, i) => (Math.abs(x) > Math.abs(slope[best]!) ? i : best), 0);
      const loss = (step: number): number => {
        const { shape, data } = weights.get(name)!;
        const moved = new Map(weights).set(name, { shape, data: data.map((x, i) => (i === at ? x + step : x)) });
        return plainLogprobs(config, moved, ids).reduce((total, x, t) => total + x * lossWeights[t]!, 0);
      };
      const measured = (loss(1e-3) - loss(-1e-3)) / 2e-3;
      expect(Math.abs(slope[at]! - measured), name).toBeLessThan(5e-3 + 1e-2 * Math.abs(measured));
    }
  });
});

describe('the parameters of a family', () => {
  const ofLayer = (config: ModelConfig): string[] =>
    parameterShapes(config).flatMap(([name]) => (name.includes('layers.1.') ? [name.slice(15)] : []));
  const plain = ofLayer(TINY);

  it('are those that transformers names', () => {
    const biases = (config: ModelConfig): string[] => ofLayer(config).filter((name) => name.endsWith('.bias'));
    const qkv = ['q', 'k', 'v'].map((x) => `self_attn.${x}_proj.bias`);
    expect(biases(TINY)).toEqual([]);
    expect(biases({ ...TINY, attention_bias: true })).toEqual([...qkv, 'self_attn.o_proj.bias']);
    expect(biases({ ...TINY, mlp_bias: true })).toEqual(['gate', 'up', 'down'].map((x) => `mlp.${x}_proj.bias`));
    expect(biases({ ...TINY, model_type: 'qwen2' })).toEqual(qkv);
    expect(ofLayer({ ...TINY, model_type: 'qwen3' }).filter((name) => !plain.includes(name))).toEqual([
      'self_attn.q_norm.weight',
      'self_attn.k_norm.weight',
    ]);
  });

  it('begin with norms of 1 and biases of 0', () => {
    const weights = initialWeights({ ...TINY, model_type: 'qwen3', attention_bias: true }, 1);
    for (const [name, { shape, data }] of weights) {
      if (shape.length === 1)
        expect(
          data.every((x) => x === (name.endsWith('.bias') ? 0 : 1)),
          name,
        ).toBe(true);
    }
  });
});

describe('a score head', () => {
  it('takes the place of the language-model head, and shares its layers', () => {
    const weights = initialWeights(GROUPED, 2);
    const value = withScoreHead(GROUPED, weights, 'value');
    const reward = withScoreHead(GROUPED, weights, 'reward', { seed: 4 });
    expect([...weights.keys()].filter((name) => !value.weights.has(name))).toEqual(['lm_head.weight']);
    expect(value.weights.get('model.norm.weight')).toBe(weights.get('model.norm.weight'));
    expect(value.weights.get('score.weight')).toEqual({ shape: [1, 32], data: new Float32Array(32) });
    expect(value.weights.get('score.bias')).toEqual({ shape: [1], data: new Float32Array(1) });
    expect(reward.weights.has('score.bias')).toBe(false);
    const { data } = reward.weights.get('score.weight')!;
    expect(Math.hypot(...data)).toBeGreaterThan(0.5);
    expect(Math.hypot(...data)).toBeLessThan(1.5);
    expect(reward.config.head).toBe('reward');
  });

  it('of zeros gives the value 0 everywhere', async () => {
    const { config, weights } = withScoreHead(TINY, initialWeights(TINY, 2), 'value');
    expect((await oneSequence(config, weights, [1, 2, 3])).numbers).toEqual([0, 0, 0]);
  });
});

describe('rotary scaling', () => {
  const of = (rope_scaling: ModelConfig['rope_scaling'], theta = 10000) =>
    rotaryFrequencies({ ...TINY, rope_theta: theta, ...(rope_scaling === undefined ? {} : { rope_scaling }) });

  it('dynamic is none up to the trained length, and is refused by name past it', () => {
    const config: ModelConfig = { ...TINY, rope_scaling: { rope_type: 'dynamic', factor: 2 } };
    expect(rotaryTable(config).rows(0, 128)).toEqual(rotaryTable(TINY).rows(0, 128));
    expect(() => rotaryTable(config).rows(100, 29)).toThrow(
      expect.objectContaining({ code: 'model_unsupported', message: expect.stringContaining('"dynamic"') }),
    );
  });

  it('llama3 keeps the shortest waves and stretches the longest by its factor', () => {
    const plain = of(undefined).frequencies;
    const scaled = of({
      rope_type: 'llama3',
      factor: 8,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 64,
    }).frequencies;
    expect(scaled[0]).toBe(plain[0]);
    expect(scaled[3]! * 8).toBeCloseTo(plain[3]!, 12);
  });

  it('yarn multiplies cosines and sines by 0.1·ln(factor) + 1 unless the config gives the factor', () => {
    const yarn = { rope_type: 'yarn', factor: 4, original_max_position_embeddings: 32 } as const;
    expect(of(yarn).attentionFactor).toBeCloseTo(1.1386294, 6);
    expect(of({ ...yarn, attention_factor: 2 }).attentionFactor).toBe(2);
  });

  it('P52: is refused where its angles would not be finite', () => {
    expect(() => of({ rope_type: 'linear', factor: 0 })).toThrow(
      expect.objectContaining({ code: 'model_unsupported' }),
    );
    expect(() => of(undefined, Number.NaN)).toThrow(/must be finite/);
  });
});
