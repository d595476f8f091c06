import { describe, expect, it } from 'vitest';
import type { TroupeError } from '../../errors.ts';
import {
  checkTrainingMemory,
  countParameters,
  estimateTrainingMemory,
  type MemoryOptions,
} from '../../trainer/learn/memory.ts';
import { initialWeights } from '../../trainer/model/parameters.ts';
import { tinyConfig } from './tiny-checkpoint.ts';

const counted = [...initialWeights(tinyConfig, 1).values()].reduce((sum, { data }) => sum + data.length, 0);
const step: MemoryOptions = { tokensPerStep: 2048, longest: 64 };
const adapter = { r: 2, alpha: 4, targets: ['q_proj'] };
const of = (change: Partial<MemoryOptions> = {}, config = tinyConfig) =>
  estimateTrainingMemory(config, { ...step, ...change });

describe('the memory that training takes', () => {
  it('is the weights as they were opened and once more, their gradients, two moments, and what steps compute', () => {
    const { total, ...parts } = of();
    expect(parts).toMatchObject({ weights: 8 * counted, optimizer: 8 * counted });
    expect(parts.gradients).toBeGreaterThanOrEqual(4 * counted);
    expect(total).toBe(Object.values(parts).reduce((a, b) => a + b, 0));
    expect(countParameters(tinyConfig)).toBe(counted);
    expect(countParameters({ ...tinyConfig, tie_word_embeddings: true })).toBe(counted - 13 * 16);
  });

  it('holds frozen weights once and moments of the adapter alone', () => {
    const whole = of();
    const low = of({ adapter });
    const trained = low.optimizer / 8;
    expect(low.weights).toBe(4 * (counted + trained));
    expect(trained).toBeLessThan(counted / 5);
    // Both layers have one query matrix that the adapter is folded into when it is saved.
    expect([low.saving, whole.saving]).toEqual([4 * 2 * 16 * 16, 0]);
    expect(of({ onnx: true }).saving).toBeGreaterThan(4 * counted);
    expect([low.activations, low.gradients / whole.gradients]).toEqual([whole.activations, trained / counted]);
  });

  it('of a step in several parts it is that of one part, and one column of gradients more', () => {
    const [one, several] = [of({ tokensPerStep: 4096 }), of({ tokensPerStep: 40_960 })];
    expect([several.activations, several.logits]).toEqual([one.activations, one.logits]);
    expect(several.gradients - one.gradients).toBeCloseTo(4 * counted, 3);
  });

  it('with recomputation is that of one layer and the stream before each', () => {
    const deep = { ...tinyConfig, num_hidden_layers: 12 };
    const layer = of({}, { ...tinyConfig, num_hidden_layers: 1 }).activations;
    const streams = 4 * 13 * 2048 * tinyConfig.hidden_size;
    expect(of({ recompute: true }, deep).activations).toBe(layer + streams);
    expect(of({ recompute: true, sharedPrompts: true }, deep)).toEqual(of({}, deep));
  });

  it('of logits is that of one piece where the vocabulary is computed in pieces', () => {
    const piece = (vocab_size: number, change = {}) => of({ adapter, ...change }, { ...tinyConfig, vocab_size }).logits;
    const matrix = 4 * 32_768 * tinyConfig.hidden_size;
    expect(piece(32_768)).toBe(piece(16_384) + matrix);
    expect(of({}, { ...tinyConfig, head: 'value' }).logits).toBe(0);
  });
});

describe('a run that does not fit', () => {
  const refusal = (
    change: Partial<MemoryOptions>,
    free: number,
    remedies: Parameters<typeof checkTrainingMemory>[2]['remedies'],
  ) => {
    try {
      checkTrainingMemory(wide, { ...step, ...change }, { free, remedies: remedies ?? [] });
      return null;
    } catch (error) {
      return error as TroupeError;
    }
  };
  const wide = { ...tinyConfig, hidden_size: 512, intermediate_size: 2048, num_hidden_layers: 8 };
  const { total } = of({}, wide);

  it('is refused with its numbers from the first byte that is missing', () => {
    expect(refusal({}, total, [])).toBeNull();
    const { code, message } = refusal({}, total - 1, [])!;
    expect(code).toBe('training_failed');
    expect(message).toMatch(
      /needs about [\d.]+ [MG]B of memory \(runtime .*, weights .*, logits .*\); [\d.]+ [MG]B are there/,
    );
    expect(message).toMatch(/Use a smaller model/);
  });

  it('lists what each remedy would make of it, the weakest form that is enough, and none that saves nothing', () => {
    const half = { say: '--batch 16', change: { tokensPerStep: 1024 } };
    const least = { say: '--batch 1', change: { tokensPerStep: 64 } };
    const recompute = { say: '--recompute', change: { recompute: true } };
    const nothing = { say: '--nothing', change: { trainedTokens: 2047 } };
    const enough = refusal({}, of({ tokensPerStep: 1024 }, wide).total, [[recompute], [half, least], [nothing]])!;
    expect(enough.detail.hint).toMatch(
      /^With --recompute it needs [\d.]+ [MG]B, which is there; with --batch 16 it needs [\d.]+ [MG]B, which is there\.$/,
    );
    const far = refusal({}, 1e6, [[half, least]])!;
    expect(far.detail.hint).toMatch(/^With --batch 1 it needs [\d.]+ [MG]B\.$/);
    const together = of({ tokensPerStep: 64, adapter }, wide).total;
    const both = refusal({}, together, [[half, least], [{ say: '--lora', change: { adapter } }]])!;
    expect(both.detail.hint).toMatch(/with all of these [\d.]+ [MG]B, which is there\.$/);
  });
});
