/** What methods over execution reports share: each episode with its report, and the candidates in it. */

import { groupBy } from '../../../ingest/events/group-by.ts';
import type { ExecutionReport, Verdict } from '../methods/execution-report.ts';
import type { Judged } from '../methods/method.ts';
import type { Assembled } from './assembled.ts';
import { type EpisodeFacts, groupOf } from './facts.ts';
import { type Judgement, score, verdictOn } from './judgement.ts';

/** Rows of each episode from its report; a text is the reason why there are none, in the row that `lacking` makes of it. */
export const overReports = (
  { episodes, reports }: Assembled,
  lacking: (episode: EpisodeFacts, reason: string) => Judgement,
  judge: (report: ExecutionReport, episode: EpisodeFacts) => readonly Judgement[] | string,
): Judgement[] =>
  episodes.flatMap((episode) => {
    const report = reports.get(episode.episode_id);
    const result = report === undefined ? 'no_execution_matrix' : judge(report, episode);
    return typeof result === 'string' ? [lacking(episode, result)] : result;
  });

/** The one score of an episode, where there is nothing for its candidates. */
export const noScore = ({ episode_id }: EpisodeFacts, reason: string): Judgement =>
  score(`e/${episode_id}`, null, reason);

/** For filters of one report: a verdict on each of its candidates. */
export const verdictsByReport: Judged<ExecutionReport, unknown, readonly Verdict[]> = {
  reads: ['content', 'reports'],
  rows: (facts, ask) =>
    overReports(
      facts,
      (episode, reason) => verdictOn(episode, null, reason),
      (report, { episode_id }) => {
        const verdicts = ask.answer(report);
        return typeof verdicts === 'string'
          ? verdicts
          : verdicts.map(({ id, keep, reason }) => verdictOn({ episode_id, step_id: String(id) }, keep, reason));
      },
    ),
};

/** For scores of several reports: one number for each group, over the reports of its episodes. */
export const scoreByReports: Judged<{ readonly reports: readonly ExecutionReport[] }, unknown, number | null> = {
  reads: ['content', 'reports'],
  rows: ({ episodes, reports }, ask) =>
    [...groupBy(episodes, groupOf)].map(([group, members]) => {
      const known = members.map((member) => reports.get(member.episode_id)).filter((report) => report !== undefined);
      if (known.length === 0) return score(`g/${group}`, null, 'no_execution_matrix');
      const value = ask.run({ reports: known });
      return score(`g/${group}`, value, value === null ? 'unknown' : null);
    }),
};

/** CURE's own shapes: programs in rows; ground-truth columns apart from generated ones; malformed and unrun cells do not pass. */
export type Matrices = {
  readonly gt_pass: readonly (readonly (0 | 1)[])[];
  readonly generated_pass: readonly (readonly (0 | 1)[])[];
  /** Candidates by row, and by column of `generated_pass`. */
  readonly programs: ExecutionReport['programs'];
  readonly tests: ExecutionReport['tests'];
  /** Length of each generated test in tokens; null where one is unknown. */
  readonly length: readonly number[] | null;
};

/** `no_ground_truth` where there is nothing to measure candidates against. */
export function matricesOf(report: ExecutionReport): Matrices | 'no_ground_truth' {
  const programs = indices(report.programs, (program) => !program.reference);
  const truths = indices(report.tests, (test) => test.ground_truth === true);
  const tests = indices(report.tests, (test) => !test.ground_truth && !test.public);
  if (truths.length === 0) return 'no_ground_truth';
  const passes = (i: number, k: number) => (report.programs[i]?.valid ? (report.pass[i]?.[k] ?? 0) : 0);
  const cells = (columns: readonly number[]) => programs.map((i) => columns.map((k) => passes(i, k)));
  const { tokens } = report;
  return {
    gt_pass: cells(truths),
    generated_pass: cells(tests),
    programs: programs.map((i) => report.programs[i]!),
    tests: tests.map((k) => report.tests[k]!),
    length: tokens === undefined ? null : tests.map((k) => tokens.tests[k] ?? 0),
  };
}

/** The same as `overReports` over matrices; the one score of an episode is null where it has none. */
export const overMatrices = (
  facts: Assembled,
  judge: (matrices: Matrices, episode: EpisodeFacts) => readonly Judgement[] | string,
): Judgement[] =>
  overReports(facts, noScore, (report, episode) => {
    const matrices = matricesOf(report);
    return typeof matrices === 'string' ? matrices : judge(matrices, episode);
  });

const indices = <T>(items: readonly T[], keep: (item: T) => boolean): number[] =>
  items.flatMap((item, i) => (keep(item) ? [i] : []));
