import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { equalBeginnings } from '../../trainer/learn/data/equal-beginnings.ts';
import type { Row } from '../../trainer/learn/data/row.ts';
import type { TokenRow } from '../../trainer/learn/data/training-rows.ts';
import { supervisedBatch } from '../../trainer/learn/sft.ts';
import { closeTrainable, trainable, trainStep } from '../../trainer/learn/step.ts';
import { ADAM } from '../../trainer/learn/training-loop.ts';
import { sftLoss } from '../../trainer/model/losses/sft.ts';
import { sftEntropyLoss } from '../../trainer/model/losses/sft-entropy.ts';
import { initialWeights } from '../../trainer/model/parameters.ts';
import { randomStream } from '../../trainer/tensor/random.ts';
import { ids, TINY } from './tiny-model.ts';

/** Conversations that begin alike, go on with a prompt of their own, and are learnt in part. */
function conversations(seed: number, { beginning, count }: { beginning: number; count: number }): TokenRow[] {
  const random = randomStream(seed);
  const first = ids(random, beginning, TINY.vocab_size);
  return Array.from({ length: count }, () => {
    const own = ids(random, 1 + Math.floor(random.uniform() * 6), TINY.vocab_size);
    const tokenIds = ids(random, 2 + Math.floor(random.uniform() * 8), TINY.vocab_size);
    return {
      promptIds: [...first, ...own],
      tokenIds,
      trained: tokenIds.map((_, t) => t === 0 || random.uniform() < 0.6),
    };
  });
}

/** Each trained token with everything before it and its weights: what a loss is made of. */
const learnt = (rows: readonly Row[]): string[] =>
  rows
    .flatMap(({ promptIds, completions }) =>
      completions.flatMap(({ tokenIds, weights, entropyWeights }) =>
        tokenIds.flatMap((id, t) =>
          weights[t] === 0
            ? []
            : [JSON.stringify([[...promptIds, ...tokenIds.slice(0, t)], id, weights[t], entropyWeights?.[t]])],
        ),
      ),
    )
    .sort();

const computed = (rows: readonly Row[]): number =>
  rows.reduce(
    (sum, { promptIds, completions }) =>
      sum + promptIds.length + completions.reduce((all, { tokenIds }) => all + tokenIds.length, 0),
    0,
  );

describe('rows that begin alike', () => {
  it('are computed from one beginning, and exactly the same is learnt from the same context', () => {
    fc.assert(
      fc.property(
        fc.nat(),
        fc.constantFrom(0, 10, 64, 100),
        fc.integer({ min: 1, max: 7 }),
        fc.boolean(),
        (seed, beginning, count, entropy) => {
          const rows = [
            ...conversations(seed, { beginning, count }),
            ...conversations(seed + 1, { beginning, count: 2 }),
          ];
          const apart = supervisedBatch(rows, 'sequence-mean', entropy ? 0.1 : 0);
          const together = equalBeginnings(apart, 400);
          expect(learnt(together)).toEqual(learnt(apart));
          expect(computed(together)).toBeLessThanOrEqual(computed(apart));
          for (const { promptIds, completions } of together) {
            const longest = Math.max(...completions.map(({ tokenIds }) => tokenIds.length));
            if (completions.length > 1)
              expect(promptIds.length + completions.length * longest).toBeLessThanOrEqual(400);
          }
        },
      ),
    );
  });

  it('become one row where that saves work, and stay apart where it saves none', () => {
    const together = (beginning: number) =>
      equalBeginnings(supervisedBatch(conversations(1, { beginning, count: 4 }), 'token-mean', 0));
    expect(together(80)).toHaveLength(1);
    expect(together(80)[0]!.promptIds.length).toBeGreaterThanOrEqual(80);
    expect(together(5)).toHaveLength(4);
    expect(equalBeginnings(together(80))).toEqual(together(80));
  });

  it.each([
    ['without an entropy bonus', 0, sftLoss],
    ['with one', 0.05, sftEntropyLoss],
  ])('have the loss and the gradient they have apart, %s', async (_, entropy, loss) => {
    const apart = supervisedBatch(conversations(3, { beginning: 90, count: 5 }), 'token-mean', entropy);
    const together = equalBeginnings(apart);
    expect(together).toHaveLength(1);
    const [one, other] = await Promise.all(
      [apart, together].map(async (rows) => {
        const model = trainable(TINY, initialWeights(TINY, 0), { threads: 1 });
        const outcome = await trainStep(model, rows, { ...ADAM, loss, learningRate: 1e-3, accuracy: true });
        await closeTrainable(model);
        return outcome;
      }),
    );
    expect(other!.loss).toBeCloseTo(one!.loss, 5);
    expect(other!.gradientNorm).toBeCloseTo(one!.gradientNorm, 4);
    expect(other!.tokens).toBe(one!.tokens);
    expect(other!.metrics.accuracy).toBeCloseTo(one!.metrics.accuracy!, 6);
  });
});
