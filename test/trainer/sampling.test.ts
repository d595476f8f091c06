import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  bestTokens,
  drawToken,
  greedyToken,
  keep,
  rawLogprob,
  shortFloat,
  type Truncation,
  truncates,
} from '../../trainer/sample/sampling.ts';

/** Token ids that a truncation keeps, by sorting: best first, lower ids before higher ones that are as probable. */
function keptBySorting(p: Float32Array, { topK = 0, topP = 1, minP = 0 }: Truncation): number[] {
  let order = [...p.keys()].filter((id) => p[id]! > 0).sort((a, b) => p[b]! - p[a]! || a - b);
  if (topK > 0) order = order.slice(0, topK);
  const all = order.reduce((sum, id) => sum + p[id]!, 0);
  let before = 0;
  if (topP < 1) {
    order = order.filter((id) => {
      const stays = before < topP * all;
      before += p[id]!;
      return stays;
    });
  }
  return order.filter((id) => p[id]! >= Math.fround(minP * p[order[0]!]!) || p[id]! >= minP * p[order[0]!]!);
}

/** Probabilities that are multiples of 1/64 of their sum, so that many are equal and sums are exact. */
const coarse = fc
  .array(fc.nat(6), { minLength: 1, maxLength: 40 })
  .filter((counts) => counts.some((n) => n > 0))
  .map((counts) => {
    const total = 2 ** Math.ceil(Math.log2(counts.reduce((a, b) => a + b, 0)));
    return Float32Array.from(counts, (n) => n / total);
  });
const fine = fc.array(fc.double({ min: -20, max: 3, noNaN: true }), { minLength: 1, maxLength: 200 }).map((logits) => {
  const weights = logits.map(Math.exp);
  const total = weights.reduce((a, b) => a + b, 0);
  return Float32Array.from(weights, (w) => w / total);
});
const truncation: fc.Arbitrary<Truncation> = fc.record({
  topK: fc.constantFrom(0, 1, 2, 5, 30, 1000),
  topP: fc.constantFrom(1, 0.99, 0.75, 0.5, 0.01),
  minP: fc.constantFrom(0, 0.05, 0.5, 1),
});

/** The tokens that can be drawn, found by drawing at every border and between them. */
function drawn(p: Float32Array, cut: Truncation): Set<number> {
  const kept = keep(p, 0, p.length, cut);
  const ids = new Set<number>();
  for (let i = 0; i < 4000; i++) ids.add(drawToken(p, 0, p.length, i / 4000, kept).token);
  return ids;
}

describe('a truncated distribution', () => {
  it('has the tokens that sorting would keep, as many and as probable', () => {
    fc.assert(
      fc.property(fc.oneof(coarse, fine), truncation, (p, cut) => {
        const expected = keptBySorting(p, cut);
        const kept = keep(p, 0, p.length, cut);
        const near = Math.abs(kept.count - expected.length);
        // A sum that ends within rounding of topP may fall to either side.
        expect(near).toBeLessThanOrEqual(1);
        if (near === 0) {
          expect(kept.mass).toBeCloseTo(
            expected.reduce((sum, id) => sum + p[id]!, 0),
            6,
          );
        }
      }),
      { numRuns: 500 },
    );
  });

  it('draws its own tokens only, with log-probabilities that sum to 1', () => {
    fc.assert(
      fc.property(coarse, truncation, (p, cut) => {
        const expected = new Set(keptBySorting(p, cut));
        const kept = keep(p, 0, p.length, cut);
        let sum = 0;
        for (const id of drawn(p, cut)) expect(expected.has(id)).toBe(true);
        for (const id of expected) sum += p[id]! / kept.mass;
        expect(sum).toBeCloseTo(1, 6);
      }),
      { numRuns: 60 },
    );
  });

  it('is the most probable token alone where topK is 1, also among equals', () => {
    fc.assert(
      fc.property(fc.oneof(coarse, fine), fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (p, u) => {
        const draw = drawToken(p, 0, p.length, u, keep(p, 0, p.length, { topK: 1 }));
        expect(draw.token).toBe(greedyToken(p, 0, p.length).token);
        expect(draw.logprob).toBeCloseTo(0, 6);
      }),
    );
  });

  it('is everything where nothing is asked for', () => {
    expect(truncates({})).toBe(false);
    expect(truncates({ topK: 0, topP: 1, minP: 0 })).toBe(false);
    const p = Float32Array.of(0.5, 0, 0.25, 0.25);
    for (const u of [0, 0.3, 0.5, 0.6, 0.99]) {
      expect(drawToken(p, 0, 4, u, keep(p, 0, 4, {}))).toEqual(drawToken(p, 0, 4, u));
    }
  });

  it('reads its own row of many', () => {
    const rows = Float32Array.of(1, 0, 0, 0.1, 0.2, 0.7, 0, 1, 0);
    expect(drawToken(rows, 3, 3, 0.5, keep(rows, 3, 3, { topK: 2 }))).toMatchObject({ token: 2 });
    expect(greedyToken(rows, 6, 3).token).toBe(1);
    expect(bestTokens(rows, 3, 3, 2).map(({ token }) => token)).toEqual([2, 1]);
  });
});

describe('the best tokens', () => {
  it('are those that sorting gives, never more than are kept', () => {
    fc.assert(
      fc.property(fc.oneof(coarse, fine), fc.integer({ min: 1, max: 20 }), (p, count) => {
        const order = [...p.keys()].sort((a, b) => p[b]! - p[a]! || a - b);
        expect(bestTokens(p, 0, p.length, count).map(({ token }) => token)).toEqual(order.slice(0, count));
        const kept = keep(p, 0, p.length, { topK: 3 });
        expect(bestTokens(p, 0, p.length, count, kept)).toHaveLength(Math.min(count, kept.count));
      }),
    );
  });
});

it('gives a log-probability at temperature 1 without overflow', () => {
  const logits = Float32Array.of(1000, 999, -1000);
  expect(rawLogprob(logits, 0, 3, 0)).toBeCloseTo(-Math.log(1 + Math.exp(-1)), 6);
  expect(rawLogprob(logits, 0, 3, 2)).toBeCloseTo(-2000 - Math.log(1 + Math.exp(-1)), 3);
});

describe('A log-probability in few digits', () => {
  it('is the same 32-bit float, in no more than nine digits', () => {
    const anyLogprob = fc.double({ min: -110, max: -0, noNaN: true }).map((value) => value + 0);
    fc.assert(
      fc.property(anyLogprob, (value) => {
        const short = shortFloat(value);
        expect(Math.fround(short) + 0).toBe(Math.fround(value) + 0);
        expect(
          short
            .toString()
            .replace(/^-?[0.]*|e.*$/g, '')
            .replace('.', '').length,
        ).toBeLessThanOrEqual(9);
      }),
    );
  });
});
