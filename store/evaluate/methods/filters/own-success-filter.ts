/**
 * Keeps what the team itself got right in one episode, for training each role on its own successes.
 *
 * Source: ours, after role-wise selection from successful trajectories (SWE-Dev and most SFT baselines).
 * Programs: right by ground truth, and each exact output once (`tokens_key`, the first wins; without one, every output is its own).
 * Tests: their working holds and follows the behaviour of a right program of the same episode. Nobody right: nothing is kept, and
 * the reason shows whether somebody could have been: `no_tests` and `no_ground_truth` are not `nobody_right`.
 * Programs first, then tests, in the order of the report.
 */

import { verdictsByReport } from '../../judging/reports.ts';
import { type ExecutionReport, ExecutionReport as Input, nobodyRight, readReport } from '../execution-report.ts';
import { method } from '../method.ts';
import { type Verdict, verdict } from '../verdict.ts';

export const ownSuccessFilter = method({
  name: 'own_success_filter',
  kind: 'filter',
  source: 'ours, after role-wise selection from successful trajectories',
  version: 1,
  summary: 'Keeps distinct right programs, and tests whose working holds and follows a right program.',
  input: Input,
  run: (report): Verdict[] => {
    const read = readReport(report);
    const none = nobodyRight(report, read);
    const seen = new Set<string>();
    const programs = read.programs.map((i) => {
      const { id, valid, tokens_key } = report.programs[i]!;
      if (!valid) return verdict(id, 'malformed');
      if (read.wrong.includes(i)) return verdict(id, 'wrong');
      if (!read.right.includes(i)) return verdict(id, none === 'nobody_right' ? 'truth_unknown' : none);
      if (tokens_key === undefined) return verdict(id, null);
      const again = seen.has(tokens_key);
      seen.add(tokens_key);
      return verdict(id, again ? 'said_before' : null);
    });
    const behaviours = read.right.map((i) => report.programs[i]!.behaviour);
    const tests = read.tests.map((k) => verdict(report.tests[k]!.id, testFault(report.tests[k]!, behaviours, none)));
    return [...programs, ...tests];
  },
  judged: verdictsByReport,
});

function testFault(
  test: ExecutionReport['tests'][number],
  right: readonly (string | null)[],
  none: string,
): string | null {
  if (!test.valid) return 'malformed';
  if (test.holds !== true) return test.holds === false ? 'working_does_not_hold' : 'working_unknown';
  if (right.length === 0) return none;
  return right.some((known) => known !== null && known === test.behaviour) ? null : 'follows_no_right_program';
}
