import { afterAll, describe, expect, it } from 'vitest';
import type { Row } from '../../trainer/learn/data/row.ts';
import { globalNorm } from '../../trainer/learn/optimizer.ts';
import {
  closeTrainable,
  evaluate,
  lossAndGradients,
  type TrainableModel,
  trainable,
  trainStep,
} from '../../trainer/learn/step.ts';
import { clippedPolicyLoss } from '../../trainer/model/losses/clipped-policy.ts';
import type { Loss } from '../../trainer/model/losses/loss.ts';
import { sftLoss, tokenMeanWeights } from '../../trainer/model/losses/sft.ts';
import { initialWeights } from '../../trainer/model/parameters.ts';
import type { ModelConfig } from '../../trainer/model/weights.ts';
import { Policy } from '../../trainer/sample/policy.ts';
import { randomStream } from '../../trainer/tensor/random.ts';
import { GROUPED, ids, mixedRows, TINY } from './tiny-model.ts';

const open: TrainableModel[] = [];
afterAll(async () => {
  for (const model of open) await closeTrainable(model);
});

function model(config: ModelConfig, seed: number): TrainableModel {
  const made = trainable(config, initialWeights(config, seed));
  open.push(made);
  return made;
}

const copyOf = (gradients: TrainableModel['gradients']) => new Map([...gradients].map(([k, v]) => [k, v.slice()]));

describe('the gradient of a whole loss', () => {
  for (const [config, kind] of [
    [TINY, 'tied'],
    [GROUPED, 'grouped and untied'],
  ] as const) {
    for (const loss of [sftLoss, clippedPolicyLoss()]) {
      it(`agrees with finite differences along itself, ${loss.key.split(' ')[0]}, ${kind}`, async () => {
        const m = model(config, 7);
        const { logprobs } = await lossAndGradients(m, mixedRows(8), loss);
        // Ratios well inside and well outside the bounds: at a bound the loss has no slope.
        const offsets = [0.1, -0.1, 0.6, -0.6];
        const rows = mixedRows(8).map((row, q) => ({
          ...row,
          completions: row.completions.map((completion, i) => ({
            ...completion,
            oldLogprobs: logprobs[q]![i]!.map((logprob, t) => logprob! + offsets[(q + i + t) % 4]!),
          })),
        }));
        const { loss: at } = await lossAndGradients(m, rows, loss);
        expect(Number.isFinite(at)).toBe(true);
        const gradients = copyOf(m.gradients);
        const norm = globalNorm(m.arena);
        // One gradient for every parameter, none of them lost on its way.
        for (const data of gradients.values()) expect(data.some((x) => x !== 0)).toBe(true);
        const along = async (by: number) => {
          const weights = initialWeights(config, 7);
          for (const [name, { data }] of weights) {
            for (const [i, g] of gradients.get(name)!.entries()) data[i] = data[i]! + (by * g) / norm;
          }
          const moved = trainable(config, weights);
          open.push(moved);
          return (await lossAndGradients(moved, rows, loss)).loss;
        };
        const h = 2e-3;
        const slope = ((await along(h)) - (await along(-h))) / (2 * h);
        expect(slope / norm).toBeCloseTo(1, 2);
      });
    }
  }

  it('is the same for rows of different lengths together as for each row alone', async () => {
    for (const loss of [sftLoss, clippedPolicyLoss()] as Loss[]) {
      const m = model(GROUPED, 3);
      const rows = mixedRows(5);
      const together = await lossAndGradients(m, rows, loss);
      const whole = copyOf(m.gradients);
      const parts = new Map([...whole].map(([name, data]) => [name, new Float32Array(data.length)]));
      let total = 0;
      for (const [q, row] of rows.entries()) {
        for (const [i, completion] of row.completions.entries()) {
          const alone: Row = { promptIds: row.promptIds, completions: [completion] };
          const one = await lossAndGradients(m, [alone], loss);
          total += one.loss;
          for (const [t, logprob] of one.logprobs[0]![0]!.entries()) {
            expect(together.logprobs[q]![i]![t]).toBeCloseTo(logprob!, 5);
          }
          for (const [name, data] of m.gradients) {
            const sum = parts.get(name)!;
            for (const [j, g] of data.entries()) sum[j] = sum[j]! + g;
          }
        }
      }
      expect(together.loss).toBeCloseTo(total, 5);
      for (const [name, data] of whole) {
        for (const [j, g] of data.entries()) expect(Math.abs(g - parts.get(name)![j]!)).toBeLessThan(1e-5);
      }
    }
  });
});

const sequences = (seed: number): Row[] =>
  mixedRows(seed).flatMap((row) => row.completions.map((completion) => ({ ...row, completions: [completion] })));

describe('layers computed again for the gradient', () => {
  it('give the same bits as layers that were kept', async () => {
    for (const config of [TINY, GROUPED]) {
      const weights = initialWeights(config, 3);
      const [kept, again] = [trainable(config, weights), trainable(config, weights, { recompute: true })];
      open.push(kept, again);
      const first = await lossAndGradients(kept, sequences(4), clippedPolicyLoss());
      expect(await lossAndGradients(again, sequences(4), clippedPolicyLoss())).toEqual(first);
      expect(copyOf(again.gradients)).toEqual(copyOf(kept.gradients));
    }
  });
});

describe('held-out rows', () => {
  it('have the loss they would be trained with, and the weights stay', async () => {
    const m = model(GROUPED, 3);
    const before = m.weights.get('model.norm.weight')!.data.slice();
    const { loss, metrics } = await evaluate(m, sequences(4), sftLoss);
    expect(loss).toBeCloseTo((await lossAndGradients(m, sequences(4), sftLoss)).loss, 5);
    expect(Object.keys(metrics)).toEqual(['accuracy']);
    expect(m.weights.get('model.norm.weight')!.data).toEqual(before);
  });
});

describe('a training step', () => {
  it('gives equal bits in two runs with one thread', async () => {
    const run = async () => {
      const m = model(TINY, 1);
      const results = [];
      for (let i = 0; i < 5; i++) {
        results.push(await trainStep(m, mixedRows(i), { learningRate: 1e-2, loss: clippedPolicyLoss() }));
      }
      return { results, weights: m.weights };
    };
    expect(await run()).toEqual(await run());
  });

  it('learns a pattern from examples and the policy then generates it', async () => {
    // The completion repeats the prompt's two tokens in reverse order.
    const random = randomStream(2);
    const example = (): Row => {
      const promptIds = ids(random, 2, 10);
      const tokenIds = [...promptIds].reverse();
      return { promptIds, completions: [{ tokenIds, weights: [] }] };
    };
    const m = model({ ...TINY, vocab_size: 10 }, 4);
    let last = Number.POSITIVE_INFINITY;
    for (let step = 0; step < 150; step++) {
      const rows = Array.from({ length: 32 }, example);
      const weights = tokenMeanWeights(rows.map((row) => row.completions[0]!.tokenIds.map(() => true)));
      const weighted = rows.map((row, i) => ({
        ...row,
        completions: row.completions.map((completion) => ({ ...completion, weights: weights[i]! })),
      }));
      ({ loss: last } = await trainStep(m, weighted, { learningRate: 5e-3, loss: sftLoss }));
    }
    expect(last).toBeLessThan(0.1);
    const policy = await Policy.load(m.config, m.weights);
    const request = { n: 1, maxTokens: 2, temperature: 0, seed: 0, stopIds: [] };
    const sampled = await policy.sample([
      { ...request, promptIds: [3, 8] },
      { ...request, promptIds: [1, 6] },
    ]);
    expect(sampled.map(([sample]) => sample!.tokenIds)).toEqual([
      [8, 3],
      [6, 1],
    ]);
    await policy.close();
  });

  it('reports what its loss knows and nothing else, and counts tokens without padding', async () => {
    const m = model(TINY, 2);
    const result = await trainStep(m, mixedRows(1), { learningRate: 0, loss: sftLoss });
    expect(result).toMatchObject({ metrics: {}, tokens: 25 });
    const { metrics } = await trainStep(m, mixedRows(1), {
      learningRate: 0,
      loss: clippedPolicyLoss(),
      accuracy: true,
    });
    expect(metrics.entropy).toBeGreaterThan(0);
    expect(metrics.clip_share).toBeGreaterThan(0);
    expect(metrics.clip_share).toBeLessThan(1);
    expect(metrics.accuracy).toBeGreaterThanOrEqual(0);
    expect(metrics.accuracy).toBeLessThanOrEqual(1);
  });

  it('leaves the weights as they were when the loss is not a number', async () => {
    const m = model(TINY, 2);
    const before = m.weights.get('model.norm.weight')!.data.slice();
    const rows = mixedRows(1).map((row) => ({
      ...row,
      completions: row.completions.map((c) => ({ ...c, weights: c.weights.map(() => Number.NaN) })),
    }));
    await expect(trainStep(m, rows, { learningRate: 1, loss: sftLoss })).rejects.toThrow(/loss became NaN/);
    expect(m.weights.get('model.norm.weight')!.data).toEqual(before);
    expect(m.optimizer.step).toBe(0);
  });

  it('refuses rows it cannot train on, naming what is wrong', async () => {
    const m = model(TINY, 2);
    const step = (rows: Row[]) => trainStep(m, rows, { learningRate: 1, loss: sftLoss });
    await expect(step([])).rejects.toThrow(/at least one row/);
    await expect(step([{ promptIds: [], completions: [{ tokenIds: [1], weights: [1] }] }])).rejects.toThrow(/prompt/);
    await expect(step([{ promptIds: [1], completions: [{ tokenIds: [1], weights: [] }] }])).rejects.toThrow(/weights/);
    await expect(step([{ promptIds: [1], completions: [{ tokenIds: [99], weights: [1] }] }])).rejects.toThrow(/23/);
  });
});
