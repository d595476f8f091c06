import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { policyLoss } from '../../trainer/learn/policy-losses.ts';
import { clippedPolicyLoss } from '../../trainer/model/losses/clipped-policy.ts';
import type { Loss } from '../../trainer/model/losses/loss.ts';
import { POLICY_PRESETS } from '../../trainer/model/losses/policy-presets.ts';
import { type PpoClipOptions, ppoClipLoss, ppoClipToken } from '../../trainer/model/losses/ppo-clip.ts';
import { evaluate, expectAsPlain, expectNear, part, randomTokens, type Tokens, total } from './losses-graph.ts';
import { clippedPolicyToken } from './plain-losses.ts';

const small = fc.double({ min: -4, max: 4, noNaN: true });

/** Σ over tokens in plain numbers. */
const plainClip = (options: PpoClipOptions) => (tokens: Tokens) =>
  total(
    tokens.logprobs!.map(
      (logprob, t) => ppoClipToken(logprob, tokens['old.logprob']![t]!, tokens.weight![t]!, options).loss,
    ),
  );

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

  it('stays finite for a token whose probability exploded, and sends no gradient from it', () => {
    const token = clippedPolicyToken(0, -1000, -1);
    expect(token.loss).toBeCloseTo(Math.exp(20), 0);
    expect(token.kept).toBe(false);
  });

  it('is in the graph what it is in plain numbers, entropy bonus subtracted', async () => {
    const range = { clipLow: 0.1, clipHigh: 0.3 };
    const tokens = randomTokens(2, 60);
    const expected = tokens.logprobs.map((logprob, t) =>
      clippedPolicyToken(logprob, tokens['old.logprob'][t]!, tokens.weight[t]!, range),
    );
    const plain = (of: Tokens) =>
      plainClip({ ...range, dualClip: null })(of) - total(of.entropy!.map((h, t) => h * of['entropy.weight']![t]!));
    const { report } = await expectAsPlain(clippedPolicyLoss(range), tokens, 'logprobs', plain);
    expect(report.clip_share).toEqual(expected.map(({ kept }) => (kept ? 0 : 1)));
    expect(report.clip_share).toContain(1);
    expect(report.entropy).toEqual(tokens.entropy);
    await expectAsPlain(clippedPolicyLoss(range), tokens, 'entropy', plain);
  });
});

describe('the clipped policy loss with a dual clip', () => {
  it.each<PpoClipOptions>([
    {},
    { clipLow: 0.2, clipHigh: 0.28 },
    { clipLow: 0.1, clipHigh: 0.5, dualClip: 1.7 },
    { dualClip: null },
  ])('is in the graph what it is in plain numbers, with its gradient: %j', async (options) => {
    const tokens = randomTokens(11, 80);
    const plain = tokens.logprobs.map((logprob, t) =>
      ppoClipToken(logprob, tokens['old.logprob'][t]!, tokens.weight[t]!, options),
    );
    const { report, slope } = await expectAsPlain(ppoClipLoss(options), tokens, 'logprobs', plainClip(options));
    expect(report.clip_share).toEqual(plain.map(({ clipped }) => Number(clipped)));
    for (const [t, ratio] of report.ratio!.entries()) expectNear(ratio, plain[t]!.ratio, `ratio ${t}`);
    // Exactly the clipped tokens send nothing.
    expect(slope.map((d) => d === 0)).toEqual(plain.map(({ clipped }) => clipped));
    const kinds = new Set(plain.map(({ clipped, ratio }) => `${clipped} ${ratio > 1}`));
    expect(kinds.size).toBe(4);
  });

  it('sends no gradient and stays finite where the log-ratio is beyond 20', async () => {
    const tokens = { logprobs: [0, 0, -1000, -1000], 'old.logprob': [-1000, -1000, 0, 0], weight: [1, -1, 1, -1] };
    for (const dualClip of [3, null]) {
      const { loss, slope, report } = await evaluate(ppoClipLoss({ dualClip }), tokens, 'logprobs');
      expect(Number.isFinite(loss)).toBe(true);
      expect(slope.map(Math.abs)).toEqual([0, 0, 0, 0]);
      expect(report.clip_share).toEqual([1, 1, 1, 1]);
    }
  });

  it('sends the gradient of a plain policy gradient while the policy is still the one that sampled', async () => {
    const { logprobs, weight } = randomTokens(12, 20);
    const { slope, report } = await evaluate(ppoClipLoss(), { logprobs, 'old.logprob': logprobs, weight }, 'logprobs');
    expect(slope).toEqual(weight.map((a) => -a));
    expect(new Set(report.clip_share)).toEqual(new Set([0]));
  });

  it('bounds the loss of a negative advantage by c times it, and leaves a positive one as it is', () => {
    fc.assert(
      fc.property(small, small, small, (logprob, old, advantage) => {
        const dual = ppoClipToken(logprob, old, advantage);
        const single = ppoClipToken(logprob, old, advantage, { dualClip: null });
        if (advantage >= 0) expect(dual).toEqual(single);
        else expect(dual.loss).toBe(Math.min(single.loss, -3 * advantage));
      }),
    );
  });

  it('with c = δ is the cap δ on the unclipped ratio', () => {
    fc.assert(
      fc.property(small, small, fc.double({ min: 1.2, max: 20, noNaN: true }), (logRatio, advantage, delta) => {
        const ratio = Math.exp(logRatio);
        const held = Math.min(Math.max(ratio, 0.8), 1.2);
        const capped = -Math.min(advantage * Math.min(ratio, delta), advantage * held);
        expect(ppoClipToken(logRatio, 0, advantage, { dualClip: delta }).loss).toBeCloseTo(capped, 9);
      }),
    );
  });

  it('in two parts sums to the whole', async () => {
    const tokens = randomTokens(13, 50);
    const { loss } = policyLoss('grpo', { kl: 0.04 });
    const whole = await evaluate(loss, tokens, 'logprobs');
    const halves = await Promise.all(
      [part(tokens, 0, 17), part(tokens, 17, 50)].map((one) => evaluate(loss, one, 'logprobs')),
    );
    expectNear(total(halves.map((half) => half.loss)), whole.loss, 'loss');
    expect(halves.flatMap((half) => half.slope)).toEqual(whole.slope);
  });
});

describe('the policy presets', () => {
  const lossOf = (name: keyof typeof POLICY_PRESETS): Loss => policyLoss(name, { kl: POLICY_PRESETS[name].kl }).loss;

  it('differ in the bound above, the divergence and the aggregation', async () => {
    const tokens = {
      ...randomTokens(14, 1),
      logprobs: [Math.fround(Math.log(1.25))],
      'old.logprob': [0],
      weight: [1],
      'kl.weight': [0.04],
    };
    const lossAt = async (name: keyof typeof POLICY_PRESETS) => (await evaluate(lossOf(name), tokens, 'logprobs')).loss;
    expect(await lossAt('ppo')).toBeCloseTo(-1.2, 6);
    expect(await lossAt('dr-grpo')).toBeCloseTo(-1.2, 6);
    expect(await lossAt('dapo')).toBeCloseTo(-1.25, 6);
    expect(await lossAt('grpo')).toBeGreaterThan(-1.2 + 1e-4);
    const aggregations = Object.values(POLICY_PRESETS).map(({ aggregation }) => aggregation);
    expect(aggregations).toEqual(['token-mean', 'seq-mean-token-mean', 'dr_grpo', 'token-mean']);
  });

  it('are other graphs under other keys', () => {
    const keys = (['ppo', 'grpo', 'dapo'] as const).map((name) => lossOf(name).key);
    expect(new Set([...keys, ppoClipLoss({ dualClip: null }).key, clippedPolicyLoss().key]).size).toBe(5);
    expect(lossOf('dr-grpo').key).toBe(lossOf('ppo').key);
  });
});
