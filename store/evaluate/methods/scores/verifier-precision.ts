/**
 * How many of a verifier's tests are right.
 *
 * Source: ours; the share, over all episodes together, of generated tests that the reference programs pass. A malformed test counts
 * as wrong; a test on which no reference was run is left out; null when none is left. For reporting only: the reference is never
 * shown to the learner.
 */

import { scoreByReports } from '../../judging/reports.ts';
import { ExecutionReports, readReports, rightByReference } from '../execution-report.ts';
import { method } from '../method.ts';

export const verifierPrecision = method({
  name: 'verifier_precision',
  kind: 'score',
  source: 'ours',
  version: 1,
  summary: 'Share of generated tests that the reference programs pass.',
  input: ExecutionReports,
  run: ({ reports }): number | null => {
    const known = readReports(reports).flatMap(({ report, read }) =>
      read.tests.map((test) => rightByReference(report, read, test)).filter((right) => right !== null),
    );
    return known.length === 0 ? null : known.filter((right) => right).length / known.length;
  },
  judged: scoreByReports,
});
