/** From execution reports to filters, scores and rewards of the candidates in them. */
import { TroupeError } from '../../errors.ts';
import { type ExecutionReport, nobodyRight, readReport } from '../methods/execution-report.ts';
import { runMethod } from '../methods/run.ts';
import { groupBy } from '../methods/statistics.ts';
import { attempt, missing } from './answers.ts';
import type { Assemble, Assemblers } from './assembler.ts';
import { type EpisodeFacts, groupOf, stepKey } from './facts.ts';
import { type Judgement, reward } from './judgement.ts';

const byReport: Assemble = (method, params, { episodes, reports }) =>
  episodes.flatMap((episode): Judgement[] => {
    const report = reports.get(episode.episode_id);
    if (!report) return [missing(method, episode, 'no_execution_matrix')];
    const output = attempt(method, { ...report, ...params });
    if (output instanceof TroupeError) return [missing(method, episode, output.message)];
    return method.kind === 'filter'
      ? (output as { id: string; keep: boolean; reason: string | null }[]).map(({ id, keep, reason }) => ({
          table: 'verdicts',
          episode_id: episode.episode_id,
          step_id: id,
          keep,
          reason,
        }))
      : rewardRows(episode, report, output as RewardOutput);
  });

type RewardOutput = {
  readonly programs: readonly (number | null)[];
  readonly tests: readonly (number | null)[];
  readonly upheld: number | null;
};

function rewardRows(episode: EpisodeFacts, report: ExecutionReport, output: RewardOutput): Judgement[] {
  const candidates = [
    ...report.programs.map((program, i) => ({
      id: String(program.id),
      value: output.programs[i] ?? null,
      other: program.reference,
    })),
    ...report.tests.map((test, k) => ({
      id: String(test.id),
      value: output.tests[k] ?? null,
      other: test.ground_truth || test.public,
    })),
  ].filter(({ other }) => !other);
  return [
    ...candidates.map(
      ({ id, value }): Judgement => ({
        table: 'rewards',
        episode_id: episode.episode_id,
        step_id: id,
        value,
        reason: value === null ? 'not_run' : null,
      }),
    ),
    {
      table: 'scores',
      key: `e/${episode.episode_id}`,
      value: output.upheld,
      reason: output.upheld === null ? noShare(report) : null,
    },
  ];
}

function noShare(report: ExecutionReport): string {
  const read = readReport(report);
  return read.tests.length === 0 ? 'no_tests' : nobodyRight(report, read);
}

/** CURE's own shapes: programs in rows; ground-truth columns apart from generated ones; malformed and unrun cells do not pass. */
const byMatrix: Assemble = (method, params, { episodes, reports }) =>
  episodes.flatMap((episode): Judgement[] => {
    const report = reports.get(episode.episode_id);
    if (!report) return [missing(method, episode, 'no_execution_matrix')];
    const programs = indices(report.programs, (program) => !program.reference);
    const truths = indices(report.tests, (test) => test.ground_truth === true);
    const tests = indices(report.tests, (test) => !test.ground_truth && !test.public);
    const passes = (i: number, k: number) => (report.programs[i]?.valid ? (report.pass[i]?.[k] ?? 0) : 0);
    const cells = (columns: readonly number[]) => programs.map((i) => columns.map((k) => passes(i, k)));
    const fields = Object.keys((method.input as { properties: object }).properties);
    if (fields.includes('length') && report.tokens === undefined) return [missing(method, episode, 'no_token_ids')];
    const input = {
      ...(fields.includes('gt_pass') ? { gt_pass: cells(truths) } : {}),
      ...(fields.includes('generated_pass') ? { generated_pass: cells(tests) } : {}),
      ...(fields.includes('length') ? { length: tests.map((k) => report.tokens?.tests[k] ?? 0) } : {}),
      ...params,
    };
    if (truths.length === 0 && fields.includes('gt_pass')) return [missing(method, episode, 'no_ground_truth')];
    const output = attempt(method, input);
    if (output instanceof TroupeError) return [missing(method, episode, output.message)];
    if (method.kind === 'score') {
      const key = `e/${episode.episode_id}`;
      if (output === null) {
        return [{ table: 'scores', key, value: null, reason: tests.length === 0 ? 'no_tests' : 'nobody_right' }];
      }
      const { precision } = output as { precision?: number };
      if (precision !== undefined) return [{ table: 'scores', key, value: precision, reason: null, detail: output }];
      const choice = output as { index: number; gt_rate: number | null };
      const chosen = report.programs[programs[choice.index] ?? -1]?.id ?? null;
      return [
        {
          table: 'scores',
          key,
          value: choice.gt_rate,
          reason: null,
          detail: { ...choice, chosen },
        },
      ];
    }
    const both = output as { R_C?: readonly number[]; R_V?: readonly number[] } | null;
    if (both?.R_C && both.R_V) {
      const of = (member: { id: string | number } | undefined, value: number | undefined) =>
        reward({ episode_id: episode.episode_id, step_id: String(member?.id) }, value ?? null, null);
      return [
        ...programs.map((i, n) => of(report.programs[i], both.R_C?.[n])),
        ...tests.map((k, n) => of(report.tests[k], both.R_V?.[n])),
      ];
    }
    const ofTests = !Array.isArray(output) && output !== null;
    const values = (ofTests ? (output as { reward: number[] | null }).reward : (output as number[] | null)) ?? null;
    const members =
      ofTests || fields.includes('generated_pass')
        ? tests.map((k) => report.tests[k])
        : programs.map((i) => report.programs[i]);
    return members.map((member, i) => ({
      table: 'rewards',
      episode_id: episode.episode_id,
      step_id: String(member?.id),
      value: values?.[i] ?? null,
      reason: values === null ? 'zero_variance' : null,
    }));
  });

const survivors: Assemble = (method, params, { episodes, steps, reports, survives }) => {
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
  return (runMethod(method, { candidates, ...params }) as { id: string; keep: boolean; reason: string | null }[]).map(
    ({ id, keep, reason }) => {
      const [episode_id = '', step_id = ''] = id.split('\u0000');
      return { table: 'verdicts', episode_id, step_id, keep, reason };
    },
  );
};

/** One number for each group, over the execution reports of its episodes. */
const byReports: Assemble = (method, params, { episodes, reports }) =>
  [...groupBy(episodes, groupOf)].map(([group, members]) => {
    const known = members.map((member) => reports.get(member.episode_id)).filter((report) => report !== undefined);
    const score = { table: 'scores', key: `g/${group}` } as const;
    if (known.length === 0) return { ...score, value: null, reason: 'no_execution_matrix' };
    const value = runMethod(method, { reports: known, ...params }) as number | null;
    return { ...score, value, reason: value === null ? 'unknown' : null };
  });

const indices = <T>(items: readonly T[], keep: (item: T) => boolean): number[] =>
  items.flatMap((item, i) => (keep(item) ? [i] : []));

export const REPORT_ASSEMBLERS: Assemblers = {
  'execution matrix': {
    score: { over: byMatrix, reads: ['content', 'reports'] },
    reward: { over: byMatrix, reads: ['content', 'reports'], writes: ['rewards', 'scores'] },
  },
  'execution report': {
    filter: { over: byReport, reads: ['content', 'reports'] },
    reward: { over: byReport, reads: ['content', 'reports'], writes: ['rewards', 'scores'] },
  },
  'execution reports': { score: { over: byReports, reads: ['content', 'reports'] } },
  'surviving candidates': { filter: { over: survivors, reads: ['content', 'reports'] } },
};
