import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type DpoOptions, dpoLoss, dpoPair } from '../../trainer/model/losses/dpo.ts';
import {
  lastTokenPreference,
  type PreferenceSegments,
  preferenceSegments,
} from '../../trainer/model/losses/preference-segments.ts';
import { bradleyTerryLoss } from '../../trainer/model/losses/reward-head.ts';
import { evaluate, expectAsPlain, expectNear, randomTokens, type Tokens, total } from './losses-graph.ts';
import { bradleyTerryPair } from './plain-losses.ts';

/** The trained tokens of pairs, segments numbered through, with what a model says of them drawn by a seed. */
function batchOf(pairs: readonly PreferenceSegments[], seed: number): Tokens {
  const tokens = pairs.flatMap(({ completions }, pair) =>
    completions.flatMap(({ weights }) => weights.filter((weight) => weight !== 0).map((weight) => ({ weight, pair }))),
  );
  const { logprobs, 'ref.logprob': reference, values } = randomTokens(seed, tokens.length);
  return {
    logprobs,
    'ref.logprob': reference,
    values,
    weight: tokens.map(({ weight }) => weight),
    segment: tokens.map(({ pair }) => pair),
    segmentWeights: pairs.flatMap(({ segmentWeights }) => segmentWeights),
  };
}

/** Of each pair the sum of chosen minus that of rejected. */
function margins(tokens: Tokens, of: readonly number[]): number[] {
  return tokens.segmentWeights!.map((_, pair) =>
    total(of.map((x, t) => (tokens.segment![t] === pair ? x * tokens.weight![t]! : 0))),
  );
}
const gains = (tokens: Tokens) =>
  margins(
    tokens,
    tokens.logprobs!.map((p, t) => p - tokens['ref.logprob']![t]!),
  );

const masks = [
  [
    [true, true],
    [false, true, true, true],
  ],
  [[true], [true]],
  [
    [true, false, true],
    [true, false],
  ],
] as const;
const pairs = masks.map(([chosen, rejected]) => preferenceSegments(chosen, rejected, masks.length));
const delta = fc.double({ min: -500, max: 500, noNaN: true });

describe('direct preference optimisation', () => {
  it.each<DpoOptions>([{}, { beta: 2 }, { beta: 1, labelSmoothing: 0.3 }])(
    'is in the graph what it is in plain numbers, with its gradient: %j',
    async (options) => {
      const { beta = 0.1 } = options;
      const tokens = batchOf(pairs, 51);
      const { report } = await expectAsPlain(
        dpoLoss(options),
        tokens,
        'logprobs',
        (of) => total(gains(of).map((gain) => dpoPair(gain, options))) / pairs.length,
      );
      for (const [t, pair] of tokens.segment!.entries()) {
        expectNear(report.reward_margin![t]!, beta * gains(tokens)[pair]!, 'margin');
        expect(report.accuracy![t]).toBe(gains(tokens)[pair]! > 0 ? 1 : 0);
      }
      expect(new Set(report.accuracy)).toEqual(new Set([0, 1]));
    },
  );

  it('is log 2 where policy and reference agree, whatever the smoothing', async () => {
    const { logprobs, ...tokens } = batchOf(pairs, 52);
    for (const labelSmoothing of [0, 0.25]) {
      const loss = dpoLoss({ labelSmoothing });
      const { loss: value } = await evaluate(loss, { ...tokens, logprobs: tokens['ref.logprob']! }, 'logprobs');
      expectNear(value, Math.LN2, 'loss');
    }
    expect(logprobs).not.toEqual(tokens['ref.logprob']);
  });

  it('falls as the margin grows and stays finite far out, in plain numbers and in the graph', async () => {
    fc.assert(
      fc.property(delta, delta, (a, b) => {
        const [low, high] = [Math.min(a, b), Math.max(a, b)];
        expect(dpoPair(high, { beta: 5 })).toBeLessThanOrEqual(dpoPair(low, { beta: 5 }));
        expect(Number.isFinite(dpoPair(low, { beta: 5 }))).toBe(true);
      }),
    );
    const far = { logprobs: [-4000, 0], 'ref.logprob': [0, 0], weight: [1, -1], segment: [0, 0], segmentWeights: [1] };
    const { loss, slope } = await evaluate(dpoLoss({ beta: 1 }), far, 'logprobs');
    expect(loss).toBe(4000);
    expect(slope).toEqual([-1, 1]);
  });

  it('smoothed is the mean over labels flipped by that share', () => {
    const share = fc.double({ min: 0, max: 0.45, noNaN: true });
    fc.assert(
      fc.property(fc.double({ min: -50, max: 50, noNaN: true }), share, (d, labelSmoothing) => {
        const plain = (at: number) => dpoPair(at);
        expect(dpoPair(d, { labelSmoothing })).toBeCloseTo(
          (1 - labelSmoothing) * plain(d) + labelSmoothing * plain(-d),
          9,
        );
      }),
    );
  });

  it('in two parts sums to the whole', async () => {
    const tokens = batchOf(pairs, 53);
    const cut = tokens.segment!.indexOf(1);
    const first = Object.fromEntries(Object.entries(tokens).map(([name, list]) => [name, list.slice(0, cut)]));
    const rest = Object.fromEntries(Object.entries(tokens).map(([name, list]) => [name, list.slice(cut)]));
    const weights = tokens.segmentWeights!;
    const parts: Tokens[] = [
      tokens,
      { ...first, segmentWeights: weights.slice(0, 1) },
      { ...rest, segment: tokens.segment!.slice(cut).map((pair) => pair - 1), segmentWeights: weights.slice(1) },
    ];
    const [whole, ...halves] = await Promise.all(parts.map((one) => evaluate(dpoLoss(), one, 'logprobs')));
    expectNear(total(halves.map(({ loss }) => loss)), whole!.loss, 'loss');
    expect(halves.flatMap(({ slope }) => slope)).toEqual(whole!.slope);
  });
});

describe('a reward head that learns from preferences', () => {
  it('trains the last token of each answer alone', () => {
    expect(lastTokenPreference(3, 2, 4)).toEqual({
      completions: [
        { weights: [0, 0, 1], segments: [0, 0, 0] },
        { weights: [0, -1], segments: [0, 0] },
      ],
      segmentWeights: [0.25],
    });
  });

  it('is in the graph what it is in plain numbers, with its gradient', async () => {
    const lengths = [
      [3, 2],
      [1, 1],
      [5, 7],
      [2, 2],
    ] as const;
    const tokens = batchOf(
      lengths.map(([chosen, rejected]) => lastTokenPreference(chosen, rejected, lengths.length)),
      54,
    );
    const { report, slope } = await expectAsPlain(
      bradleyTerryLoss,
      tokens,
      'values',
      ({ values }) =>
        total(lengths.map((_, pair) => bradleyTerryPair(values![2 * pair]!, values![2 * pair + 1]!))) / lengths.length,
    );
    expect(slope).toHaveLength(2 * lengths.length);
    for (const [t, pair] of tokens.segment!.entries()) {
      const margin = tokens.values![2 * pair]! - tokens.values![2 * pair + 1]!;
      expectNear(report.reward_margin![t]!, margin, 'margin');
      expect(report.accuracy![t]).toBe(margin > 0 ? 1 : 0);
    }
  });

  it('sees only the difference of two rewards', () => {
    const value = fc.double({ min: -20, max: 20, noNaN: true });
    fc.assert(
      fc.property(value, value, value, (chosen, rejected, shift) => {
        const loss = bradleyTerryPair(chosen, rejected);
        expect(bradleyTerryPair(chosen + shift, rejected + shift)).toBeCloseTo(loss, 9);
        // Both orders together are certain to be one of the two.
        expect(Math.exp(-loss) + Math.exp(-bradleyTerryPair(rejected, chosen))).toBeCloseTo(1, 9);
      }),
    );
  });
});
