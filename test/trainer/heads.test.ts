import { describe, expect, it } from 'vitest';
import { fileOrder } from '../../trainer/learn/data/orders.ts';
import type { ValueRow } from '../../trainer/learn/data/value-rows.ts';
import type { PreferenceRow } from '../../trainer/learn/preference.ts';
import { trainRewardHead } from '../../trainer/learn/reward-head.ts';
import { closeTrainable, evaluate, type TrainableModel, trainable } from '../../trainer/learn/step.ts';
import { ADAM } from '../../trainer/learn/training-loop.ts';
import { trainValueHead, type ValueLossName, valueBatch } from '../../trainer/learn/value-head.ts';
import { valueMseLoss } from '../../trainer/model/losses/value-regression.ts';
import { initialWeights, withScoreHead } from '../../trainer/model/parameters.ts';
import { TINY } from './tiny-model.ts';

const GOOD = 5;
const BAD = 6;
const answer = (...tokenIds: number[]) => ({ tokenIds, trained: tokenIds.map(() => true) });

/** After the first token of its answer a row is known to earn `good` or `bad`; the prompts say nothing of it. */
const rows = (prompts: readonly number[], good: number, bad: number): ValueRow[] =>
  prompts.flatMap((prompt) => [
    { promptIds: [prompt], ...answer(GOOD, 1), reward: good },
    { promptIds: [prompt], ...answer(BAD, 1), reward: bad },
  ]);

const scoring = (kind: 'value' | 'reward', seed?: number): TrainableModel => {
  const { config, weights } = withScoreHead(TINY, initialWeights(TINY, 2), kind, seed === undefined ? {} : { seed });
  return trainable(config, weights);
};

/** What the head outputs before each token. */
const values = async (model: TrainableModel, of: readonly ValueRow[]) =>
  (await evaluate(model, valueBatch(of), valueMseLoss)).logprobs.map(([completion]) => completion!.map(Number));

describe('a value head', () => {
  const seen = [8, 9, 10, 11, 12, 13, 14, 15];
  const unseen = rows([16, 17], 2, -1);

  it.each(['mse', 'huber'] as const)(
    'with the loss %s outputs what answers earn, of prompts that it never saw too, and their mean before the answer',
    async (loss: ValueLossName) => {
      const model = scoring('value');
      expect(await values(model, unseen)).toEqual(unseen.map(() => [0, 0]));
      const train = rows(seen, 2, -1);
      const { curves } = await trainValueHead(model, train, {
        ...{ steps: 150, order: fileOrder(train.length, { batch: train.length }), loss },
        ...{ schedule: () => 0.01, adam: ADAM, heldOut: unseen },
      });
      const found = await values(model, unseen);
      await closeTrainable(model);
      // Before its first token the two answers do not differ, and no number is better than the mean of both.
      expect(curves.loss.at(-1)).toBeLessThan(0.55 * curves.loss[0]!);
      expect(curves.heldOut.at(-1)!.loss).toBeLessThan(0.7 * curves.loss[0]!);
      for (const [i, { reward }] of unseen.entries()) {
        expect(Math.abs(found[i]![1]! - reward)).toBeLessThan(0.75);
        expect(found[i]![0]).toBe(found[i - (i % 2)]![0]);
      }
    },
  );

  it('with cross-entropy begins at ln 2 and leans towards what was right', async () => {
    const model = scoring('value');
    const train = rows(seen, 1, 0);
    const { curves } = await trainValueHead(model, train, {
      ...{ steps: 100, order: fileOrder(train.length, { batch: train.length }), loss: 'cross-entropy' },
      ...{ schedule: () => 0.01, adam: ADAM },
    });
    const found = await values(model, rows([16], 1, 0));
    await closeTrainable(model);
    expect(curves.loss[0]).toBeCloseTo(Math.LN2, 5);
    expect(found[0]![1]).toBeGreaterThan(0);
    expect(found[1]![1]).toBeLessThan(0);
  });

  it('takes the mean over all trained tokens of a step, each with the reward of its row as target', () => {
    const [first, second] = valueBatch([
      { promptIds: [1], tokenIds: [2, 3], trained: [false, true], reward: 0.5 },
      { promptIds: [1], ...answer(4, 5, 6), reward: -2 },
    ]);
    expect(first!.completions).toEqual([{ tokenIds: [2, 3], weights: [0, 0.25], returns: [0.5, 0.5] }]);
    expect(second!.completions).toEqual([{ tokenIds: [4, 5, 6], weights: [0.25, 0.25, 0.25], returns: [-2, -2, -2] }]);
  });
});

describe('a reward head', () => {
  const pairs = (prompts: readonly number[]): PreferenceRow[] =>
    prompts.map((prompt) => ({ promptIds: [prompt], chosen: answer(GOOD, prompt, 1), rejected: answer(BAD, 1) }));

  it('scores the chosen answer higher, of prompts that it never saw too', async () => {
    const model = scoring('reward', 3);
    const train = pairs([8, 9, 10, 11]);
    const { curves } = await trainRewardHead(model, train, {
      ...{ steps: 60, order: fileOrder(train.length, { batch: train.length }), schedule: () => 0.01 },
      ...{ adam: ADAM, heldOut: pairs([12, 13]) },
    });
    await closeTrainable(model);
    const held = curves.heldOut.at(-1)!;
    expect(curves.loss.at(-1)).toBeLessThan(0.1);
    expect(held.loss).toBeLessThan(0.3);
    expect(curves.metrics.accuracy!.at(-1)).toBe(1);
  });
});
