import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { meeting } from '../../../store/evaluate/consistency/banding.ts';
import { SIMILAR_VECTORS, similarByVectors, vectorBands } from '../../../store/evaluate/consistency/similar-vectors.ts';
import { randomStream } from '../../../trainer/tensor/random.ts';

const rows = (vectors: Readonly<Record<string, number[] | null>>) =>
  Object.entries(vectors).map(([id, vector]) => ({ id, vector }));

/** `count` unit vectors, and beside each one another whose cosine with it is `cosine`. */
function pairs(count: number, length: number, cosine: number, seed: number) {
  const random = randomStream(seed);
  const normals = () => Array.from({ length }, () => random.normal());
  const dot = (a: number[], b: number[]) => a.reduce((sum, x, i) => sum + x * b[i]!, 0);
  const unit = (a: number[]) => a.map((x) => x / Math.sqrt(dot(a, a)));
  return Array.from({ length: count }, (_, i) => {
    const a = unit(normals());
    const other = normals();
    const across = unit(other.map((x, k) => x - dot(a, other) * a[k]!));
    const b = a.map((x, k) => cosine * x + Math.sqrt(1 - cosine * cosine) * across[k]!);
    return [
      { id: `a${i}`, vector: a },
      { id: `b${i}`, vector: b },
    ];
  });
}

describe('Tasks by their embeddings', () => {
  it('share a cluster where the cosine reaches the threshold, whatever their lengths', () => {
    const placed = similarByVectors(rows({ d: [0, 1, 0], c: [3, 4, 0], b: [0, 1e-300, 0], a: [1, 0, 0] }), {
      threshold: 0.8,
    });
    expect(Object.fromEntries([...placed].map(([id, one]) => [id, one.cluster]))).toEqual({
      a: 'a',
      b: 'b',
      c: 'b',
      d: 'b',
    });
    const strict = similarByVectors(rows({ a: [1, 2, 3], b: [2, 4, 6], c: [1, 2, 3.01] }), { threshold: 1 });
    expect(strict.get('b')!.cluster).toBe('a');
    expect(strict.get('c')!.cluster).toBe('c');
  });

  it('of a row that cannot be compared say why, and the others are kept', () => {
    const placed = similarByVectors(
      rows({ a: [1, 0], b: [1, 0, 0], c: [0, 0], d: [Number.NaN, 1], e: null, f: [2, 0], g: [1e308, 1e308] }),
    );
    expect(Object.fromEntries(placed)).toEqual({
      a: { cluster: 'a', reason: null },
      b: { cluster: 'b', reason: 'other_length' },
      c: { cluster: 'c', reason: 'zero_vector' },
      d: { cluster: 'd', reason: 'not_finite' },
      e: { cluster: 'e', reason: 'no_vector' },
      f: { cluster: 'a', reason: null },
      g: { cluster: 'g', reason: null },
    });
  });

  it('are the same clusters in any order of rows', () => {
    const pool = pairs(20, 6, 0.93, 4).flat();
    for (const exact_up_to of [0, 1000]) {
      const expected = similarByVectors(pool, { exact_up_to });
      fc.assert(
        fc.property(fc.shuffledSubarray(pool, { minLength: pool.length }), (shuffled) => {
          expect(similarByVectors(shuffled, { exact_up_to })).toEqual(expected);
        }),
        { numRuns: 20 },
      );
    }
  });

  it('meet as often as the bands say where there are too many to compare all', () => {
    const cosine = SIMILAR_VECTORS.threshold + 0.001;
    const pool = pairs(600, 32, cosine, 11);
    const placed = similarByVectors(pool.flat());
    const met = pool.filter((_, i) => placed.get(`a${i}`)!.cluster === placed.get(`b${i}`)!.cluster).length;
    const least = meeting(1 - Math.acos(SIMILAR_VECTORS.threshold) / Math.PI, vectorBands(SIMILAR_VECTORS));
    expect(least).toBeGreaterThan(0.95);
    expect(met / pool.length).toBeGreaterThan(least - 0.03);
    expect(new Set([...placed.values()].map((one) => one.cluster)).size).toBe(2 * pool.length - met);
  });

  it('cost no more each where there are many, not even where all of them point one way', () => {
    const cost = (count: number) => {
      const random = randomStream(3);
      const pool = Array.from({ length: count }, (_, i) => ({
        id: `t${i}`,
        vector: Array.from({ length: 24 }, () => 1 + 0.45 * random.normal()),
      }));
      const start = process.cpuUsage();
      similarByVectors(pool, { exact_up_to: 0, threshold: 0.99 });
      const { user, system } = process.cpuUsage(start);
      return (user + system) / count;
    };
    cost(300);
    // A quadratic one would be 8 times as dear.
    expect(cost(6400) / cost(800)).toBeLessThan(3.5);
  });

  it('are refused with an id that is there twice or a parameter that means nothing', () => {
    expect(() => similarByVectors([...rows({ a: [1] }), ...rows({ a: [1] })])).toThrow(/different ids/);
    expect(() => similarByVectors([], { threshold: 2 })).toThrow(expect.objectContaining({ code: 'method_input' }));
    expect(similarByVectors([])).toEqual(new Map());
  });
});
