/**
 * One run of a plan: for each round play, where it has a rollout, evaluate, freeze, train, gate, release. Every stage is a job of its
 * own with an id made of run, round and stage, so a run that was killed finds what is done and goes on where it was. The run itself
 * holds no worker while a stage runs: its handler is called again from the beginning whenever a stage has ended.
 */
import { Type } from 'typebox';
import { AsOf } from '../../../store/datasets/as-of.ts';
import { firstOf, query, type SqlBool, sql } from '../../../store/db/query.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import { checkedSpec, type Handler, type Job, type JobContext } from '../../../store/queue/jobs/jobs.ts';
import { requireUnblocked } from './check.ts';
import type { Checking } from './check-found.ts';
import { gateOf } from './gates-asked.ts';
import { type Iteration, iterate, iterationsOf, iterationToGoOn, mapped, reportOf } from './iteration.ts';
import { parseStoredPlan } from './plan.ts';
import type { Plan } from './plan-schema.ts';
import { endRound, type PlanResult, type Round } from './round.ts';
import { BudgetSpent, NothingToLearn, type OfStage, requireDecided, stagesOf } from './stages.ts';
import { teamRound } from './team-round.ts';
import type { HostedModels } from './weights.ts';

/**
 * What a job of kind `plan` needs: the plan as JSON with absolute paths. The name of the run is the id of the job. With `as_of` its
 * datasets hold what had been recorded then; weights, gate and release are those of now.
 */
export const PlanSpec = Type.Object({
  plan: Type.Unknown(),
  /** What was set beside the file of the plan, by path; the plan has it in it. */
  set: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  as_of: Type.Optional(AsOf),
  /** Whoever requested it found no problem just before, so it is not checked again. */
  checked: Type.Optional(Type.Boolean()),
});

export type RunSettings = { readonly checking: Omit<Checking, 'db'>; readonly hosted?: HostedModels };

/**
 * @returns handler of kind `plan`, whose result is a `PlanResult`; it fails with `plan_blocked` before the first stage of a run that
 *   something keeps from its end
 */
export function planHandler(context: JobContext, { checking, hosted = {} }: RunSettings): Handler {
  /** Rounds that ended, by run: a handler that is called again does not compute their reports again. */
  const known = new Map<string, readonly Round[]>();
  /** The plan of the run that was called last, checked: with 4,000 tasks that takes 20 ms, after each stage. */
  let last: { readonly run: string; readonly plan: Plan } | null = null;
  return async ({ job_id, spec }) => {
    const { plan: written, as_of, checked = false } = checkedSpec(PlanSpec, spec);
    if (last?.run !== job_id) {
      const plan = await parseStoredPlan(written);
      if (!checked && !(await hasBegun(context, job_id))) {
        await waitProjected(context.db, { log: context.log });
        await requireUnblocked({ ...checking, ...(as_of === undefined ? {} : { asOf: as_of }), db: context.db }, plan);
      }
      last = { run: job_id, plan };
    }
    const { plan } = last;
    const run = { run: job_id, ...(as_of === undefined ? {} : { as_of }) };
    const rounds = [...(known.get(job_id) ?? [])];
    for (let round = rounds.length + 1; round <= (plan.rounds ?? 1); round++) {
      try {
        rounds.push(await runRound(context, plan, { ...run, round, before: rounds.at(-1) ?? null }, hosted));
        known.set(job_id, [...rounds]);
      } catch (error) {
        if (error instanceof NothingToLearn) {
          known.delete(job_id);
          return resultOf(plan, rounds, { nothing_to_learn: error.message });
        }
        if (!(error instanceof BudgetSpent)) throw error;
        known.delete(job_id);
        // It may go on with another budget.
        last = null;
        return resultOf(plan, rounds, { ended_early: error.message });
      }
    }
    known.delete(job_id);
    return resultOf(plan, rounds);
  };
}

async function hasBegun({ db }: JobContext, run: Job['job_id']): Promise<boolean> {
  const stages = query
    .selectFrom('troupe.job_queue')
    .select('job_id')
    .where(sql<SqlBool>`starts_with(job_id, ${`${run}/`})`)
    .limit(1);
  return (await firstOf(db, stages)) !== undefined;
}

const resultOf = (
  plan: Plan,
  rounds: readonly Round[],
  why: Partial<Pick<PlanResult, 'ended_early' | 'nothing_to_learn'>> = {},
): PlanResult => ({
  plan: plan.name,
  released: rounds.some(({ release_id }) => release_id !== null),
  rounds,
  ended_early: null,
  nothing_to_learn: null,
  ...why,
});

/** Whether no training of these made an optimizer step. */
const idle = (trained: Iteration['trained']): boolean =>
  Object.values(trained).every(({ result }) => result.steps === 0);

async function runRound(
  context: JobContext,
  plan: Plan,
  { before, ...ofRound }: Pick<OfStage, 'run' | 'round' | 'as_of'> & { readonly before: Round | null },
  hosted: HostedModels,
): Promise<Round> {
  const { run, round } = ofRound;
  if (plan.team !== undefined) return teamRound(context, plan, plan.team, { run, round });
  const names = Object.keys(plan.policies);
  const iterations = plan.rollout?.iterations ?? 1;
  const of = { ...ofRound, iterations, hosted };
  const from = await iterationToGoOn(context, plan, of);
  let now = { ...from };
  let last = await iterate(context, plan, { ...of, ...now, candidates: before?.candidates ?? {} });
  while (now.iteration < iterations) {
    now = { iteration: now.iteration + 1, before: mapped(last.trained, ({ result }) => result) };
    last = await iterate(context, plan, { ...of, ...now, candidates: before?.candidates ?? {} });
  }
  const { frozen, trained } = last;
  const ended = () => iterationsOf(context, plan, of);
  if (idle(trained) && (await ended()).every((one) => idle(one.trained)))
    throw new NothingToLearn(
      `Nothing to learn in round ${round}: no group of ${names.join(', ')} had a signal, so no optimizer step was made, and there is nothing to compare.`,
    );
  const stages = stagesOf(context, plan, { ...of, iterations: 1, iteration: 1 });
  const candidates = mapped(trained, ({ result }) => result);
  const gate = await gateOf(context, plan, stages, { round, candidates, frozen, ended }, hosted);
  await requireDecided(context, plan, { gate: gate.result, run, round });
  const ids = Object.fromEntries(names.map((name) => [name, candidates[name]!.checkpoint_id]));
  const end = await endRound(context, { run, round, plan, policies: ids, gate: gate.result, hosted });
  const report = plan.rollout ? await reportOf(context, await ended()) : null;
  return { round, candidates: ids, ...end, gate: `${run}/${round}/gate`, rollout: report };
}
