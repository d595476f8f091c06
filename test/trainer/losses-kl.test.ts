import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type KlEstimator, klEstimates, withReferenceKl } from '../../trainer/model/losses/kl.ts';
import { ppoClipLoss, ppoClipToken } from '../../trainer/model/losses/ppo-clip.ts';
import { sftLoss } from '../../trainer/model/losses/sft.ts';
import { evaluate, expectAsPlain, expectNear, randomTokens, type Tokens, total } from './losses-graph.ts';

const ESTIMATORS: readonly KlEstimator[] = ['k1', 'abs', 'k2', 'k3'];
const logprob = fc.double({ min: -60, max: 0, noNaN: true });

describe('the divergence to a reference', () => {
  it('is never negative by abs, k2 and k3, and nothing where both agree', () => {
    fc.assert(
      fc.property(logprob, logprob, (p, q) => {
        const { abs, k2, k3 } = klEstimates(p, q);
        expect(Math.min(abs, k2, k3)).toBeGreaterThanOrEqual(0);
        expect(k3).toBeLessThanOrEqual(10);
        expect(Object.values(klEstimates(p, p)).map(Math.abs)).toEqual([0, 0, 0, 0]);
      }),
    );
  });

  it('has the same mean by k1 and k3 over all that the policy can say, which is the divergence', () => {
    // Near enough that no estimate meets its bound.
    const share = fc.double({ min: 0.3, max: 1, noNaN: true });
    fc.assert(
      fc.property(fc.array(fc.tuple(share, share), { minLength: 2, maxLength: 4 }), (drawn) => {
        const [p, q] = [0, 1].map((side) => {
          const list = drawn.map((pair) => pair[side]!);
          return list.map((x) => x / total(list));
        }) as [number[], number[]];
        const each = p.map((x, i) => klEstimates(Math.log(x), Math.log(q[i]!)));
        const expected = (of: KlEstimator) => total(each.map((one, i) => p[i]! * one[of]));
        expect(expected('k3')).toBeCloseTo(expected('k1'), 9);
      }),
    );
  });

  it.each(ESTIMATORS)(
    'as %s is in the graph what it is in plain numbers, beside any policy loss',
    async (estimator) => {
      const tokens = randomTokens(31, 50);
      const each = (of: Tokens) => of.logprobs!.map((p, t) => klEstimates(p, of['ref.logprob']![t]!)[estimator]);
      const penalty = (of: Tokens) => total(each(of).map((kl, t) => of['kl.weight']![t]! * kl));
      const policy = (of: Tokens) =>
        total(of.logprobs!.map((p, t) => ppoClipToken(p, of['old.logprob']![t]!, of.weight![t]!).loss));
      const { report } = await expectAsPlain(
        withReferenceKl(ppoClipLoss(), estimator),
        tokens,
        'logprobs',
        (of) => policy(of) + penalty(of),
      );
      for (const [t, kl] of each(tokens).entries()) expectNear(report.kl![t]!, kl, `kl ${t}`);
      expect(Object.keys(report)).toEqual(['clip_share', 'ratio', 'kl']);
      const likelihood = (of: Tokens) => -total(of.logprobs!.map((p, t) => p * of.weight![t]!)) + penalty(of);
      await expectAsPlain(withReferenceKl(sftLoss, estimator), tokens, 'logprobs', likelihood);
    },
  );

  it.each(['abs', 'k2', 'k3'] as const)(
    'as %s pushes nowhere while the policy is its own reference',
    async (estimator) => {
      const { logprobs } = randomTokens(32, 10);
      const zeros = logprobs.map(() => 0);
      const tokens = { logprobs, 'ref.logprob': logprobs, weight: zeros, 'kl.weight': zeros.map(() => 1) };
      const { loss, slope } = await evaluate(withReferenceKl(sftLoss, estimator), tokens, 'logprobs');
      expect([loss, ...slope].map(Math.abs)).toEqual([0, ...zeros]);
    },
  );

  it('as k3 stays finite and lets go of a token far from the reference', async () => {
    const tokens = { logprobs: [-100, 0, -4], 'ref.logprob': [0, -100, 0], weight: [0, 0, 0], 'kl.weight': [1, 1, 1] };
    const { slope, report } = await evaluate(withReferenceKl(sftLoss), tokens, 'logprobs');
    expect(report.kl).toEqual([10, 10, 10]);
    expect(slope.map(Math.abs)).toEqual([0, 0, 0]);
  });
});
