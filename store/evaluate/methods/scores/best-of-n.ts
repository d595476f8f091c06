/**
 * How often the program is right that the generated tests would choose.
 *
 * Source: ours, after CURE's evaluation (arXiv 2506.03136), which gives a tie to the lowest index; here tied programs share the
 * credit, because the order of candidates carries no information and would only add noise.
 * Candidates whose truth is unknown leave the share; episodes without a known one among the chosen are left out; null when none is left.
 */

import { scoreByReports } from '../../judging/reports.ts';
import { ExecutionReports, readReports } from '../execution-report.ts';
import { method } from '../method.ts';
import { largest, mean } from '../statistics.ts';

export const bestOfN = method({
  name: 'best_of_n',
  kind: 'score',
  source: 'ours, after CURE (arXiv 2506.03136; Gen-Verse/CURE, evaluation/eval.py)',
  version: 1,
  summary: 'Mean correctness of the program that passes most generated tests; ties share the credit.',
  input: ExecutionReports,
  run: ({ reports }): number | null => {
    const shares = readReports(reports).flatMap(({ report, read }) => {
      const tests = read.tests.filter((test) => report.tests[test]!.valid);
      const passes = read.programs.map((program) => tests.filter((test) => read.cell(program, test) === 1).length);
      const most = largest(passes);
      const chosen = read.programs.filter((_, i) => passes[i] === most);
      const right = chosen.filter((program) => read.right.includes(program)).length;
      const wrong = chosen.filter((program) => read.wrong.includes(program)).length;
      return right + wrong === 0 ? [] : [right / (right + wrong)];
    });
    return shares.length === 0 ? null : mean(shares);
  },
  judged: scoreByReports,
});
