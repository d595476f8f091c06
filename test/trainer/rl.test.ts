import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { TrainingRow } from '../../trainer/learn/data/training-rows.ts';
import { POLICY_LOSSES, policyLoss } from '../../trainer/learn/policy-losses.ts';
import { policyPlan, rlPass, withReference } from '../../trainer/learn/rl.ts';
import { closeTrainable, trainable } from '../../trainer/learn/step.ts';
import { ADAM } from '../../trainer/learn/training-loop.ts';
import { initialWeights } from '../../trainer/model/parameters.ts';
import { TINY } from './tiny-model.ts';

const row = (group: number, candidate: number, advantage: number | null, role = 'coder'): TrainingRow => ({
  role,
  group: `g${group}`,
  problem: `g${group}`,
  callId: `${role}/g${group}`,
  promptIds: [1 + (group % 5), 2],
  tokenIds: [3 + candidate, 4 + candidate, 5],
  trained: [true, true, candidate !== 1],
  logprobs: [-3, -3, -3],
  advantage,
});
/** Candidate 0 is right, the others are not. */
const rows = Array.from({ length: 6 }, (_, group) => [
  row(group, 0, 1),
  row(group, 1, -0.5),
  row(group, 2, -0.5),
]).flat();
const role = { role: 'coder', groups: 2, learningRate: 0.01, entropy: 0.01 };

describe('the clip of a policy gradient', () => {
  it.each([
    { clipHigh: 1e9 },
    { clipHigh: Number.POSITIVE_INFINITY },
    { clipHigh: Number.NaN },
    { clipLow: 1.5 },
    { clipLow: -0.1 },
  ])('Complaint 6: %j is refused, since rows of older weights would train without a bound', (bounds) => {
    for (const name of POLICY_LOSSES)
      expect(() => policyLoss(name, bounds)).toThrow(/clip of the ratio should be from 0/);
  });
});

describe('the plan of a policy gradient', () => {
  it('takes each group with a signal once in a pass, and leaves out those without or with unknown advantages', () => {
    const mixed = [...rows, row(10, 0, 0), row(11, 0, null), row(12, 0, 1, 'verifier')];
    const { steps, signal } = policyPlan(mixed, { roles: [role], epochs: 2, seed: 3 });
    expect(steps).toHaveLength(6);
    for (const pass of [steps.slice(0, 3), steps.slice(3)]) {
      const groups = pass.flatMap((step) => step.rows.map(({ group }) => group));
      expect([...new Set(groups)].sort()).toEqual(['g0', 'g1', 'g2', 'g3', 'g4', 'g5']);
      expect(groups).toHaveLength(18);
    }
    expect(signal.coder).toBeCloseTo(6 / 7, 12);
  });

  it('gives a smaller remainder a smaller rate, and drops one below a quarter', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 12 }), (groups, perStep) => {
        const all = Array.from({ length: groups }, (_, group) => row(group, 0, 1));
        const { steps } = policyPlan(all, { roles: [{ ...role, groups: perStep }], seed: 1 });
        const rest = groups % perStep;
        const whole = Math.floor(groups / perStep);
        const kept = rest > 0 && (rest >= perStep / 4 || whole === 0);
        expect(steps.map(({ rows: mine }) => mine.length)).toEqual([
          ...Array(whole).fill(perStep),
          ...(kept ? [rest] : []),
        ]);
        expect(steps.at(-1)!.learningRate).toBeCloseTo(kept ? (0.01 * rest) / perStep : 0.01, 12);
      }),
    );
  });
});

describe('policy gradients', () => {
  const options = { roles: [role], clip: {}, schedule: () => () => 1, adam: ADAM, seed: 1 };

  it.each(POLICY_LOSSES)('%s makes what had an advantage likelier than what had not', async (loss) => {
    const model = trainable(TINY, initialWeights(TINY, 6));
    const sampled = (await withReference(model, rows)).map(({ reference, ...each }) => ({
      ...each,
      logprobs: reference!,
    }));
    const { roles, progress } = await rlPass(model, sampled, { ...options, loss, epochs: 4 });
    const after = await withReference(model, rows);
    await closeTrainable(model);
    const gain = (i: number) =>
      after[i]!.reference!.reduce((a, b) => a + b, 0) - sampled[i]!.logprobs.reduce((a, b) => a + b, 0);
    for (let i = 0; i < rows.length; i += 3) expect(gain(i)).toBeGreaterThan(gain(i + 1));
    expect(roles.coder).toMatchObject({ steps: 12, signal: 1, tokens: expect.any(Number) });
    expect(roles.coder!.entropy).toBeGreaterThan(0);
    expect(progress.curves.metrics.clip_share![0]).toBe(0);
    expect(progress.curves.metrics.ratio![0]).toBeCloseTo(1, 4);
  });

  it.each(POLICY_LOSSES)(
    'Complaint 6: %s learns nothing more from a gain that other weights sampled long ago',
    async (loss) => {
      const model = trainable(TINY, initialWeights(TINY, 6));
      const stale = rows.map((each) => ({ ...each, advantage: 1, logprobs: each.tokenIds.map(() => -50) }));
      const plain = { ...options, roles: [{ ...role, entropy: 0 }] };
      const { roles, progress } = await rlPass(model, stale, { ...plain, loss });
      await closeTrainable(model);
      expect(progress.curves.metrics.clip_share![0]).toBe(1);
      expect(roles.coder!.gradientNorm).toBe(0);
    },
  );

  it('a divergence to the reference is 0 at first, is reported, and holds the model', async () => {
    const run = async (kl: number) => {
      const model = trainable(TINY, initialWeights(TINY, 6));
      const scored = await withReference(model, rows);
      const sampled = scored.map((each) => ({ ...each, logprobs: each.reference! }));
      const { progress } = await rlPass(model, sampled, { ...options, loss: 'grpo', kl, epochs: 6 });
      await closeTrainable(model);
      return progress.curves.metrics.kl!;
    };
    const [loose, tight] = [await run(1e-9), await run(20)];
    expect(loose[0]).toBeCloseTo(0, 6);
    expect(tight.at(-1)!).toBeLessThan(loose.at(-1)!);
  });

  it('a divergence without a reference is refused', async () => {
    const model = trainable(TINY, initialWeights(TINY, 6));
    await expect(rlPass(model, rows, { ...options, loss: 'ppo', kl: 0.1 })).rejects.toThrow(/reference/);
    await closeTrainable(model);
  });

  it('weights of a step: all tokens alike, all rows alike, or a constant length', () => {
    const share = (name: (typeof POLICY_LOSSES)[number]) =>
      policyLoss(name)
        .rowsOf([row(0, 0, 1), row(0, 1, 1)])
        .flatMap(({ completions }) => completions.map(({ weights }) => weights.reduce((a, b) => a + b, 0)));
    expect(share('ppo')).toEqual([expect.closeTo(0.6, 9), expect.closeTo(0.4, 9)]);
    expect(share('grpo')).toEqual([expect.closeTo(0.5, 6), expect.closeTo(0.5, 6)]);
    expect(share('dr-grpo')).toEqual([expect.closeTo(0.5, 9), expect.closeTo(1 / 3, 9)]);
  });
});
