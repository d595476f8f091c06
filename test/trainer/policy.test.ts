import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { closeTrainable, trainable, trainStep } from '../../trainer/learn/step.ts';
import { sftLoss } from '../../trainer/model/losses/sft.ts';
import { initialWeights } from '../../trainer/model/parameters.ts';
import type { ModelConfig, Sample, SampleRequest } from '../../trainer/model/weights.ts';
import { Policy } from '../../trainer/sample/policy.ts';
import { randomStream } from '../../trainer/tensor/random.ts';
import { GROUPED, ids, TINY } from './tiny-model.ts';

const random = randomStream(21);
const request = (length: number, more: Partial<SampleRequest> = {}): SampleRequest => ({
  promptIds: ids(random, length, TINY.vocab_size),
  n: 3,
  maxTokens: 6,
  temperature: 1,
  seed: 5,
  stopIds: [],
  ...more,
});

/** Largest difference of two lists of numbers of equal length. */
function worst(a: readonly number[], b: readonly number[]): number {
  expect(a).toHaveLength(b.length);
  return a.reduce((most, x, i) => Math.max(most, Math.abs(x - b[i]!)), 0);
}

describe('a policy that samples', () => {
  let policy: Policy;
  beforeAll(async () => {
    policy = await Policy.load(GROUPED, initialWeights(GROUPED, 1));
  });
  afterAll(() => policy.close());

  it('reports the log-probabilities the training graph gives, whatever the lengths of the prompts', async () => {
    const requests = [request(2), request(9), request(1), request(5, { n: 1, maxTokens: 40 }), request(14, { n: 2 })];
    const samples = await policy.sample(requests);
    const rows = requests.map(({ promptIds }, i) => ({
      promptIds,
      completions: samples[i]!.map(({ tokenIds }) => ({ tokenIds, weights: tokenIds.map(() => 0.1) })),
    }));
    const model = trainable(GROUPED, initialWeights(GROUPED, 1));
    const { logprobs } = await trainStep(model, rows, { learningRate: 0, loss: sftLoss });
    await closeTrainable(model);
    const scored = await policy.logprobs(
      rows.flatMap(({ promptIds, completions }) => completions.map(({ tokenIds }) => ({ promptIds, tokenIds }))),
    );
    let row = 0;
    for (const [q, ofPrompt] of samples.entries()) {
      expect(ofPrompt).toHaveLength(requests[q]!.n);
      for (const [i, sample] of ofPrompt.entries()) {
        expect(sample.tokenIds).toHaveLength(requests[q]!.maxTokens);
        expect(worst(sample.logprobs, logprobs[q]![i]!.map(Number))).toBeLessThan(1e-5);
        expect(worst(sample.logprobs, scored[row++]!)).toBeLessThan(1e-5);
      }
    }
  });

  it('gives a request the same samples alone as among others', async () => {
    const requests = [request(4), request(11, { stopIds: [1, 2, 3, 4, 5] }), request(6, { n: 1 }), request(3)];
    const together = await policy.sample(requests);
    for (const [i, one] of requests.entries()) {
      const [alone] = (await policy.sample([one])) as [Sample[]];
      expect(together[i]!.map(({ tokenIds, finish }) => ({ tokenIds, finish }))).toEqual(
        alone.map(({ tokenIds, finish }) => ({ tokenIds, finish })),
      );
    }
  });

  it('gives the same samples for the same seed and others for another', async () => {
    const one = request(5, { n: 8 });
    expect(await policy.sample([one])).toEqual(await policy.sample([one]));
    expect(await policy.sample([{ ...one, seed: 6 }])).not.toEqual(await policy.sample([one]));
    const [samples] = (await policy.sample([one])) as [Sample[]];
    expect(new Set(samples.map(({ tokenIds }) => tokenIds.join())).size).toBeGreaterThan(4);
  });

  it('draws tokens as often as their probabilities say, at the temperature asked for', async () => {
    const { promptIds } = request(4);
    const all = Array.from({ length: GROUPED.vocab_size }, (_, id) => ({ promptIds, tokenIds: [id] }));
    const logits = (await policy.logprobs(all)).map(([logprob]) => logprob!);
    for (const temperature of [1, 0.5]) {
      const scaled = logits.map((x) => Math.exp(x / temperature));
      const total = scaled.reduce((a, b) => a + b, 0);
      const n = 1000;
      const requests = [1, 2, 3, 4].map((seed) => ({ promptIds, n, maxTokens: 1, temperature, seed, stopIds: [] }));
      const samples = (await policy.sample(requests)).flat();
      for (const [id, weight] of scaled.entries()) {
        const p = weight / total;
        const of = samples.filter(({ tokenIds }) => tokenIds[0] === id);
        // Five standard deviations of a count.
        expect(Math.abs(of.length - 4 * n * p)).toBeLessThan(5 * Math.sqrt(4 * n * p * (1 - p)) + 1);
        for (const { logprobs } of of) expect(logprobs[0]).toBeCloseTo(Math.log(p), 5);
      }
    }
  });

  it('takes the most probable token at temperature 0', async () => {
    const one = request(5, { temperature: 0, n: 2, maxTokens: 4 });
    const [[first, second]] = (await policy.sample([one])) as [[Sample, Sample]];
    expect(second).toEqual(first);
    const { promptIds } = one;
    for (const [t, token] of first.tokenIds.entries()) {
      const before = [...promptIds, ...first.tokenIds.slice(0, t)];
      const next = Array.from({ length: GROUPED.vocab_size }, (_, id) => ({ promptIds: before, tokenIds: [id] }));
      const logprobs = (await policy.logprobs(next)).map(([x]) => x!);
      expect(logprobs.indexOf(Math.max(...logprobs))).toBe(token);
      expect(first.logprobs[t]).toBeCloseTo(logprobs[token]!, 5);
    }
  });

  it('ends a sample at its stop token, kept, and at its own length', async () => {
    const stopIds = [0, 1, 2, 3, 4, 5, 6, 7];
    const requests = [request(3, { n: 20, maxTokens: 9, stopIds }), request(3, { n: 20, maxTokens: 2, stopIds })];
    const samples = await policy.sample(requests);
    const finishes = new Set<string>();
    for (const [q, ofPrompt] of samples.entries()) {
      for (const { tokenIds, logprobs, finish } of ofPrompt) {
        finishes.add(`${q} ${finish}`);
        expect(logprobs).toHaveLength(tokenIds.length);
        expect(tokenIds.slice(0, -1).some((id) => stopIds.includes(id))).toBe(false);
        expect(finish === 'stop').toBe(stopIds.includes(tokenIds.at(-1)!));
        if (finish === 'length') expect(tokenIds).toHaveLength(requests[q]!.maxTokens);
      }
    }
    expect([...finishes].sort()).toEqual(['0 length', '0 stop', '1 length', '1 stop']);
  });

  it('ends a sample where the model has no more positions', async () => {
    const one = request(GROUPED.max_position_embeddings - 2, { maxTokens: 50, n: 1 });
    const [[sample]] = (await policy.sample([one])) as [[Sample]];
    expect(sample).toMatchObject({ finish: 'length', tokenIds: { length: 2 } });
    await expect(policy.sample([request(GROUPED.max_position_embeddings + 1)])).rejects.toThrow(/128 tokens at most/);
  });

  it('gives nothing for no samples and no tokens, and refuses what it cannot read', async () => {
    expect(await policy.sample([])).toEqual([]);
    expect(await policy.sample([request(3, { n: 0 })])).toEqual([[]]);
    expect(await policy.sample([request(3, { n: 1, maxTokens: 0 })])).toEqual([
      [{ tokenIds: [], logprobs: [], finish: 'length' }],
    ]);
    expect(await policy.logprobs([{ promptIds: [1], tokenIds: [] }])).toEqual([[]]);
    await expect(policy.sample([request(0)])).rejects.toThrow(/requests\[0\].promptIds needs at least one token/);
    await expect(policy.sample([request(2, { promptIds: [23] })])).rejects.toThrow(/from 0 to 22, got 23/);
    await expect(policy.sample([request(2, { temperature: -1 })])).rejects.toThrow(/temperature/);
    await expect(policy.logprobs([{ promptIds: [1], tokenIds: [-1] }])).rejects.toThrow(/rows\[0\].tokenIds/);
  });
});

describe('a policy of any family', () => {
  const families: Record<string, ModelConfig> = {
    'with heads wider than their share': { ...GROUPED, head_dim: 12 },
    'with biases': { ...GROUPED, model_type: 'qwen2' },
    'with norms of queries and keys': { ...TINY, model_type: 'qwen3', head_dim: 16, num_key_value_heads: 1 },
  };
  it.each(Object.entries(families))('speaks by what its scoring graph says, %s', async (_, config) => {
    const weights = new Map(
      [...initialWeights(config, 3)].map(([name, { shape, data }]) => [
        name,
        { shape, data: data.map((x) => x + 0.1 * random.normal()) },
      ]),
    );
    const policy = await Policy.load(config, weights);
    const one = request(6, { maxTokens: 12 });
    const [samples] = (await policy.sample([one])) as [Sample[]];
    const rows = samples.map(({ tokenIds }) => ({ promptIds: one.promptIds, tokenIds }));
    for (const [i, scored] of (await policy.logprobs(rows)).entries()) {
      expect(worst(samples[i]!.logprobs, scored)).toBeLessThan(1e-4);
    }
    await policy.close();
  });
});

describe('a policy whose weights change', () => {
  it('says that weights which give no probabilities are damaged', async () => {
    const weights = initialWeights(TINY, 1);
    weights.get('model.norm.weight')!.data[3] = Number.NaN;
    const policy = await Policy.load(TINY, weights);
    for (const temperature of [0, 1]) {
      await expect(policy.sample([request(3, { temperature })])).rejects.toMatchObject({ code: 'checkpoint_damaged' });
    }
    await policy.close();
  });

  it('samples with the new weights from the next call and with a copy of its own', async () => {
    const weights = initialWeights(TINY, 1);
    const policy = await Policy.load(TINY, weights);
    const rows = [{ promptIds: [1, 2], tokenIds: [3, 4] }];
    const before = await policy.logprobs(rows);
    const data = weights.get('model.embed_tokens.weight')!.data;
    data.set(data.map((x) => 2 * x));
    expect(await policy.logprobs(rows)).toEqual(before);
    policy.setWeights(weights);
    expect(await policy.logprobs(rows)).not.toEqual(before);
    expect(() => policy.setWeights(initialWeights(GROUPED, 1))).toThrow(/k_proj/);
    await policy.close();
  });
});
