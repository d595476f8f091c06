/** `troupe gate`: the report of a gate, and the decision of one that is left to a person. */
import type { Command } from 'commander';
import { EXIT, TroupeError } from '../../errors.ts';
import { isRecord } from '../../ingest/events/json.ts';
import type { Db } from '../../store/db/pool.ts';
import { firstOf, query, rowsOf, sql } from '../../store/db/query.ts';
import { watchMarkdown } from '../../store/loop/comparison/watch.ts';
import { watchOf } from '../../store/loop/comparison/watching.ts';
import { endWaiting } from '../../store/queue/jobs/jobs.ts';
import { GATE_KINDS, readRun, whyEnded } from '../../store/queue/jobs/run-of-plan.ts';
import { endCanary, runningCanary } from '../../trainer/loop/comparison/canarying.ts';
import { type GateReport, gateMarkdown, type ManualReport } from '../../trainer/loop/comparison/report.ts';
import { type Flags, projectCommand, who, wholeNumber } from '../command.ts';
import type { Context } from '../context.ts';
import { answer, print, printJson } from '../output.ts';
import { finishRun } from './plan.ts';

export function addTo(program: Command): void {
  const gate = program
    .command('gate')
    .addHelpText(
      'after',
      '\nExamples:\n  troupe gate show nightly-1\n  troupe gate accept nightly-1 --reason "reads well"',
    );

  projectCommand(
    gate
      .command('show')
      .description('show the report of a gate, as Markdown or JSON')
      .argument('<run>', 'run of a plan, such as nightly-1')
      .option('--round <n>', 'round of the run (default: the last one with a report)', wholeNumber('round'))
      .addHelpText(
        'after',
        '\nA canary that is under way has the report of now. Ends with 7 where the candidate did not pass, or not yet.\n\nExamples:\n  troupe gate show nightly-1\n  troupe gate show nightly-1 --round 2 --json',
      ),
    async ({ db, catchUp, now }, [run], flags) => {
      await catchUp();
      const rows = await rowsOf(
        db,
        query
          .selectFrom('facts.jobs')
          .select(['job_id', 'result'])
          .where('kind', 'in', [...GATE_KINDS])
          .where('outcome', '=', 'done')
          .where(sql<boolean>`starts_with(job_id, ${`${run}/`})`)
          .where('job_id', 'like', flags.round === undefined ? '%' : `%/${flags.round}/gate`)
          .orderBy('finished_at'),
      );
      const running = await runningCanary(db, run!, now());
      const asked = running !== null && (flags.round === undefined || running.job_id.endsWith(`/${flags.round}/gate`));
      const last = asked ? { job_id: running.job_id, result: running.report } : rows.at(-1);
      if (last === undefined || !isRecord(last.result))
        throw new TroupeError('not_found', await whyNoReport(db, run!, flags.round));
      const report = last.result as unknown as GateReport | ManualReport;
      const round = last.job_id.replace(/\/gate$/, '');
      const watch = await watchOf(db, round, now());
      if (flags.json) printJson({ gate: last.job_id, ...report, watch });
      else {
        print(gateMarkdown(report, round.replace(/\/(\d+)$/, ', round $1')));
        if (watch !== null) print(`\n${watchMarkdown(watch)}`);
      }
      return report.passed ? EXIT.done : EXIT.gate;
    },
  );
  for (const [name, passed] of [
    ['accept', true],
    ['refuse', false],
  ] as const) {
    projectCommand(
      gate
        .command(name)
        .description(
          passed
            ? 'release the candidates of a run that waits for a decision or has a canary under way, and go on with the run'
            : 'keep the candidates of a run that waits for a decision or has a canary under way unreleased, and go on with the run',
        )
        .argument('<run>', 'run of a plan, such as nightly-1')
        .option('--reason <text>', 'reason to record')
        .option('--by <who>', 'who decides (default: the user of this machine)')
        .option('--detach', 'leave the rest of the run to the processes of `troupe up`')
        .addHelpText('after', `\nExample:\n  troupe gate ${name} nightly-1 --reason "read 20 answers"`),
      (context, [run], flags) => decide(context, run!, passed, flags),
    );
  }
}

async function decide(context: Context, run: string, passed: boolean, flags: Flags): Promise<number> {
  const { db } = context;
  const waiting = await firstOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select('job_id')
      .where('kind', '=', 'decision')
      .where('state', '=', 'waiting')
      .where(sql<boolean>`starts_with(job_id, ${`${run}/`})`),
  );
  const by = who(flags);
  const reason = decisionText(passed, by, flags.reason as string | undefined);
  const decision: ManualReport = { format: 'troupe-gate/1', kind: 'manual', passed, reason, by };
  const ended =
    waiting === undefined
      ? await endCanary(context, run, { passed, reason, by })
      : (await endWaiting(context, { job_id: waiting.job_id, kind: 'decision', result: decision }))
        ? { job_id: waiting.job_id, report: decision }
        : null;
  if (ended === null)
    throw new TroupeError(
      'not_found',
      `Run ${run} waits for no decision, and none of its canaries is under way; \`troupe plan show ${run}\` shows its state.`,
    );
  if (!flags.detach) return finishRun(context, run, flags);
  answer(flags, { gate: ended.job_id, ...ended.report }, `${ended.job_id}: ${passed ? 'accepted' : 'refused'}.`);
  return EXIT.done;
}

function decisionText(passed: boolean, by: string, reason: string | undefined): string {
  const text = `${passed ? 'Accepted' : 'Refused'} by ${by}${reason ? `: ${reason.trim()}` : ''}`;
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** Why a run has no report of a gate, in a sentence. */
async function whyNoReport(db: Db, id: string, round: unknown): Promise<string> {
  const found = await readRun(db, id);
  if (found === null) return `There is no run ${id} of a plan; troupe plan show lists them.`;
  const at = round === undefined ? '' : ` in round ${round}`;
  const why = whyEnded(found.run);
  if (why !== null) return `Run ${id} has no report of a gate${at}: ${why}`;
  if (found.run.outcome !== null) return `Run ${id} has no report of a gate${at}.`;
  return `Run ${id} has no report of a gate${at} yet: its last stage is ${found.stages.at(-1)?.job_id ?? 'not asked for'}.`;
}
