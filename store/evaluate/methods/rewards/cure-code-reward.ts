/**
 * What a program earns: its share of passed ground-truth tests, compared with the other programs of the task.
 *
 * Source: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136. Verified (code).
 * Kept: std with ddof 0 and no eps; a task whose programs all score the same is dropped (null). There is no term for generated
 * tests in the released coder reward, though the paper's prose suggests one.
 * Dropped: running the programs. Open: nothing known.
 */

import { Type } from 'typebox';
import { reward } from '../../judging/judgement.ts';
import { overMatrices } from '../../judging/reports.ts';
import { curePrograms } from '../cure.ts';
import { method } from '../method.ts';
import { PassMatrix } from '../shapes.ts';

export const cureCodeReward = method({
  name: 'cure_code_reward',
  kind: 'reward',
  source: 'CURE: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136; verified (code)',
  version: 1,
  summary: 'z-score of each program’s ground-truth pass rate within its task; null when they are all equal.',
  params: { efficient: false },
  input: Type.Object({ gt_pass: PassMatrix }),
  run: ({ gt_pass }, { efficient }): number[] | null => curePrograms(gt_pass, efficient),
  judged: {
    reads: ['content', 'reports'],
    writes: ['rewards', 'scores'],
    rows: (facts, ask) =>
      overMatrices(facts, (matrices, { episode_id }) => {
        const rewards = ask.answer({ gt_pass: matrices.gt_pass });
        if (typeof rewards === 'string') return rewards;
        const reason = rewards === null ? 'zero_variance' : null;
        return matrices.programs.map(({ id }, i) =>
          reward({ episode_id, step_id: String(id) }, rewards?.[i] ?? null, reason),
        );
      }),
  },
});
