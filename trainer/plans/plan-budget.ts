/** The budget of a run of a plan, over all its rounds: what is used, what is left to a stage, and how a run that it ended goes on. */
import { countText } from '../../errors.ts';
import { firstOf, query, type SqlBool, sql } from '../../store/db/query.ts';
import { goOnWithJob, type JobContext } from '../../store/jobs/jobs.ts';
import { runMinutes } from '../../store/jobs/run-of-plan.ts';
import { forgetLeftOut, isNoAttempt } from '../../store/rollouts/attempts.ts';
import { overBudget, rolloutsBelow, spentOf } from '../../store/rollouts/budget.ts';
import { type Budget, ROLLOUT } from '../../store/rollouts/rollout.ts';
import type { Plan } from './plan-schema.ts';

/** Why no further stage of the run begins; null while its budget lasts. A budget that cannot be measured ends too: unknown is not 0. */
export async function runOver({ db }: Pick<JobContext, 'db'>, plan: Plan, run: string): Promise<string | null> {
  const { minutes, ...limits } = plan.budget ?? {};
  if (minutes !== undefined && ((await runMinutes(db, run)) ?? 0) > minutes)
    return `The budget of ${countText(minutes, 'minute')} was used up.`;
  if (limits.tokens === undefined && limits.usd === undefined) return null;
  return overBudget({ budget: limits }, await spentOf(db, await rolloutsBelow(db, run)), 0)?.message ?? null;
}

/** What a rollout of the run may use: its own budget, and no more than is left of that of the run. */
export async function rolloutBudget(
  { db }: Pick<JobContext, 'db'>,
  plan: Plan,
  { run, rollout, own = {} }: { readonly run: string; readonly rollout: string; readonly own?: Budget | undefined },
): Promise<{ readonly budget?: Budget }> {
  const { tokens, usd } = plan.budget ?? {};
  if (tokens === undefined && usd === undefined) return Object.keys(own).length === 0 ? {} : { budget: own };
  const [all, here] = [await spentOf(db, await rolloutsBelow(db, run)), await spentOf(db, [rollout])];
  const left = (most: number | undefined, of: 'tokens' | 'usd') =>
    most === undefined ? [] : [most - (all[of] ?? 0) + (here[of] ?? 0)];
  const least = (of: 'tokens' | 'usd', most: number | undefined) => {
    const limits = [...left(most, of), ...(own[of] === undefined ? [] : [own[of]])];
    return limits.length === 0 ? {} : { [of]: Math.min(...limits) };
  };
  return { budget: { ...own, ...least('tokens', tokens), ...least('usd', usd) } };
}

/**
 * Has a run that its budget ended go on with the same plan under another budget. A rollout that it left unfinished plays the rest.
 * Returns false where the run has not ended.
 */
export async function goOnWithRun(context: JobContext, run: string, plan: Plan, spec: object): Promise<boolean> {
  const { db } = context;
  const last = await firstOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select(['job_id', 'kind', 'spec'])
      .where(sql<SqlBool>`starts_with(job_id, ${`${run}/`})`)
      .where(isNoAttempt)
      .orderBy('requested_at', 'desc')
      .limit(1),
  );
  if (last?.kind === ROLLOUT && (await forgetLeftOut(db, last.job_id)) > 0) {
    const { budget: _, ...asked } = last.spec as { readonly budget?: Budget };
    const own = plan.rollout?.budget;
    const limited = await rolloutBudget(context, plan, { run, rollout: last.job_id, own });
    await goOnWithJob(context, { job_id: last.job_id, spec: { ...asked, ...limited }, parent: run });
  }
  return goOnWithJob(context, { job_id: run, spec: { ...spec, plan } });
}
