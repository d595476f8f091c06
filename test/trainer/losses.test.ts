import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { constant, input } from '../../trainer/graph/operations.ts';
import { type Feed, openSession } from '../../trainer/graph/session.ts';
import { clippedPolicyLoss, clippedPolicyToken } from '../../trainer/losses/clipped-policy.ts';
import type { Loss } from '../../trainer/losses/loss.ts';
import { sequenceMeanWeights, sftLoss, tokenMeanWeights, weightedLikelihood } from '../../trainer/losses/sft.ts';
import { sftEntropyLoss } from '../../trainer/losses/sft-entropy.ts';
import { randomStream } from '../../trainer/random.ts';

const FIELDS = ['logprobs', 'entropy', 'weights', 'oldLogprobs', 'entropyWeights'] as const;
type Tokens = Readonly<Record<(typeof FIELDS)[number], readonly number[]>>;

/** A loss graph on its own, fed with token values instead of a model's. */
async function evaluate(loss: Loss, tokens: Tokens): Promise<{ loss: number; keep: readonly number[] | null }> {
  const N = tokens.logprobs.length;
  const values = Object.fromEntries(FIELDS.map((name) => [name, input(name, [N, 1])])) as Parameters<Loss['build']>[0];
  const built = loss.build(values);
  const outputs = { loss: built.loss, keep: built.keep ?? constant(new Float32Array(N), [N, 1]) };
  const session = await openSession(outputs);
  const feeds = Object.fromEntries(
    FIELDS.map((name): [string, Feed] => [name, { shape: [N, 1], data: Float32Array.from(tokens[name]) }]),
  );
  const out = await session.run(feeds, { loss: null, keep: null });
  await session.close();
  return { loss: out.loss!.data[0]!, keep: built.keep === null ? null : [...out.keep!.data] };
}

function randomTokens(seed: number, N: number): Tokens {
  const { normal, uniform } = randomStream(seed);
  const list = (of: () => number) => Array.from({ length: N }, () => Math.fround(of()));
  return {
    logprobs: list(() => -3 * uniform()),
    oldLogprobs: list(() => -3 * uniform()),
    weights: list(normal),
    entropy: list(uniform),
    entropyWeights: list(() => 0.1 * uniform()),
  };
}

describe('supervised fine-tuning', () => {
  const logprobs = [
    [-0.1, -0.3],
    [-1.0, -2.0, -3.0, -2.0],
  ];
  const all = logprobs.map((row) => row.map(() => true));

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
        const total = (weights: number[][]) => weights.flat().reduce((a, b) => a + b, 0);
        const expected = masks.flat().some(Boolean) ? 1 : 0;
        expect(total(sequenceMeanWeights(masks))).toBeCloseTo(expected, 9);
        expect(total(tokenMeanWeights(masks))).toBeCloseTo(expected, 9);
      }),
    );
  });

  it('is in the graph what it is in plain numbers', async () => {
    const tokens = randomTokens(1, 40);
    const { loss, keep } = await evaluate(sftLoss, tokens);
    expect(loss).toBeCloseTo(weightedLikelihood(tokens.logprobs, tokens.weights), 4);
    expect(keep).toBeNull();
  });

  it('takes an entropy bonus off the loss where it is asked for', async () => {
    const tokens = randomTokens(3, 40);
    const bonus = tokens.entropy.reduce((total, h, t) => total + h * tokens.entropyWeights[t]!, 0);
    const { loss } = await evaluate(sftEntropyLoss, tokens);
    expect(loss).toBeCloseTo(weightedLikelihood(tokens.logprobs, tokens.weights) - bonus, 4);
  });
});

describe('the clipped policy loss', () => {
  it('bounds the gain of a token and not its harm', () => {
    const range = { clipLow: 0.2, clipHigh: 0.2 };
    expect(clippedPolicyToken(-1, -1.2, 1, range).loss).toBeCloseTo(-1.2, 6);
    expect(clippedPolicyToken(-0.5, -1, 1, range).loss).toBeCloseTo(-1.2, 6);
    expect(clippedPolicyToken(-2, -1, -1, range).loss).toBeCloseTo(0.8, 6);
    // Without a dual clip the ratio e^1.9 counts in full.
    expect(clippedPolicyToken(-0.1, -2, -1, range).loss).toBeCloseTo(Math.exp(1.9), 6);
  });

  it('allows a larger ratio above than below by default', () => {
    expect(clippedPolicyToken(Math.log(1.25), 0, 1)).toEqual({ loss: expect.closeTo(-1.25, 9), kept: true });
    expect(clippedPolicyToken(Math.log(1.3), 0, 1)).toEqual({ loss: expect.closeTo(-1.28, 9), kept: false });
    expect(clippedPolicyToken(Math.log(0.75), 0, -1)).toEqual({ loss: expect.closeTo(0.8, 9), kept: false });
  });

  it('stays finite for a token whose probability exploded', () => {
    expect(clippedPolicyToken(0, -1000, -1).loss).toBeCloseTo(Math.exp(20), 0);
  });

  it('is in the graph what it is in plain numbers, entropy bonus subtracted', async () => {
    const tokens = randomTokens(2, 60);
    const range = { clipLow: 0.1, clipHigh: 0.3 };
    const expected = tokens.logprobs.map((logprob, t) =>
      clippedPolicyToken(logprob, tokens.oldLogprobs[t]!, tokens.weights[t]!, range),
    );
    const surrogate = expected.reduce((total, token) => total + token.loss, 0);
    const bonus = tokens.entropy.reduce((total, h, t) => total + h * tokens.entropyWeights[t]!, 0);
    const { loss, keep } = await evaluate(clippedPolicyLoss(range), tokens);
    expect(Math.abs(loss - (surrogate - bonus))).toBeLessThan(1e-4 * Math.abs(surrogate));
    expect(keep).toEqual(expected.map(({ kept }) => (kept ? 1 : 0)));
    expect(expected.some(({ kept }) => !kept)).toBe(true);
  });
});
