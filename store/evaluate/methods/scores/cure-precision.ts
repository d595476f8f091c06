/**
 * How precisely an episode's generated tests distinguish right programs from wrong ones, and what it is made of.
 *
 * Source: CURE, arXiv 2506.03136, the reward precision p_u·(1 − p_01) − (1 − p_u)·p_00. The count form behind it is secondary, this notation
 * unverified. p_u is the share of tests that every right program passes, p_01 the share of wrong programs that pass such a test, p_00 the
 * share that pass another; an undefined share counts 0. With wrong programs, the precision is the mean of the raw values of
 * `cure_test_reward`. Null when no program is right or there are no tests.
 * Kept: the three shares and their combination. Dropped: nothing. Open: the notation.
 */

import { Type } from 'typebox';
import { score } from '../../judging/judgement.ts';
import { overMatrices } from '../../judging/reports.ts';
import { requirePasses, splitByTruth } from '../cure.ts';
import { method } from '../method.ts';
import { PassMatrix } from '../shapes.ts';
import { mean } from '../statistics.ts';

type Precision = { readonly p_u: number; readonly p_01: number; readonly p_00: number; readonly precision: number };

export const curePrecision = method({
  name: 'cure_precision',
  kind: 'score',
  source: 'CURE: arXiv 2506.03136; count form secondary, notation unverified',
  version: 1,
  summary: 'How well passing the generated tests implies being right, estimated from one task.',
  input: Type.Object({ generated_pass: PassMatrix, gt_pass: PassMatrix }),
  run: ({ generated_pass, gt_pass }): Precision | null => {
    const tests = requirePasses(generated_pass, gt_pass);
    const { right, wrong } = splitByTruth(gt_pass);
    if (right.length === 0 || tests === 0) return null;
    const upheld: number[] = [];
    const others: number[] = [];
    for (let test = 0; test < tests; test++) {
      const passes = (program: number) => generated_pass[program]![test] === 1;
      const fooled = wrong.length === 0 ? 0 : wrong.filter(passes).length / wrong.length;
      (right.every(passes) ? upheld : others).push(fooled);
    }
    const p_u = upheld.length / tests;
    const p_01 = upheld.length === 0 ? 0 : mean(upheld);
    const p_00 = others.length === 0 ? 0 : mean(others);
    return { p_u, p_01, p_00, precision: p_u * (1 - p_01) - (1 - p_u) * p_00 };
  },
  judged: {
    reads: ['content', 'reports'],
    rows: (facts, ask) =>
      overMatrices(facts, ({ gt_pass, generated_pass, tests }, { episode_id }) => {
        const output = ask.answer({ gt_pass, generated_pass });
        if (typeof output === 'string') return output;
        if (output === null) return tests.length === 0 ? 'no_tests' : 'nobody_right';
        return [score(`e/${episode_id}`, output.precision, null, output)];
      }),
  },
});
