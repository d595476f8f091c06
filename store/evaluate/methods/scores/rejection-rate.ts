/**
 * How well a verifier's right tests distinguish wrong programs from right ones.
 *
 * Source: ours; among generated tests that the reference programs pass, the share of wrong candidates they reject, counted over all
 * episodes together. A malformed program is rejected by every test; a wrong one that was not run is left out; null when nothing is left.
 */

import { scoreByReports } from '../../judging/reports.ts';
import { ExecutionReports, readReports, rightByReference } from '../execution-report.ts';
import { method } from '../method.ts';

export const rejectionRate = method({
  name: 'rejection_rate',
  kind: 'score',
  source: 'ours',
  version: 1,
  summary: 'Share of wrong candidates that the right generated tests reject.',
  input: ExecutionReports,
  run: ({ reports }): number | null => {
    let asked = 0;
    let rejected = 0;
    for (const { report, read } of readReports(reports)) {
      for (const test of read.tests) {
        if (rightByReference(report, read, test) !== true) continue;
        const cells = read.wrong.map((program) => read.cell(program, test)).filter((cell) => cell !== null);
        asked += cells.length;
        rejected += cells.filter((cell) => cell === 0).length;
      }
    }
    return asked === 0 ? null : rejected / asked;
  },
  judged: scoreByReports,
});
