/**
 * What a generated test earns: more, the better "passes this test" distinguishes right programs from wrong ones.
 *
 * Source: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136. Verified (code).
 * Kept: +1 if every right program passes, otherwise −1, times the share of wrong programs the test judges as its sign says;
 * `post_stage` asks for none or any of the wrong programs instead of a share. Without wrong programs the scale is 1, where the
 * count form of the paper would drop the task. A raw value of 0 is legal. Nobody right: null.
 * Dropped: the count form, equal but for the scale. Open: nothing known. Version 2 says `nobody_right` where no program is.
 */

import { Type } from 'typebox';
import { reward } from '../../judging/judgement.ts';
import { overMatrices } from '../../judging/reports.ts';
import { type CureTests, cureTests } from '../cure.ts';
import { method } from '../method.ts';
import { PassMatrix } from '../shapes.ts';

export const cureTestReward = method({
  name: 'cure_test_reward',
  kind: 'reward',
  source: 'CURE: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136; verified (code)',
  version: 2,
  summary: 'z-score of how precisely each generated test separates right programs from wrong ones.',
  params: { post_stage: false, efficient: false },
  input: Type.Object({ generated_pass: PassMatrix, gt_pass: PassMatrix }),
  run: ({ generated_pass, gt_pass }, options): CureTests | null => cureTests(generated_pass, gt_pass, options),
  judged: {
    reads: ['content', 'reports'],
    writes: ['rewards', 'scores'],
    rows: (facts, ask) =>
      overMatrices(facts, ({ gt_pass, generated_pass, tests }, { episode_id }) => {
        const output = ask.answer({ gt_pass, generated_pass });
        if (typeof output === 'string') return output;
        const rewards = output?.reward ?? null;
        const reason = output === null ? 'nobody_right' : rewards === null ? 'zero_variance' : null;
        return tests.map(({ id }, k) => reward({ episode_id, step_id: String(id) }, rewards?.[k] ?? null, reason));
      }),
  },
});
