import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { valueClipToken } from '../../trainer/model/losses/value-clip.ts';
import { valueCrossEntropyLoss, valueHuberLoss, valueMseLoss } from '../../trainer/model/losses/value-regression.ts';
import {
  evaluate,
  expectAsPlain,
  expectNear,
  part,
  randomTokens,
  runLoss,
  type Tokens,
  total,
} from './losses-graph.ts';
import { crossEntropy, huberError, squaredError } from './plain-losses.ts';

const weighted = (error: (value: number, t: number, tokens: Tokens) => number) => (tokens: Tokens) =>
  total(tokens.values!.map((value, t) => tokens.weight![t]! * error(value, t, tokens)));
const value = fc.double({ min: -9, max: 9, noNaN: true });

describe('the clipped value loss', () => {
  it('is never below half the squared error, and is that within the bound', () => {
    fc.assert(
      fc.property(value, value, value, fc.double({ min: 0, max: 3, noNaN: true }), (v, old, target, valueClip) => {
        const loss = valueClipToken(v, old, target, { valueClip });
        expect(loss).toBeGreaterThanOrEqual((v - target) ** 2 / 2);
        if (Math.abs(v - old) < valueClip) expect(loss).toBeCloseTo((v - target) ** 2 / 2, 9);
      }),
    );
  });

  it('is a mean over the tokens that are not masked', () => {
    const tokens = { pred: [1, 0.2, 99], old: [0.5, 0.1, 0], returns: [1.2, 0, 0], clip: 0.2 };
    expect(runLoss('value_clip_loss', { ...tokens, mask: [1, 1, 0] })).toBeCloseTo(0.0725, 9);
    expect(runLoss('value_clip_loss', { ...tokens, mask: [0, 1, 0] })).toBeCloseTo(0.02, 9);
  });
});

describe('a value head held to targets', () => {
  const share = randomTokens(62, 40);
  const cases = [
    { name: 'squared error', loss: valueMseLoss, error: squaredError, targets: share.return },
    { name: 'Huber error', loss: valueHuberLoss(), error: huberError, targets: share.return },
    {
      name: 'wide Huber error',
      loss: valueHuberLoss({ width: 1.3 }),
      error: (v: number, r: number) => huberError(v, r, { width: 1.3 }),
      targets: share.return,
    },
    {
      name: 'cross-entropy',
      loss: valueCrossEntropyLoss,
      error: crossEntropy,
      targets: share['kl.weight'].map((x, t) => [0, 1, Math.fround(10 * x)][t % 3]!),
    },
  ] as const;

  it.each(cases)('by $name is in the graph what it is in plain numbers, with its gradient', async (one) => {
    const tokens = { ...share, return: one.targets };
    await expectAsPlain(
      one.loss,
      tokens,
      'values',
      weighted((v, t, of) => one.error(v, of.return![t]!)),
    );
  });

  it.each(cases)('by $name in two parts sums to the whole', async ({ loss, targets }) => {
    const tokens = { ...share, return: targets };
    const [whole, ...halves] = await Promise.all(
      [tokens, part(tokens, 0, 13), part(tokens, 13, 40)].map((one) => evaluate(loss, one, 'values')),
    );
    expectNear(total(halves.map((half) => half.loss)), whole!.loss, 'loss');
    expect(halves.flatMap((half) => half.slope)).toEqual(whole!.slope);
  });

  it('by Huber error is half the square over the width near the target, and straight far from it', () => {
    fc.assert(
      fc.property(value, value, fc.double({ min: 0.01, max: 5, noNaN: true }), (v, target, width) => {
        const [error, size] = [huberError(v, target, { width }), Math.abs(v - target)];
        expect(error).toBeCloseTo(size <= width ? size ** 2 / (2 * width) : size - width / 2, 9);
        expect(error).toBeLessThanOrEqual(size + 1e-12);
      }),
    );
    expect(huberError(0.1, 0)).toBeCloseTo(0.05, 12);
  });

  it('as the plan of MARFT holds its critic, is its Huber loss of width 10 but for a factor, where errors are below 10', () => {
    const plan = parse(readFileSync('examples/planner-executor/plans/marft.yaml', 'utf8'));
    const error = { mse: squaredError, huber: huberError }[plan.policies.critic.train.loss as 'mse' | 'huber'];
    const published = (value: number) => huberError(value, 0, { width: 10 });
    for (const value of [0.01, 0.5, 1, 3])
      expect(error(value, 0) / error(1, 0)).toBeCloseTo(published(value) / published(1), 9);
  });

  it('by cross-entropy is least where the head says the logit of the target, and stays finite', () => {
    fc.assert(
      fc.property(fc.double({ min: 0.02, max: 0.98, noNaN: true }), value, (target, v) => {
        const best = crossEntropy(Math.log(target / (1 - target)), target);
        expect(crossEntropy(v, target)).toBeGreaterThanOrEqual(best - 1e-12);
      }),
    );
    expect(crossEntropy(-1000, 1)).toBe(1000);
    expect(crossEntropy(1000, 1)).toBe(0);
  });

  it('by cross-entropy reports whether head and target lean alike', async () => {
    const tokens = { values: [2, -2, 2, -2], return: [1, 1, 0, 0], weight: [1, 1, 1, 1] };
    const { report } = await evaluate(valueCrossEntropyLoss, tokens, 'values');
    expect(report.accuracy).toEqual([1, 0, 0, 1]);
  });
});
