import { describe, expect, it } from 'vitest';
import { exportOnnx } from '../../trainer/model/onnx-export.ts';
import { initialWeights, withScoreHead } from '../../trainer/model/parameters.ts';
import type { ModelConfig } from '../../trainer/model/weights.ts';
import { Policy } from '../../trainer/sample/policy.ts';
import { randomStream } from '../../trainer/tensor/random.ts';
import { runtime } from '../../trainer/tensor/session.ts';
import { GROUPED, ids, TINY } from './tiny-model.ts';

const QWEN2: ModelConfig = { ...GROUPED, model_type: 'qwen2' };
const QWEN3: ModelConfig = { ...GROUPED, model_type: 'qwen3', head_dim: 12, tie_word_embeddings: true };

/** Runs an exported file as any program would: token ids in, logits [B, L, V] out. */
async function runFile(bytes: Uint8Array, rows: readonly (readonly number[])[]) {
  const ort = await runtime();
  const session = await ort.InferenceSession.create(bytes, { intraOpNumThreads: 1 });
  const length = rows[0]!.length;
  const input = new ort.Tensor('int64', BigInt64Array.from(rows.flat(), BigInt), [rows.length, length]);
  const { logits } = await session.run({ input_ids: input });
  const names = { inputs: session.inputNames, outputs: session.outputNames };
  await session.release();
  return { ...names, dims: logits!.dims, data: logits!.data as Float32Array };
}

/** Log-probability of each token but the first of a row of logits. */
function scored(data: Float32Array, row: number, length: number, tokens: readonly number[], V: number): number[] {
  return tokens.slice(1).map((token, i) => {
    const logits = [...data.subarray((row * length + i) * V, (row * length + i + 1) * V)];
    const top = Math.max(...logits);
    return logits[token]! - top - Math.log(logits.reduce((sum, x) => sum + Math.exp(x - top), 0));
  });
}

describe('a model as one ONNX file', () => {
  it.each([
    ['llama', TINY],
    ['llama with grouped heads and a head of its own', GROUPED],
    ['qwen2', QWEN2],
    ['qwen3', QWEN3],
    ['llama with stretched positions', { ...TINY, rope_scaling: { rope_type: 'linear', factor: 3 } }],
  ] as [string, ModelConfig][])('gives the log-probabilities of the policy: %s', async (_, config) => {
    const weights = new Map(initialWeights(config, 4));
    const random = randomStream(9);
    // Biases begin at 0 and norms at 1, where a graph that left them out would look right.
    for (const [name, { shape, data }] of weights)
      if (shape.length === 1) weights.set(name, { shape, data: data.map((x) => x + random.normal() / 4) });
    const rows = [17, 9, 1, 30].map((length) => ids(random, length, config.vocab_size));
    const longest = 30;
    const padded = rows.map((row) => [...row, ...ids(random, longest - row.length, config.vocab_size)]);
    const out = await runFile(exportOnnx(config, weights), padded);
    expect(out).toMatchObject({ inputs: ['input_ids'], outputs: ['logits'], dims: [4, longest, config.vocab_size] });
    const policy = await Policy.load(config, weights);
    const expected = await policy.logprobs(rows.map(([first, ...rest]) => ({ promptIds: [first!], tokenIds: rest })));
    await policy.close();
    for (const [row, tokens] of rows.entries()) {
      const found = scored(out.data, row, longest, tokens, config.vocab_size);
      const worst = found.map((x, i) => Math.abs(x - expected[row]![i]!));
      expect(found).toHaveLength(tokens.length - 1);
      expect(Math.max(0, ...worst)).toBeLessThan(1e-4);
    }
  });

  it('is the same bytes for the same weights', () => {
    const once = exportOnnx(TINY, initialWeights(TINY, 1));
    expect(Buffer.compare(once, exportOnnx(TINY, initialWeights(TINY, 1)))).toBe(0);
    expect(Buffer.compare(once, exportOnnx(TINY, initialWeights(TINY, 2)))).not.toBe(0);
  });

  it('refuses a model whose weights do not fit, that generates no text, or that one file cannot hold', () => {
    const weights = initialWeights(TINY, 1);
    const short = new Map([...weights].filter(([name]) => name !== 'model.norm.weight'));
    expect(() => exportOnnx(TINY, short)).toThrow(/model.norm.weight must have the shape \[32\]/);
    const scoring = withScoreHead(TINY, weights, 'reward');
    expect(() => exportOnnx(scoring.config, scoring.weights)).toThrow(/has a reward head/);
    const large = { ...TINY, vocab_size: 2 ** 24 + 2 ** 22 };
    const table = { shape: [large.vocab_size, 32], data: { byteLength: 2 ** 31 + 2 ** 29 } as Float32Array };
    const heavy = new Map([...weights, ['model.embed_tokens.weight', table] as const]);
    expect(() => exportOnnx(large, heavy)).toThrow(expect.objectContaining({ code: 'too_large' }));
  });
});
