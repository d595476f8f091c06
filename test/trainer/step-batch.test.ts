import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { layoutOf, makeBatch, partition, perCompletion } from '../../trainer/learn/data/batch.ts';
import type { Row } from '../../trainer/learn/data/row.ts';
import { MASKED, rotaryTable } from '../../trainer/model/positions.ts';
import { GROUPED, TINY } from './tiny-model.ts';

const model = { config: TINY, rotary: rotaryTable(TINY) };
const feed = (rows: Row[], name: string) => [...makeBatch(rows, model).feeds[name]!.data];

describe('a batch of prompts that completions share', () => {
  const rows: Row[] = [
    { promptIds: [1, 2, 3], completions: [{ tokenIds: [4, 5], weights: [0.5, 1], oldLogprobs: [-1, -2] }] },
    {
      promptIds: [6],
      completions: [
        { tokenIds: [7], weights: [2], oldLogprobs: [-3] },
        { tokenIds: [8, 9, 10], weights: [0, 0, 3], oldLogprobs: [-4, -5, -6] },
      ],
    },
  ];

  it('pads prompts on the left, where a mask hides the padding', () => {
    expect(feed(rows, 'prompt.ids')).toEqual([1, 2, 3, 0, 0, 6]);
    expect(feed(rows, 'prompt.mask')).toEqual([0, 0, 0, MASKED, MASKED, 0]);
    expect(feed(rows, 'prompt.last')).toEqual([2, 5]);
  });

  it('pads completions on the right, and names the trained tokens and the rows that predict them', () => {
    expect(feed(rows, 'completion.ids')).toEqual([4, 0, 0, 0, 0, 0, 8, 9]);
    expect(feed(rows, 'predict')).toEqual([0, 1, 6, 11]);
    expect(feed(rows, 'target')).toEqual([4, 5, 7, 10]);
    expect(feed(rows, 'weight')).toEqual([0.5, 1, 2, 3]);
    expect(feed(rows, 'old.logprob')).toEqual([-1, -2, -3, -6]);
    expect(makeBatch(rows, model).tokens).toBe(4);
  });

  it('gives results back in the shape of its rows, null where a token was not trained', () => {
    expect(perCompletion(makeBatch(rows, model), [10, 11, 12, 13])).toEqual([[[10, 11]], [[12], [null, null, 13]]]);
    expect(perCompletion(makeBatch(rows, model, { wanted: 'all' }), [0, 1, 2, 3, 4, 5])).toEqual([
      [[0, 1]],
      [[2], [3, 4, 5]],
    ]);
  });

  it('knows no log-probability that a row leaves out, and takes a weight that is left out as 0', () => {
    const some: Row[] = [{ promptIds: [1], completions: [{ tokenIds: [2], weights: [1] }, rows[0]!.completions[0]!] }];
    const { feeds } = makeBatch(some, model);
    expect(feeds['old.logprob']).toBeUndefined();
    expect([...feeds['kl.weight']!.data]).toEqual([0, 0, 0]);
  });

  it('numbers segments through all rows', () => {
    const segmented: Row[] = [
      {
        promptIds: [1],
        completions: [{ tokenIds: [2, 3], weights: [1, 1], segments: [0, 1] }],
        segmentWeights: [5, 6],
      },
      { promptIds: [1], completions: [{ tokenIds: [4], weights: [1], segments: [0] }], segmentWeights: [7] },
    ];
    expect(feed(segmented, 'segment')).toEqual([0, 1, 2]);
    expect(feed(segmented, 'segment.weight')).toEqual([5, 6, 7]);
  });
});

describe('a batch of rows with one completion each', () => {
  const rows: Row[] = [
    { promptIds: [1, 2], completions: [{ tokenIds: [3, 4, 5], weights: [1, 2, 0] }] },
    { promptIds: [6], completions: [{ tokenIds: [7], weights: [3] }] },
  ];

  it('holds tokens one behind the other, without padding and without what comes after the last trained token', () => {
    expect(makeBatch(rows, model).layout).toBe('sequences');
    expect(feed(rows, 'tokens.ids')).toEqual([1, 2, 3, 6]);
    expect(feed(rows, 'predict')).toEqual([1, 2, 3]);
    expect(feed(rows, 'target')).toEqual([3, 4, 7]);
  });

  it('finds each row of each head again: a place names the row that names the place', () => {
    for (const config of [TINY, GROUPED]) {
      const { feeds } = makeBatch(rows, { config, rotary: rotaryTable(config) });
      for (const [places, back] of [
        ['attend.queries', 'attend.query_rows'],
        ['attend.keys', 'attend.key_rows'],
      ] as const) {
        const at = feeds[places]!.data;
        expect([...feeds[back]!.data].map((place) => at[place])).toEqual([...feeds[back]!.data.keys()]);
      }
    }
  });

  it('is refused when no token is trained, and when an array has not the length of its tokens', () => {
    const none: Row[] = [{ promptIds: [1], completions: [{ tokenIds: [2], weights: [0] }] }];
    expect(() => makeBatch(none, model)).toThrow(/at least one token with a weight/);
    const short: Row[] = [{ promptIds: [1], completions: [{ tokenIds: [2], weights: [1], returns: [] }] }];
    expect(() => makeBatch(short, model)).toThrow(/returns must have one number for each of 1 tokens, got 0/);
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
          const computed =
            layoutOf(rows) === 'sequences'
              ? of.reduce(
                  (sum, { promptIds, completions }) => sum + promptIds.length + completions[0]!.tokenIds.length,
                  0,
                )
              : part.length * (n * T + P);
          expect(part.length === 1 || computed <= limit).toBe(true);
        }
      }),
    );
  });
});
