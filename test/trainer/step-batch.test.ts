import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeBatch, partition, perCompletion, type Row } from '../../trainer/batch.ts';
import { MASKED, rotaryTable } from '../../trainer/models/positions.ts';
import { TINY } from './tiny-model.ts';

const rotary = rotaryTable(TINY);
const feed = (rows: Row[], name: string) => [...makeBatch(rows, rotary).feeds[name]!.data];

describe('a batch', () => {
  const rows: Row[] = [
    { promptIds: [1, 2, 3], completions: [{ tokenIds: [4, 5], weights: [0.5, 1], oldLogprobs: [-1, -2] }] },
    {
      promptIds: [6],
      completions: [
        { tokenIds: [7], weights: [2] },
        { tokenIds: [8, 9, 10], weights: [0, 0, 3] },
      ],
    },
  ];

  it('pads prompts on the left, where a mask hides the padding', () => {
    expect(feed(rows, 'prompt.ids')).toEqual([1, 2, 3, 0, 0, 6]);
    expect(feed(rows, 'prompt.mask')).toEqual([0, 0, 0, MASKED, MASKED, 0]);
    expect(feed(rows, 'prompt.last')).toEqual([2, 5]);
  });

  it('pads completions on the right with weight 0, each token predicted from the one before', () => {
    expect(feed(rows, 'target')).toEqual([4, 5, 0, 0, 0, 0, 7, 0, 0, 8, 9, 10]);
    expect(feed(rows, 'weight')).toEqual([0.5, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3]);
    expect(feed(rows, 'old.logprob')).toEqual([-1, -2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    expect(feed(rows, 'completion.ids')).toEqual([4, 0, 0, 0, 0, 0, 8, 9]);
    expect(makeBatch(rows, rotary).tokens).toBe(6);
  });

  it('gives results back in the shape of its rows', () => {
    const batch = makeBatch(rows, rotary);
    const numbered = Float32Array.from({ length: 12 }, (_, i) => i);
    expect(perCompletion(batch, numbered)).toEqual([[[0, 1]], [[6], [9, 10, 11]]]);
  });
});

describe('rows in parts', () => {
  const row = fc.record({
    promptIds: fc.array(fc.nat(5), { minLength: 1, maxLength: 30 }),
    completions: fc.array(
      fc.array(fc.nat(5), { maxLength: 20 }).map((tokenIds) => ({ tokenIds, weights: [] as number[] })),
      { minLength: 1, maxLength: 4 },
    ),
  });

  it('hold each row once, and more than one only within the limit', () => {
    fc.assert(
      fc.property(fc.array(row), fc.integer({ min: 1, max: 200 }), (rows, limit) => {
        const parts = partition(rows, limit);
        expect(parts.flat().sort((a, b) => a - b)).toEqual([...rows.keys()]);
        for (const part of parts) {
          const of = part.map((index) => rows[index]!);
          const n = Math.max(...of.map(({ completions }) => completions.length));
          const T = Math.max(...of.flatMap(({ completions }) => completions.map(({ tokenIds }) => tokenIds.length)));
          const P = Math.max(...of.map(({ promptIds }) => promptIds.length));
          expect(part.length === 1 || part.length * (n * T + P) <= limit).toBe(true);
        }
      }),
    );
  });
});
