/** What operations on gates do. */
import { TroupeError } from '../../../errors.ts';
import { isRecord } from '../../../ingest/events/json.ts';
import type { Db } from '../../../store/db/pool.ts';
import { firstOf, query, rowsOf, sql } from '../../../store/db/query.ts';
import { watchOf } from '../../../store/loop/comparison/watching.ts';
import { endWaiting } from '../../../store/queue/jobs/jobs.ts';
import { GATE_KINDS, readRun, whyEnded } from '../../../store/queue/jobs/run-of-plan.ts';
import { endCanary, runningCanary } from '../../../trainer/loop/comparison/canarying.ts';
import type { GateReport, ManualReport } from '../../../trainer/loop/comparison/report.ts';
import type { ChangeContext, ReadContext } from '../operation.ts';
import { endRun } from '../plan/run-end.ts';

export async function show(
  { db, catchUp, now }: ReadContext,
  { run, round }: { readonly run: string; readonly round?: number },
) {
  await catchUp();
  const rows = await rowsOf(
    db,
    query
      .selectFrom('facts.jobs')
      .select(['job_id', 'result'])
      .where('kind', 'in', [...GATE_KINDS])
      .where('outcome', '=', 'done')
      .where(sql<boolean>`starts_with(job_id, ${`${run}/`})`)
      .where('job_id', 'like', round === undefined ? '%' : `%/${round}/gate`)
      .orderBy('finished_at'),
  );
  const running = await runningCanary(db, run, now());
  const asked = running !== null && (round === undefined || running.job_id.endsWith(`/${round}/gate`));
  const last = asked ? { job_id: running.job_id, result: running.report } : rows.at(-1);
  if (last === undefined || !isRecord(last.result))
    throw new TroupeError('not_found', await whyNoReport(db, run, round));
  const report = last.result as unknown as GateReport | ManualReport;
  const watch = await watchOf(db, last.job_id.replace(/\/gate$/, ''), now());
  return { gate: last.job_id, ...report, watch };
}

/** Why a run has no report of a gate, in a sentence. */
async function whyNoReport(db: Db, id: string, round: number | undefined): Promise<string> {
  const found = await readRun(db, id);
  if (found === null) return `There is no run ${id} of a plan; troupe plan list lists them.`;
  const at = round === undefined ? '' : ` in round ${round}`;
  const why = whyEnded(found.run);
  if (why !== null) return `Run ${id} has no report of a gate${at}: ${why}`;
  if (found.run.outcome !== null) return `Run ${id} has no report of a gate${at}.`;
  return `Run ${id} has no report of a gate${at} yet: its last stage is ${found.stages.at(-1)?.job_id ?? 'not asked for'}.`;
}

const decide =
  (passed: boolean) =>
  async (
    context: ChangeContext,
    { run, reason: why, detach }: { readonly run: string; readonly reason?: string; readonly detach: boolean },
  ) => {
    const { db, by } = context;
    const waiting = await firstOf(
      db,
      query
        .selectFrom('troupe.job_queue')
        .select('job_id')
        .where('kind', '=', 'decision')
        .where('state', '=', 'waiting')
        .where(sql<boolean>`starts_with(job_id, ${`${run}/`})`),
    );
    const text = `${passed ? 'Accepted' : 'Refused'} by ${by}${why ? `: ${why.trim()}` : ''}`;
    const reason = /[.!?]$/.test(text) ? text : `${text}.`;
    const result: ManualReport = { format: 'troupe-gate/1', kind: 'manual', passed, reason, by };
    const gate =
      waiting === undefined
        ? (await endCanary(context, run, { passed, reason, by }))?.job_id
        : (await endWaiting(context, { job_id: waiting.job_id, kind: 'decision', result }))
          ? waiting.job_id
          : undefined;
    if (gate === undefined)
      throw new TroupeError(
        'not_found',
        `Run ${run} waits for no decision, and none of its canaries is under way; \`troupe plan show ${run}\` shows its state.`,
      );
    return { gate, ...(await endRun(context, run, detach)) };
  };

export const accept = decide(true);
export const refuse = decide(false);
