/**
 * How often the program is right that most candidates agree on.
 *
 * Source: ours, self-consistency over behaviour instead of answers. The largest group of equal behaviour is chosen, the first seen
 * wins a tie; all malformed programs are one group; a program of unknown behaviour is a group of its own.
 * Episodes whose choice is of unknown truth are left out; null when none is left.
 */

import { groupBy } from '../../../../ingest/events/group-by.ts';
import { scoreByReports } from '../../judging/reports.ts';
import { type ExecutionReport, ExecutionReports, readReports } from '../execution-report.ts';
import { method } from '../method.ts';
import { mean } from '../statistics.ts';

export const majorityOfN = method({
  name: 'majority_of_n',
  kind: 'score',
  source: 'ours',
  version: 1,
  summary: 'Share of episodes whose largest group of equal behaviour is right.',
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
