import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Arena, makeArena } from '../../trainer/learn/arena.ts';
import {
  type AdamOptions,
  adamUpdate,
  addGradients,
  globalNorm,
  initAdam,
  loadAdam,
} from '../../trainer/learn/optimizer.ts';
import type { Weights } from '../../trainer/model/weights.ts';
import { randomStream } from '../../trainer/tensor/random.ts';

const start = (): Weights =>
  new Map([
    ['matrix', { shape: [2, 3], data: Float32Array.of(0.5, -1, 2, 0.1, 3, -0.2) }],
    ['norm', { shape: [2], data: Float32Array.of(1, 1) }],
  ]);

/** One update with these gradients; returns their norm. */
function update(
  arena: Arena,
  step: number,
  gradients: Record<string, readonly number[]>,
  options: AdamOptions,
): number {
  for (const [name, data] of Object.entries(gradients)) arena.gradients.get(name)!.set(data);
  const norm = globalNorm(arena);
  adamUpdate(arena, step, norm, options);
  return norm;
}

describe('AdamW', () => {
  it('follows the algorithm of the paper, decaying matrices only', () => {
    const arena = makeArena(start());
    const options = { learningRate: 0.01, beta1: 0.8, beta2: 0.95, epsilon: 1e-6, weightDecay: 0.1, clip: 0 };
    const theta = new Map([...arena.weights].map(([name, { data }]) => [name, [...data]]));
    const moments = new Map([...arena.weights].map(([name, { data }]) => [name, [...data].map(() => [0, 0])]));
    const { normal } = randomStream(9);
    for (let t = 1; t <= 20; t++) {
      const gradients = Object.fromEntries([...theta].map(([name, values]) => [name, values.map(normal)]));
      update(arena, t, gradients, options);
      for (const [name, values] of theta) {
        for (const [i, value] of values.entries()) {
          const g = gradients[name]![i]!;
          const moment = moments.get(name)![i]!;
          moment[0] = options.beta1 * moment[0]! + (1 - options.beta1) * g;
          moment[1] = options.beta2 * moment[1]! + (1 - options.beta2) * g * g;
          const mean = moment[0] / (1 - options.beta1 ** t);
          const square = moment[1] / (1 - options.beta2 ** t);
          const decay = name === 'matrix' ? options.weightDecay : 0;
          values[i] = value - options.learningRate * (mean / (Math.sqrt(square) + options.epsilon) + decay * value);
        }
      }
    }
    for (const [name, { data }] of arena.weights) {
      for (const [i, value] of data.entries()) expect(value).toBeCloseTo(theta.get(name)![i]!, 5);
    }
  });

  it('scales gradients down to the largest norm', () => {
    const [large, small] = [makeArena(start()), makeArena(start())];
    const first = update(large, 1, { matrix: [3, 0, 0, 0, 0, 0], norm: [0, 4] }, { learningRate: 0.1, clip: 1 });
    const second = update(small, 1, { matrix: [0.6, 0, 0, 0, 0, 0], norm: [0, 0.8] }, { learningRate: 0.1, clip: 0 });
    expect(first).toBeCloseTo(5, 6);
    expect(second).toBeCloseTo(1, 6);
    for (const [name, { data }] of large.weights) {
      for (const [i, value] of data.entries()) expect(value).toBeCloseTo(small.weights.get(name)!.data[i]!, 6);
    }
    expect(large.m.get('norm')![1]).toBeCloseTo(0.08, 6);
  });

  it('measures the norm of all gradients together, whatever their sizes', () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.float({ min: -9, max: 9, noNaN: true })), { minLength: 1 }), (lists) => {
        const weights = new Map(
          lists.map((list, i) => [`p${i}`, { shape: [list.length], data: Float32Array.from(list) }]),
        );
        const arena = makeArena(weights);
        for (const [name, { data }] of weights) arena.gradients.get(name)!.set(data);
        expect(globalNorm(arena)).toBeCloseTo(Math.hypot(...lists.flat()), 3);
      }),
    );
  });

  it('adds the gradients of a further part to those of the first, and nothing else', () => {
    const arena = makeArena(start());
    arena.gradients.get('matrix')!.set([1, 2, 3, 4, 5, 6]);
    arena.more.get('matrix')!.set([10, 20, 30, 40, 50, 60]);
    arena.more.get('norm')!.set([7, 8]);
    addGradients(arena);
    expect([...arena.gradients.get('matrix')!]).toEqual([11, 22, 33, 44, 55, 66]);
    expect([...arena.gradients.get('norm')!]).toEqual([7, 8]);
    expect([...arena.weights.get('norm')!.data]).toEqual([1, 1]);
    expect([...arena.m.get('matrix')!]).toEqual([0, 0, 0, 0, 0, 0]);
  });

  it('goes on from a saved state with the same bits as without a pause', () => {
    const options = { learningRate: 0.01 };
    const gradients = { matrix: [0.1, -0.2, 0.3, 0.4, -0.5, 0.6], norm: [0.7, -0.8] };
    const whole = makeArena(start());
    for (let step = 1; step <= 4; step++) update(whole, step, gradients, options);
    const before = makeArena(start());
    for (let step = 1; step <= 2; step++) update(before, step, gradients, options);
    const saved = { step: 2, m: before.m, v: before.v };
    const after = makeArena(before.weights);
    expect(loadAdam(after, saved)).toBe(2);
    for (let step = 3; step <= 4; step++) update(after, step, gradients, options);
    for (const [name, { data }] of whole.weights) expect([...after.weights.get(name)!.data]).toEqual([...data]);
    expect(loadAdam(after, initAdam())).toBe(0);
    expect([...after.v.get('norm')!]).toEqual([0, 0]);
  });
});
