/** Which programs and tests of an execution report to learn from. */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { stepKey } from '../judging/facts.ts';
import { verdictOn } from '../judging/judgement.ts';
import {
  type ExecutionReport,
  ExecutionReport as Input,
  nobodyRight,
  type ReadReport,
  readReport,
  type Verdict,
  verdict,
} from './execution-report.ts';
import { type Application, method } from './method.ts';
import { Key, nullable } from './shapes.ts';

/** A verdict on each candidate of a report. */
const verdictsByReport: Application<ExecutionReport, unknown, readonly Verdict[]> = {
  over: 'report',
  reads: ['content', 'reports'],
  each:
    () =>
    ({ report, episode: { episode_id } }) => ({
      input: report,
      rows: (verdicts) =>
        verdicts.map(({ id, keep, reason }) => verdictOn({ episode_id, step_id: String(id) }, keep, reason)),
    }),
};

/**
 * Keeps the candidates of an episode that could be read at all.
 *
 * Source: ours, as the first filter of a coder's and a verifier's training data. Rows and columns that are not candidates get no verdict.
 */
export const wellFormedFilter = method({
  name: 'well_formed_filter',
  kind: 'filter',
  source: 'ours',
  version: 1,
  summary: 'Keeps programs and tests that are not malformed.',
  teams: 'coder and tester; test execution',
  input: Input,
  run: (report): Verdict[] => {
    const { programs, tests } = readReport(report);
    const items = [...programs.map((i) => report.programs[i]!), ...tests.map((k) => report.tests[k]!)];
    return items.map(({ id, valid }) => verdict(id, valid ? null : 'malformed'));
  },
  judged: verdictsByReport,
});

/**
 * Keeps the candidates of an episode that agree with what the task gives away: its public tests.
 *
 * Source: ours, after the correctness filter of M500 where the reference answer must stay hidden. A program must pass every public
 * test that was run on it, at least one. A test must hold when its own working is executed, and the program that its working
 * follows must not be known to fail the public tests. Programs first, then tests, in the order of the report.
 */
export const publicTestsFilter = method({
  name: 'public_tests_filter',
  kind: 'filter',
  source: 'ours, after the correctness filter of M500 (jincan333/MAS-TTS)',
  version: 1,
  summary: 'Keeps programs that pass the public tests, and tests whose working holds and does not contradict them.',
  teams: 'coder and tester; test execution',
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

/**
 * Keeps what the team itself got right in one episode, for training each role on its own successes.
 *
 * Source: ours, after role-wise selection from successful trajectories (SWE-Dev and most SFT baselines).
 * Programs: right by ground truth, and each exact output once (`tokens_key`, the first wins; without one, every output is its own).
 * Tests: their working holds and follows the behaviour of a right program of the same episode. Nobody right: nothing is kept, and
 * the reason shows whether somebody could have been: `no_tests` and `no_ground_truth` are not `nobody_right`.
 * Programs first, then tests, in the order of the report.
 */
export const ownSuccessFilter = method({
  name: 'own_success_filter',
  kind: 'filter',
  source: 'ours, after role-wise selection from successful trajectories',
  version: 1,
  summary: 'Keeps distinct right programs, and tests whose working holds and follows a right program.',
  teams: 'coder and tester; test execution',
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
    const tests = read.tests.map((k) => verdict(report.tests[k]!.id, ownTestFault(report.tests[k]!, behaviours, none)));
    return [...programs, ...tests];
  },
  judged: verdictsByReport,
});

function ownTestFault(
  test: ExecutionReport['tests'][number],
  right: readonly (string | null)[],
  none: string,
): string | null {
  if (!test.valid) return 'malformed';
  if (test.holds !== true) return test.holds === false ? 'working_does_not_hold' : 'working_unknown';
  if (right.length === 0) return none;
  return right.some((known) => known !== null && known === test.behaviour) ? null : 'follows_no_right_program';
}

/**
 * Keeps the candidates whose behaviour more than half of their group shares.
 *
 * Source: ours, after the consensus filter of M500 (jincan333/MAS-TTS), for outputs that can be run instead of argued about.
 * A null behaviour counts towards the size of its group and agrees with nobody.
 */
export const majorityFilter = method({
  name: 'majority_filter',
  kind: 'filter',
  source: 'ours, after the consensus filter of M500 (jincan333/MAS-TTS)',
  version: 1,
  summary: 'Keeps candidates whose behaviour is that of more than half of their group.',
  teams: 'several candidates; test execution',
  input: Type.Object({
    candidates: Type.Array(Type.Object({ id: Key, group: Key, behaviour: nullable(Type.String()) })),
  }),
  run: ({ candidates }): Verdict[] => {
    const majorities = new Map<string | number, string | null>();
    for (const [group, members] of groupBy(candidates, (one) => one.group)) {
      const behaviours = groupBy(members, (one) => one.behaviour);
      const found = [...behaviours].find(([name, same]) => name !== null && same.length * 2 > members.length);
      majorities.set(group, found?.[0] ?? null);
    }
    return candidates.map(({ id, group, behaviour }) => {
      const majority = majorities.get(group) ?? null;
      if (majority === null) return verdict(id, 'no_majority');
      return verdict(id, behaviour === majority ? null : 'minority');
    });
  },
  judged: {
    reads: ['content', 'reports'],
    rows: ({ episodes, steps, reports, survives }, ask) => {
      const facts = new Map(episodes.map((episode) => [episode.episode_id, episode]));
      const roles = new Map(steps.map((step) => [stepKey(step.episode_id, step.step_id), step.role]));
      const candidates = [...reports].flatMap(([episodeId, report]) =>
        [...report.programs.filter((p) => !p.reference), ...report.tests.filter((t) => !t.ground_truth && !t.public)]
          .filter((member) => survives(episodeId, String(member.id)))
          .map((member) => ({
            id: stepKey(episodeId, String(member.id)),
            group: stepKey(
              facts.get(episodeId)?.task_id ?? episodeId,
              roles.get(stepKey(episodeId, String(member.id))) ?? '',
            ),
            behaviour: member.behaviour ?? null,
          })),
      );
      return ask.run({ candidates }).map(({ id, keep, reason }) => {
        const [episode_id = '', step_id = ''] = String(id).split('\u0000');
        return { table: 'verdicts', episode_id, step_id, keep, reason };
      });
    },
  },
});
