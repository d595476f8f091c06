/**
 * What a generated test earns: more, the better "passes this test" tells right programs from wrong ones.
 *
 * Source: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136. Verified (code).
 * Kept: +1 if every right program passes, otherwise −1, times the share of wrong programs the test judges as its sign says;
 * `post_stage` asks for none or any of the wrong programs instead of a share. Without wrong programs the scale is 1, where the
 * count form of the paper would drop the task. A raw value of 0 is legal. Nobody right: null.
 * Dropped: the count form, equal but for the scale. Open: nothing known.
 */

import { Type } from 'typebox';
import { reward } from '../../judging/judgement.ts';
import { matricesOf, noScore, overReports } from '../../judging/reports.ts';
import { cureNormalise, requirePasses, splitByTruth } from '../cure.ts';
import { method } from '../method.ts';
import { PassMatrix } from '../shapes.ts';

const Input = Type.Object({ generated_pass: PassMatrix, gt_pass: PassMatrix });
const params = { post_stage: false, efficient: false };

type TestReward = {
  readonly raw: readonly number[];
  /** Null when the raw values are all equal. */
  readonly reward: readonly number[] | null;
};

export const cureTestReward = method({
  name: 'cure_test_reward',
  kind: 'reward',
  source: 'CURE: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136; verified (code)',
  version: 1,
  summary: 'z-score of how precisely each generated test separates right programs from wrong ones.',
  params,
  input: Input,
  run: ({ generated_pass, gt_pass }, { post_stage, efficient }): TestReward | null => {
    const tests = requirePasses(generated_pass, gt_pass);
    const { right, wrong } = splitByTruth(gt_pass);
    if (right.length === 0) return null;
    const raw = Array.from({ length: tests }, (_, test) => {
      const upheld = right.every((program) => generated_pass[program]![test] === 1);
      const fooled = wrong.filter((program) => generated_pass[program]![test] === 1).length;
      return signedScale(upheld, fooled, wrong.length, post_stage);
    });
    return { raw, reward: cureNormalise(raw, efficient) };
  },
  judged: {
    reads: ['content', 'reports'],
    writes: ['rewards', 'scores'],
    rows: (facts, ask) =>
      overReports(facts, noScore, (report, { episode_id }) => {
        const matrices = matricesOf(report);
        if (typeof matrices === 'string') return matrices;
        const { gt_pass, generated_pass, tests } = matrices;
        const output = ask.answer({ gt_pass, generated_pass });
        if (typeof output === 'string') return output;
        const rewards = output?.reward ?? null;
        const reason = rewards === null ? 'zero_variance' : null;
        return tests.map(({ id }, k) => reward({ episode_id, step_id: String(id) }, rewards?.[k] ?? null, reason));
      }),
  },
});

function signedScale(upheld: boolean, fooled: number, wrong: number, postStage: boolean): number {
  if (wrong === 0) return upheld ? 1 : -1;
  if (postStage) {
    if (upheld) return fooled === 0 ? 1 : 0;
    return fooled > 0 ? -1 : 0;
  }
  const share = upheld ? (wrong - fooled) / wrong : -fooled / wrong;
  return share === 0 ? 0 : share;
}
