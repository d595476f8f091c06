/**
 * Best of N by tests: the program that passes most of the generated tests, and how it does on ground truth.
 *
 * Source: Gen-Verse/CURE, evaluation/eval.py; arXiv 2506.03136. Verified (code). The lowest index wins a tie.
 * Without ground-truth columns nothing is known about the choice: both answers are null.
 * Kept: most passes, then the lowest index. Dropped: running the programs. Open: nothing known.
 */

import { Type } from 'typebox';
import { score } from '../../judging/judgement.ts';
import { overMatrices } from '../../judging/reports.ts';
import { method } from '../method.ts';
import { refuseInput, requireRectangle, requireRows } from '../refuse.ts';
import { PassMatrix } from '../shapes.ts';
import { largest, mean, sum } from '../statistics.ts';

type Choice = {
  readonly index: number;
  readonly generated_passes: number;
  readonly gt_all: boolean | null;
  readonly gt_rate: number | null;
};

export const bonSelect = method({
  name: 'bon_select',
  kind: 'score',
  source: 'CURE: Gen-Verse/CURE, evaluation/eval.py; arXiv 2506.03136; verified (code)',
  version: 1,
  summary: 'Picks the program that passes most generated tests and reports it on ground truth.',
  input: Type.Object({ generated_pass: PassMatrix, gt_pass: PassMatrix }),
  run: ({ generated_pass, gt_pass }): Choice => {
    if (generated_pass.length === 0) refuseInput('generated_pass', 'at least one program', generated_pass);
    requireRectangle('generated_pass', generated_pass);
    requireRectangle('gt_pass', gt_pass);
    requireRows('gt_pass', gt_pass, generated_pass.length, 'the programs of generated_pass');
    const passes = generated_pass.map(sum);
    const generated_passes = largest(passes);
    const index = passes.indexOf(generated_passes);
    const truth = gt_pass[index]!;
    return {
      index,
      generated_passes,
      gt_all: truth.length === 0 ? null : truth.every((bit) => bit === 1),
      gt_rate: truth.length === 0 ? null : mean(truth),
    };
  },
  judged: {
    reads: ['content', 'reports'],
    rows: (facts, ask) =>
      overMatrices(facts, ({ gt_pass, generated_pass, programs }, { episode_id }) => {
        const choice = ask.answer({ gt_pass, generated_pass });
        if (typeof choice === 'string') return choice;
        const chosen = programs[choice.index]?.id ?? null;
        return [score(`e/${episode_id}`, choice.gt_rate, null, { ...choice, chosen })];
      }),
  },
});
