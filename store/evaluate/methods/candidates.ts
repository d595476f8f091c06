/** What the candidates of a task are worth together: right ones, the best of n, the majority, and how good the tests are that chose. */

import { groupBy } from '../../../ingest/events/group-by.ts';
import { score } from '../judging/judgement.ts';
import { type ExecutionReport, ExecutionReports, readReports, rightByReference } from './execution-report.ts';
import { type Application, method } from './method.ts';
import { largest, mean } from './statistics.ts';

/** One number for each group, over the reports of its episodes. */
const scoreByReports: Application<{ readonly reports: readonly ExecutionReport[] }, unknown, number | null> = {
  over: 'group',
  reads: ['content', 'reports'],
  each:
    ({ reports }, ask) =>
    ({ group, members }) => {
      const known = members.map(({ episode }) => reports.get(episode.episode_id)).filter((one) => one !== undefined);
      if (known.length === 0) return [score(`g/${group}`, null, 'no_execution_matrix')];
      const value = ask.run({ reports: known });
      return [score(`g/${group}`, value, value === null ? 'unknown' : null)];
    },
};

/**
 * How often one program, taken as it comes, is right.
 *
 * Source: ours; the mean over episodes of the share of right candidates. Candidates whose truth is unknown, and episodes without
 * any other, are left out; null when nothing is left.
 */
export const passAt1 = method({
  name: 'pass_at_1',
  kind: 'score',
  source: 'ours',
  version: 1,
  summary: 'Mean share of right candidates.',
  teams: 'several candidates; test execution',
  input: ExecutionReports,
  run: ({ reports }): number | null => {
    const shares = readReports(reports).flatMap(({ read: { right, wrong } }) =>
      right.length + wrong.length === 0 ? [] : [right.length / (right.length + wrong.length)],
    );
    return shares.length === 0 ? null : mean(shares);
  },
  judged: scoreByReports,
});

/**
 * How often the program is right that the generated tests would choose.
 *
 * Source: ours, after CURE's evaluation (arXiv 2506.03136), which gives a tie to the lowest index; here tied programs share the
 * credit, because the order of candidates carries no information and would only add noise.
 * Candidates whose truth is unknown leave the share; episodes without a known one among the chosen are left out; null when none is left.
 */
export const bestOfN = method({
  name: 'best_of_n',
  kind: 'score',
  source: 'ours, after CURE (arXiv 2506.03136; Gen-Verse/CURE, evaluation/eval.py)',
  version: 1,
  summary: 'Mean correctness of the program that passes most generated tests; ties share the credit.',
  teams: 'coder and tester; test execution',
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

/**
 * How often the program is right that most candidates agree on.
 *
 * Source: ours, self-consistency over behaviour instead of answers. The largest group of equal behaviour is chosen, the first seen
 * wins a tie; all malformed programs are one group; a program of unknown behaviour is a group of its own.
 * Episodes whose choice is of unknown truth are left out; null when none is left.
 */
export const majorityOfN = method({
  name: 'majority_of_n',
  kind: 'score',
  source: 'ours',
  version: 1,
  summary: 'Share of episodes whose largest group of equal behaviour is right.',
  teams: 'several candidates; test execution',
  input: ExecutionReports,
  run: ({ reports }): number | null => {
    const outcomes = readReports(reports).flatMap(({ report, read }) => {
      const groups = [...groupBy(read.programs, (program) => behaviourOf(report, program)).values()];
      const largest = groups.reduce<number[]>((best, group) => (group.length > best.length ? group : best), []);
      // Recorded behaviour may be coarser than the tests; the first member whose truth is known decides for its group.
      const known = largest.find((program) => read.right.includes(program) || read.wrong.includes(program));
      return known === undefined ? [] : [read.right.includes(known) ? 1 : 0];
    });
    return outcomes.length === 0 ? null : mean(outcomes);
  },
  judged: scoreByReports,
});

function behaviourOf(report: ExecutionReport, program: number): string {
  const { valid, behaviour } = report.programs[program]!;
  if (!valid) return 'malformed';
  return behaviour === null ? `unknown ${program}` : `known ${behaviour}`;
}

/**
 * How many of a verifier's tests are right.
 *
 * Source: ours; the share, over all episodes together, of generated tests that the reference programs pass. A malformed test counts
 * as wrong; a test on which no reference was run is left out; null when none is left. For reporting only: the reference is never
 * shown to the learner.
 */
export const verifierPrecision = method({
  name: 'verifier_precision',
  kind: 'score',
  source: 'ours',
  version: 1,
  summary: 'Share of generated tests that the reference programs pass.',
  teams: 'coder and tester; test execution',
  input: ExecutionReports,
  run: ({ reports }): number | null => {
    const known = readReports(reports).flatMap(({ report, read }) =>
      read.tests.map((test) => rightByReference(report, read, test)).filter((right) => right !== null),
    );
    return known.length === 0 ? null : known.filter((right) => right).length / known.length;
  },
  judged: scoreByReports,
});

/**
 * How well a verifier's right tests distinguish wrong programs from right ones.
 *
 * Source: ours; among generated tests that the reference programs pass, the share of wrong candidates they reject, counted over all
 * episodes together. A malformed program is rejected by every test; a wrong one that was not run is left out; null when nothing is left.
 */
export const rejectionRate = method({
  name: 'rejection_rate',
  kind: 'score',
  source: 'ours',
  version: 1,
  summary: 'Share of wrong candidates that the right generated tests reject.',
  teams: 'coder and tester; test execution',
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
