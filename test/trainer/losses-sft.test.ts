import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sequenceMeanWeights, sftLoss, tokenMeanWeights } from '../../trainer/model/losses/sft.ts';
import { sftEntropyLoss } from '../../trainer/model/losses/sft-entropy.ts';
import { evaluate, expectAsPlain, expectNear, part, randomTokens, runLoss, total } from './losses-graph.ts';
import { weightedLikelihood } from './plain-losses.ts';

const logprobs = [
  [-0.1, -0.3],
  [-1.0, -2.0, -3.0, -2.0],
];
const all = logprobs.map((row) => row.map(() => true));

describe('supervised fine-tuning', () => {
  it('is a mean over sequences with sequence-mean weights and over tokens with token-mean weights', () => {
    expect(weightedLikelihood(logprobs.flat(), sequenceMeanWeights(all).flat())).toBeCloseTo(1.1, 6);
    expect(weightedLikelihood(logprobs.flat(), tokenMeanWeights(all).flat())).toBeCloseTo(1.4, 6);
  });

  it('skips tokens that are not trained and sequences that have none', () => {
    const masks = [[true, false], [false, true, true, false], [false]];
    const padded = [...logprobs, [-9]];
    expect(weightedLikelihood(padded.flat(), sequenceMeanWeights(masks).flat())).toBeCloseTo((0.1 + 2.5) / 2, 6);
    expect(weightedLikelihood(padded.flat(), tokenMeanWeights(masks).flat())).toBeCloseTo(5.1 / 3, 6);
  });

  it('has weights that sum to 1 whenever a token is trained', () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.boolean())), (masks) => {
        const expected = masks.flat().some(Boolean) ? 1 : 0;
        expect(total(sequenceMeanWeights(masks).flat())).toBeCloseTo(expected, 9);
        expect(total(tokenMeanWeights(masks).flat())).toBeCloseTo(expected, 9);
      }),
    );
  });

  it('has weights that give what the means by name give, whatever the mask', () => {
    const row = fc.array(fc.tuple(fc.double({ min: -20, max: 0, noNaN: true }), fc.boolean()));
    fc.assert(
      fc.property(fc.array(row), (rows) => {
        const masks = rows.map((tokens) => tokens.map(([, on]) => on));
        fc.pre(masks.flat().some(Boolean));
        const lists = rows.map((tokens) => tokens.map(([logprob]) => logprob));
        const input = { logprobs: lists, mask: masks.map((mask) => mask.map(Number)) };
        for (const [name, weights] of [
          ['sft_sequence_mean', sequenceMeanWeights],
          ['sft_token_mean', tokenMeanWeights],
        ] as const) {
          const loss = weightedLikelihood(lists.flat(), weights(masks).flat());
          expectNear(runLoss(name, input) as number, loss, name, 1e-9);
        }
      }),
    );
  });

  it('is one number by both means where sequences have equally many trained tokens', () => {
    const length = fc.integer({ min: 1, max: 6 });
    const rows = length.chain((n) =>
      fc.array(fc.array(fc.double({ min: -20, max: 0, noNaN: true }), { minLength: n, maxLength: n }), {
        minLength: 1,
      }),
    );
    fc.assert(
      fc.property(rows, (lists) => {
        const [bySequence, byToken] = ['sft_sequence_mean', 'sft_token_mean'].map((name) =>
          runLoss(name, { logprobs: lists }),
        );
        expect(bySequence).toBeCloseTo(byToken as number, 9);
      }),
    );
  });

  it('is in the graph what it is in plain numbers, and reports nothing', async () => {
    const { logprobs, weight } = randomTokens(1, 40);
    const { report } = await expectAsPlain(sftLoss, { logprobs, weight }, 'logprobs', (tokens) =>
      weightedLikelihood(tokens.logprobs!, tokens.weight!),
    );
    expect(report).toEqual({});
  });

  it('takes an entropy bonus off the loss where it is asked for', async () => {
    const tokens = randomTokens(3, 40);
    const plain = (of: typeof tokens) =>
      weightedLikelihood(of.logprobs, of.weight) - total(of.entropy.map((h, t) => h * of['entropy.weight'][t]!));
    for (const by of ['logprobs', 'entropy'] as const) {
      const { report } = await expectAsPlain(sftEntropyLoss, tokens, by, plain as never);
      expect(report).toEqual({ entropy: tokens.entropy });
    }
  });

  it('in two parts sums to the whole', async () => {
    const tokens = randomTokens(5, 30);
    const whole = await evaluate(sftEntropyLoss, tokens, 'logprobs');
    const parts = [part(tokens, 0, 11), part(tokens, 11, 30)];
    const halves = await Promise.all(parts.map((one) => evaluate(sftEntropyLoss, one, 'logprobs')));
    expectNear(total(halves.map(({ loss }) => loss)), whole.loss, 'loss');
    expect(halves.flatMap(({ slope }) => slope)).toEqual(whole.slope);
  });
});

describe('ordered batches', () => {
  it('hold every row once, each problem in one batch by rising place', () => {
    const row = fc.record({ problem: fc.integer({ min: 0, max: 4 }), seq: fc.integer({ min: 0, max: 9 }) });
    fc.assert(
      fc.property(fc.array(row), (drawn) => {
        const rows = drawn.map((one, id) => ({ id, ...one }));
        const batches = runLoss('ordered_batches', { rows }) as number[][];
        expect(batches.flat().toSorted((a, b) => a - b)).toEqual(rows.map(({ id }) => id));
        expect(batches.map((ids) => rows[ids[0]!]!.problem)).toEqual([...new Set(rows.map(({ problem }) => problem))]);
        for (const ids of batches) {
          const steps = ids.map((id) => rows[id]!);
          expect(new Set(steps.map(({ problem }) => problem)).size).toBe(1);
          // Rows of one place keep their order.
          expect(steps).toEqual(steps.toSorted((a, b) => a.seq - b.seq || a.id - b.id));
        }
      }),
    );
  });
});
