import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type AggregationMode, aggregate, aggregationWeights } from '../../trainer/model/losses/aggregation.ts';
import { ppoClipLoss, ppoClipToken } from '../../trainer/model/losses/ppo-clip.ts';
import { sequenceMeanWeights, tokenMeanWeights } from '../../trainer/model/losses/sft.ts';
import { expectAsPlain, expectNear, randomTokens, total } from './losses-graph.ts';

const MODES: readonly AggregationMode[] = [
  'token-mean',
  'seq-mean-token-sum',
  'seq-mean-token-mean',
  'seq-mean-token-sum-norm',
  'token-sum-norm',
  'dr_grpo',
];

const token = fc.tuple(fc.double({ min: -9, max: 9, noNaN: true }), fc.boolean());
const norm = fc.option(fc.integer({ min: 1, max: 50 }));
/** Losses and masks of ragged rows with at least one token trained. */
const batch = fc
  .array(fc.array(token, { maxLength: 6 }), { minLength: 1, maxLength: 6 })
  .filter((rows) => rows.flat().some(([, on]) => on))
  .map((rows) => ({
    loss: rows.map((row) => row.map(([value]) => value)),
    masks: rows.map((row) => row.map(([, on]) => on)),
  }));
const bits = (masks: boolean[][]) => masks.map((row) => row.map((on): 0 | 1 => (on ? 1 : 0)));
const full = (rows: number, tokens: number) =>
  Array.from({ length: rows }, () => new Array<boolean>(tokens).fill(true));

describe('aggregation', () => {
  it.each(MODES)('%s by weights is what it is by its definition', (mode) => {
    fc.assert(
      fc.property(batch, norm, ({ loss, masks }, by) => {
        const weights = aggregationWeights(mode, masks, { norm: by }).flat();
        const weighted = total(loss.flat().map((value, t) => value * weights[t]!));
        expectNear(weighted, aggregate(mode, loss, bits(masks), { norm: by }), mode, 1e-9);
      }),
    );
  });

  it('gives nothing to a token that is masked, and nothing at all where all are', () => {
    fc.assert(
      fc.property(batch, fc.constantFrom(...MODES), ({ masks }, mode) => {
        const weights = aggregationWeights(mode, masks);
        expect(weights.map((row) => row.map((weight) => weight > 0))).toEqual(masks);
        const none = masks.map((row) => row.map(() => false));
        expect(aggregationWeights(mode, none)).toEqual(none.map((row) => row.map(() => 0)));
      }),
    );
  });

  it('by tokens and by sequences is that of supervised fine-tuning', () => {
    fc.assert(
      fc.property(batch, ({ masks }) => {
        expect(aggregationWeights('token-mean', masks)).toEqual(tokenMeanWeights(masks));
        const [ours, theirs] = [aggregationWeights('seq-mean-token-mean', masks), sequenceMeanWeights(masks)];
        for (const [t, weight] of ours.flat().entries()) expectNear(weight, theirs.flat()[t]!, 'weight', 1e-7);
      }),
    );
  });

  it('of GRPO, Dr. GRPO and DAPO is one number where all sequences are of full length', () => {
    const sizes = [fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 8 })] as const;
    fc.assert(
      fc.property(...sizes, fc.infiniteStream(fc.double({ min: -9, max: 9, noNaN: true })), (rows, length, stream) => {
        const loss = full(rows, length).map((row) => row.map(() => stream.next().value));
        const mask = bits(full(rows, length));
        const [dapo, ...others] = (
          ['token-mean', 'seq-mean-token-mean', 'dr_grpo', 'seq-mean-token-sum-norm'] as const
        ).map((mode) => aggregate(mode, loss, mask));
        for (const other of others) expectNear(other, dapo!, 'aggregate', 1e-6);
      }),
    );
  });

  it('of Dr. GRPO in two trainers is one number until a sequence has no token', () => {
    fc.assert(
      fc.property(batch, norm, ({ loss, masks }, by) => {
        const [verl, trl] = (['seq-mean-token-sum-norm', 'dr_grpo'] as const).map((mode) =>
          aggregate(mode, loss, bits(masks), { norm: by }),
        );
        const share = masks.filter((row) => row.includes(true)).length / masks.length;
        expectNear(trl!, verl! * share, 'dr_grpo', 1e-9);
      }),
    );
  });

  it('that divides by a length differs by the number of sequences from the one that also divides by those', () => {
    const loss = [
      [1, 2, 3, 0],
      [4, 0, 0, 0],
    ];
    const mask = bits([
      [true, true, true, false],
      [true, false, false, false],
    ]);
    expect(aggregate('seq-mean-token-sum-norm', loss, mask)).toBe(1.25);
    expect(aggregate('token-sum-norm', loss, mask)).toBe(2.5);
    expect(aggregate('seq-mean-token-sum', loss, mask)).toBe(5);
    expect(aggregate('token-mean', loss, mask)).toBe(2.5);
    expect(aggregate('seq-mean-token-mean', loss, mask)).toBeCloseTo(3, 6);
    expect(aggregate('dr_grpo', loss, mask, { norm: 10 })).toBe(0.5);
  });

  it.each(MODES)('%s of a policy loss is in the graph what it is in plain numbers', async (mode) => {
    const lengths = [5, 1, 9, 3];
    const tokens = randomTokens(21, total(lengths));
    let at = 0;
    const rows = lengths.map((length) => Array.from({ length }, () => at++));
    const masks = rows.map((row) => row.map((t) => t % 4 !== 3));
    const share = aggregationWeights(mode, masks, { norm: 12 }).flat();
    const advantages = tokens.weight;
    const fed = { ...tokens, weight: advantages.map((a, t) => Math.fround(a * share[t]!)) };
    await expectAsPlain(ppoClipLoss(), fed, 'logprobs', ({ logprobs }) => {
      const loss = rows.map((row) =>
        row.map((t) => ppoClipToken(logprobs![t]!, tokens['old.logprob'][t]!, advantages[t]!).loss),
      );
      return aggregate(mode, loss, bits(masks), { norm: 12 });
    });
  });
});
