/**
 * CURE's advantages of one policy that is coder and tester: each program by its reward, each test by its own.
 *
 * Source: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136. Verified (code). The released code gives the rewards of programs and of tests
 * to one training as they are, as the advantage of every token: they are normalised within their task already.
 * Kept: both rewards, each compared with its like; a side that is dropped (null) leaves the other.
 * Dropped: `cure_length_regularize`, which is off by default. Open: nothing known. Version 2 says `nobody_right` of tests where no program is.
 */

import { Type } from 'typebox';
import { credit } from '../../judging/judgement.ts';
import { overMatrices } from '../../judging/reports.ts';
import { curePrograms, cureTests, splitByTruth } from '../cure.ts';
import { method } from '../method.ts';
import { PassMatrix } from '../shapes.ts';

type Advantages = {
  /** Null where all programs score the same. */
  readonly programs: readonly number[] | null;
  /** Null where no program is right, or all tests are worth the same. */
  readonly tests: readonly number[] | null;
};

export const cureAdvantage = method({
  name: 'cure_advantage',
  kind: 'credit',
  source: 'CURE: Gen-Verse/CURE, optimization/reward.py; arXiv 2506.03136; verified (code)',
  version: 2,
  summary: 'The rewards of CURE’s programs and of its tests as the advantages of one policy that writes both.',
  params: { post_stage: false, efficient: false },
  input: Type.Object({ generated_pass: PassMatrix, gt_pass: PassMatrix }),
  run: ({ generated_pass, gt_pass }, options): Advantages => ({
    programs: curePrograms(gt_pass, options.efficient),
    tests: cureTests(generated_pass, gt_pass, options)?.reward ?? null,
  }),
  judged: {
    reads: ['content', 'reports'],
    writes: ['credits', 'scores'],
    rows: (facts, ask) =>
      overMatrices(facts, ({ programs, tests, gt_pass, generated_pass }, { episode_id }) => {
        const output = ask.answer({ gt_pass, generated_pass });
        if (typeof output === 'string') return output;
        const rows = (
          candidates: readonly { readonly id: string | number }[],
          values: readonly number[] | null,
          none: string,
        ) =>
          candidates.map(({ id }, i) =>
            credit({ episode_id, step_id: String(id) }, values?.[i] ?? null, values === null ? none : null),
          );
        const { right } = splitByTruth(gt_pass);
        return [
          ...rows(programs, output.programs, 'zero_variance'),
          ...rows(tests, output.tests, right.length === 0 ? 'nobody_right' : 'zero_variance'),
        ];
      }),
  },
});
