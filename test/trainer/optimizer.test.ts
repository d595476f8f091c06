import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  adamUpdate,
  constantRate,
  cosineDecay,
  globalNorm,
  initAdam,
  linearDecayAtEnd,
  withWarmup,
} from '../../trainer/optimizer.ts';
import { randomStream } from '../../trainer/random.ts';
import type { Weights } from '../../trainer/weights.ts';

const start = (): Weights =>
  new Map([
    ['matrix', { shape: [2, 2], data: Float32Array.of(0.5, -1, 2, 0.1) }],
    ['norm', { shape: [2], data: Float32Array.of(1, 1) }],
  ]);

describe('AdamW', () => {
  it('follows the algorithm of the paper in double precision, decaying matrices only', () => {
    const weights = start();
    const options = { learningRate: 0.01, beta1: 0.8, beta2: 0.95, epsilon: 1e-6, weightDecay: 0.1, clip: 0 };
    const theta = new Map([...weights].map(([name, { data }]) => [name, [...data]]));
    const moments = new Map([...weights].map(([name, { data }]) => [name, [...data].map(() => [0, 0])]));
    let state = initAdam(weights);
    const { normal } = randomStream(9);
    for (let t = 1; t <= 20; t++) {
      const gradients = new Map([...weights].map(([name, { data }]) => [name, Float32Array.from(data, normal)]));
      ({ state } = adamUpdate(weights, gradients, state, options));
      for (const [name, values] of theta) {
        for (const [i, value] of values.entries()) {
          const g = gradients.get(name)![i]!;
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
    expect(state.step).toBe(20);
    for (const [name, { data }] of weights) {
      for (const [i, value] of data.entries()) expect(value).toBeCloseTo(theta.get(name)![i]!, 5);
    }
  });

  it('scales gradients down to the largest norm and reports the norm they had', () => {
    const gradients = (factor: number) =>
      new Map([
        ['matrix', Float32Array.of(3, 0, 0, 0).map((x) => x * factor)],
        ['norm', Float32Array.of(0, 4).map((x) => x * factor)],
      ]);
    const [large, small] = [start(), start()];
    const first = adamUpdate(large, gradients(1), initAdam(large), { learningRate: 0.1, clip: 1 });
    const second = adamUpdate(small, gradients(0.2), initAdam(small), { learningRate: 0.1, clip: 0 });
    expect(first.gradientNorm).toBeCloseTo(5, 6);
    expect(second.gradientNorm).toBeCloseTo(1, 6);
    for (const [name, { data }] of large) {
      for (const [i, value] of data.entries()) expect(value).toBeCloseTo(small.get(name)!.data[i]!, 6);
    }
    expect(first.state.m.get('norm')![1]).toBeCloseTo(0.08, 6);
  });

  it('leaves a parameter without a gradient as it is', () => {
    const weights = start();
    adamUpdate(weights, new Map([['matrix', Float32Array.of(1, 1, 1, 1)]]), initAdam(weights), { learningRate: 1 });
    expect([...weights.get('norm')!.data]).toEqual([1, 1]);
    expect(weights.get('matrix')!.data[0]).not.toBe(0.5);
  });

  it('measures the norm of all gradients together', () => {
    expect(
      globalNorm(
        new Map([
          ['a', Float32Array.of(1, 2)],
          ['b', Float32Array.of(2)],
        ]),
      ),
    ).toBeCloseTo(3, 9);
  });
});

describe('a learning-rate schedule', () => {
  it('rises to its rate, holds it, and falls to nothing at the end', () => {
    const rate = withWarmup(10, linearDecayAtEnd(2, 100, 0.3));
    expect(rate(0)).toBeCloseTo(0.2, 9);
    expect(rate(9)).toBeCloseTo(2, 9);
    expect(rate(70)).toBeCloseTo(2, 9);
    expect(rate(85)).toBeCloseTo(1, 9);
    expect(rate(100)).toBe(0);
    expect(constantRate(3)(1e6)).toBe(3);
    expect(cosineDecay(2, 10)(5)).toBeCloseTo(1, 9);
    expect(cosineDecay(2, 10)(20)).toBeCloseTo(0, 9);
  });

  it('never leaves the range from 0 to its rate', () => {
    fc.assert(
      fc.property(fc.nat(300), fc.nat(50), fc.integer({ min: 1, max: 200 }), (step, warmup, steps) => {
        for (const rate of [linearDecayAtEnd(1, steps, 0.3), cosineDecay(1, steps)]) {
          const value = withWarmup(warmup, rate)(step);
          expect(value).toBeGreaterThanOrEqual(0);
          expect(value).toBeLessThanOrEqual(1);
        }
      }),
    );
  });
});
