import { afterAll, describe, expect, it } from 'vitest';
import { headSize } from '../../trainer/model/families.ts';
import { initialWeights, parameterShapes } from '../../trainer/model/parameters.ts';
import { Policy } from '../../trainer/sample/policy.ts';
import { plainLlama } from './plain-llama.ts';
import { GROUPED, mixedRows, TINY } from './tiny-model.ts';

describe('a decoder of the Llama family', () => {
  const open: Policy[] = [];
  afterAll(async () => {
    for (const policy of open) await policy.close();
  });

  it('has the parameters of its configuration, a head of its own only when untied', () => {
    const demo = { ...TINY, hidden_size: 128, intermediate_size: 344, vocab_size: 95 };
    const count = parameterShapes(demo).reduce((total, [, shape]) => total + shape.reduce((a, b) => a * b, 1), 0);
    expect(count).toBe(95 * 128 + 2 * (4 * 128 * 128 + 3 * 128 * 344 + 2 * 128) + 128);
    expect(parameterShapes(TINY).some(([name]) => name === 'lm_head.weight')).toBe(false);
    expect(new Map(parameterShapes(GROUPED)).get('lm_head.weight')).toEqual([23, 32]);
    expect(new Map(parameterShapes(GROUPED)).get('model.layers.0.self_attn.k_proj.weight')).toEqual([16, 32]);
  });

  it('starts from the same weights for the same seed and others for another', () => {
    const first = initialWeights(TINY, 5);
    expect(initialWeights(TINY, 5)).toEqual(first);
    expect(initialWeights(TINY, 6)).not.toEqual(first);
    const down = first.get('model.layers.1.mlp.down_proj.weight')!.data;
    const deviation = Math.sqrt(down.reduce((total, x) => total + x * x, 0) / down.length);
    expect(deviation).toBeCloseTo(0.7 / Math.sqrt(48 * 4), 2);
    expect(first.get('model.norm.weight')!.data.every((x) => x === 1)).toBe(true);
  });

  it('refuses heads that do not fit its width', () => {
    expect(() => headSize({ ...TINY, num_attention_heads: 5 })).toThrow(/even whole width/);
    expect(() => headSize({ ...TINY, num_key_value_heads: 3 })).toThrow(/key-value head/);
  });

  for (const [what, config] of [
    ['tied, a key for every head', TINY],
    ['untied, keys shared by two heads', GROUPED],
  ] as const) {
    it(`gives the log-probabilities of plain loops in double precision: ${what}`, async () => {
      const weights = initialWeights(config, 3);
      for (const [name, { data }] of weights) if (/norm/.test(name)) data.set(data.map((_, i) => 0.5 + (i % 7) / 6));
      const policy = await Policy.load(config, weights);
      open.push(policy);
      const rows = mixedRows(4).flatMap(({ promptIds, completions }) =>
        completions.map(({ tokenIds }) => ({ promptIds, tokenIds })),
      );
      const got = await policy.logprobs(rows);
      let worst = 0;
      for (const [i, { promptIds, tokenIds }] of rows.entries()) {
        const expected = plainLlama(config, weights, [...promptIds, ...tokenIds]);
        expect(got[i]).toHaveLength(tokenIds.length);
        for (const [t, id] of tokenIds.entries()) {
          worst = Math.max(worst, Math.abs(got[i]![t]! - expected[promptIds.length - 1 + t]![id]!));
        }
      }
      expect(worst).toBeLessThan(1e-5);
    });
  }
});
