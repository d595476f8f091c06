/**
 * Keeps the candidates of an episode that could be read at all.
 *
 * Source: ours, as the first filter of a coder's and a verifier's training data. Rows and columns that are not candidates get no verdict.
 */

import { verdictsByReport } from '../../judging/reports.ts';
import { ExecutionReport as Input, readReport } from '../execution-report.ts';
import { method } from '../method.ts';
import { type Verdict, verdict } from '../verdict.ts';

export const wellFormedFilter = method({
  name: 'well_formed_filter',
  kind: 'filter',
  source: 'ours',
  version: 1,
  summary: 'Keeps programs and tests that are not malformed.',
  input: Input,
  run: (report): Verdict[] => {
    const { programs, tests } = readReport(report);
    const items = [...programs.map((i) => report.programs[i]!), ...tests.map((k) => report.tests[k]!)];
    return items.map(({ id, valid }) => verdict(id, valid ? null : 'malformed'));
  },
  judged: verdictsByReport,
});
