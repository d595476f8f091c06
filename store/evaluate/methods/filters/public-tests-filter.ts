/**
 * Keeps the candidates of an episode that agree with what the task gives away: its public tests.
 *
 * Source: ours, after the correctness filter of M500 where the reference answer must stay hidden. A program must pass every public
 * test that was run on it, at least one. A test must hold when its own working is executed, and the program that its working
 * follows must not be known to fail the public tests. Programs first, then tests, in the order of the report.
 */

import { verdictsByReport } from '../../judging/reports.ts';
import { type ExecutionReport, ExecutionReport as Input, type ReadReport, readReport } from '../execution-report.ts';
import { method } from '../method.ts';
import { type Verdict, verdict } from '../verdict.ts';

export const publicTestsFilter = method({
  name: 'public_tests_filter',
  kind: 'filter',
  source: 'ours, after the correctness filter of M500 (jincan333/MAS-TTS)',
  version: 1,
  summary: 'Keeps programs that pass the public tests, and tests whose working holds and does not contradict them.',
  input: Input,
  run: (report): Verdict[] => {
    const read = readReport(report);
    return [
      ...read.programs.map((i) => verdict(report.programs[i]!.id, programFault(report, read, i))),
      ...read.tests.map((k) => verdict(report.tests[k]!.id, testFault(report.tests[k]!))),
    ];
  },
  judged: verdictsByReport,
});

function programFault(report: ExecutionReport, read: ReadReport, program: number): string | null {
  if (!report.programs[program]!.valid) return 'malformed';
  const asked = read.publicTests.map((test) => read.cell(program, test)).filter((cell) => cell !== null);
  if (asked.length === 0) return 'no_public_test_run';
  return asked.every((cell) => cell === 1) ? null : 'fails_public_test';
}

function testFault(test: ExecutionReport['tests'][number]): string | null {
  if (!test.valid) return 'malformed';
  if (test.holds !== true) return test.holds === false ? 'working_does_not_hold' : 'working_unknown';
  return test.plan_passes_public === false ? 'plan_fails_public_test' : null;
}
