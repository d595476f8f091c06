/** The budget of a run of a plan, over all its rounds: what is used, what is left to a stage, and how a run that it ended goes on. */
import { countText } from '../../../errors.ts';
import { firstOf, query, type SqlBool, sql } from '../../../store/db/query.ts';
import { forgetLeftOut, isNoAttempt } from '../../../store/loop/play/attempts.ts';
import { overBudget, spentBelow, spentOf } from '../../../store/loop/play/budget.ts';
import type { Budget } from '../../../store/loop/play/budget-schema.ts';
import { ROLLOUT } from '../../../store/loop/play/rollout.ts';
import { goOnWithJob, type JobContext } from '../../../store/queue/jobs/jobs.ts';
import { runMinutes } from '../../../store/queue/jobs/run-of-plan.ts';
import { CANARY } from '../comparison/canary.ts';
import { PLAY, rolloutOfSide, SIDES } from '../comparison/play.ts';
import type { Plan } from './plan-schema.ts';

/** Job kind of an offline gate. */
const OFFLINE = 'gate';

/** Why no further stage of the run begins; null while its budget lasts. A budget that cannot be measured ends too: unknown is not 0. */
export async function runOver({ db }: Pick<JobContext, 'db'>, plan: Plan, run: string): Promise<string | null> {
  const { minutes, ...limits } = plan.budget ?? {};
  if (minutes !== undefined && ((await runMinutes(db, run)) ?? 0) > minutes)
    return `The budget of ${countText(minutes, 'minute')} was used up.`;
  if (limits.tokens === undefined && limits.usd === undefined) return null;
  return overBudget({ budget: limits }, await spentBelow(db, run), 0)?.message ?? null;
}

/** What the calls of a stage count by: its rollouts. */
const rolloutsOf = (kind: string, job_id: string): string[] =>
  kind === PLAY ? SIDES.map((side) => rolloutOfSide(job_id, side)) : [job_id];

/**
 * What a rollout or a gate of the run may use, beside what it used itself: its own budget, and no more than is left of that of the run. An
 * offline gate calls nothing, and what a canary looks at would be played without it, so these have the time alone; other stages have none.
 */
export async function stageBudget(
  { db }: Pick<JobContext, 'db'>,
  plan: Plan,
  {
    run,
    job_id,
    kind,
    own = {},
  }: { readonly run: string; readonly job_id: string; readonly kind: string; readonly own?: Budget | undefined },
): Promise<{ readonly budget?: Budget }> {
  const plays = kind === ROLLOUT || kind === PLAY;
  if (!plays && kind !== OFFLINE && kind !== CANARY) return {};
  const { tokens, usd, minutes } = plan.budget ?? {};
  const left: { -readonly [of in keyof Budget]: Budget[of] } = {};
  if (plays && (tokens !== undefined || usd !== undefined)) {
    const [all, here] = [await spentBelow(db, run), await spentOf(db, rolloutsOf(kind, job_id))];
    // A program may report a fraction.
    if (tokens !== undefined) left.tokens = Math.max(1, Math.floor(tokens - (all.tokens ?? 0) + (here.tokens ?? 0)));
    if (usd !== undefined) left.usd = usd - (all.usd ?? 0) + (here.usd ?? 0);
  }
  if (minutes !== undefined)
    // Rounded up, and at least 1: once it is over, so is the budget of the run.
    left.seconds = Math.max(
      1,
      Math.ceil((minutes - ((await runMinutes(db, run)) ?? 0) + ((await runMinutes(db, job_id)) ?? 0)) * 60),
    );
  const least = (of: keyof Budget) => {
    const limits = [left[of], own[of]].filter((one) => one !== undefined);
    return limits.length === 0 ? {} : { [of]: Math.min(...limits) };
  };
  const budget: Budget = { ...least('tokens'), ...least('usd'), ...least('seconds') };
  return Object.keys(budget).length === 0 ? {} : { budget };
}

/**
 * Has a run that its budget ended go on with the same plan under another budget. A rollout that it left unfinished plays the rest, and a gate
 * that it cut short is decided. Returns false where the run has not ended.
 */
export async function goOnWithRun(context: JobContext, run: string, plan: Plan, spec: object): Promise<boolean> {
  // Otherwise it would end where it is: nothing is played or compared again.
  if ((await runOver(context, plan, run)) === null) await goOnWithStages(context, run, plan);
  return goOnWithJob(context, { job_id: run, spec: { ...spec, plan } });
}

async function goOnWithStages(context: JobContext, run: string, plan: Plan): Promise<void> {
  const { db } = context;
  const stages = query
    .selectFrom('troupe.job_queue')
    .select(['job_id', 'kind', 'spec'])
    .where(sql<SqlBool>`starts_with(job_id, ${`${run}/`})`)
    .where(isNoAttempt)
    .orderBy('requested_at', 'desc')
    .limit(1);
  const goOn = async ({ job_id, kind, spec }: { job_id: string; kind: string; spec: unknown }, parent: string) => {
    const { budget: _, ...asked } = spec as { readonly budget?: Budget };
    const own = kind === ROLLOUT && parent === run ? plan.rollout?.budget : undefined;
    const limited = await stageBudget(context, plan, { run, job_id, kind, own });
    await goOnWithJob(context, { job_id, spec: { ...asked, ...limited }, parent });
  };
  const cut = await firstOf(db, stages.where(sql<SqlBool>`result ->> 'cut_short' is not null`));
  const last = await firstOf(db, stages);
  // Its rollout first: a gate that finds it ended would be cut short again.
  if (last?.kind === ROLLOUT && (await forgetLeftOut(db, last.job_id)) > 0)
    await goOn(last, cut !== undefined && last.job_id.startsWith(`${cut.job_id}/`) ? cut.job_id : run);
  if (cut !== undefined) await goOn(cut, run);
}
