/**
 * How often one program, taken as it comes, is right.
 *
 * Source: ours; the mean over episodes of the share of right candidates. Candidates whose truth is unknown, and episodes without
 * any other, are left out; null when nothing is left.
 */

import { scoreByReports } from '../../judging/reports.ts';
import { ExecutionReports, readReports } from '../execution-report.ts';
import { method } from '../method.ts';
import { mean } from '../statistics.ts';

export const passAt1 = method({
  name: 'pass_at_1',
  kind: 'score',
  source: 'ours',
  version: 1,
  summary: 'Mean share of right candidates.',
  input: ExecutionReports,
  run: ({ reports }): number | null => {
    const shares = readReports(reports).flatMap(({ read: { right, wrong } }) =>
      right.length + wrong.length === 0 ? [] : [right.length / (right.length + wrong.length)],
    );
    return shares.length === 0 ? null : mean(shares);
  },
  judged: scoreByReports,
});
