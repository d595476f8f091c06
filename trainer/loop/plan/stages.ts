/** The stages of a run: each is a job with an id of its own, so a run that was killed finds what is done. */
import type { AsOf } from '../../../store/datasets/as-of.ts';
import type { Recipe } from '../../../store/datasets/recipe.ts';
import type { Budget } from '../../../store/loop/play/budget-schema.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import { type JobContext, requestJob, WaitsFor } from '../../../store/queue/jobs/jobs.ts';
import type { GateReport, ManualReport } from '../comparison/report.ts';
import { type PartResult, partOf } from './parts.ts';
import { runOver, stageBudget } from './plan-budget.ts';
import type { Plan } from './plan-schema.ts';
import type { FrozenRows } from './round-rows.ts';

/** No stage may begin: the budget of the plan is used up, or cannot be measured. */
export class BudgetSpent extends Error {}

/** A round has rows to learn from and no signal in them: whoever is always right, or always wrong, learns nothing from itself. */
export class NothingToLearn extends Error {}

/** @throws BudgetSpent where the budget of the plan cut the gate short, so that it decided nothing */
export async function requireDecided(
  context: JobContext,
  plan: Plan,
  { gate, run, round }: { readonly gate: GateReport | ManualReport; readonly run: string; readonly round: number },
): Promise<void> {
  if (gate.kind === 'manual' || gate.cut_short === undefined) return;
  // That of the gate names what was left to it.
  const over = (await runOver(context, plan, run)) ?? gate.cut_short;
  throw new BudgetSpent(
    `${over} So ${run}/${round}/gate was cut short and nothing is released; the plan with another budget, run again, goes on there.`,
  );
}

/** Where a stage stands in its run. */
export type OfStage = {
  readonly run: string;
  readonly round: number;
  readonly iteration: number;
  readonly iterations: number;
  /** Of a run that learns from what had been recorded at an earlier time. */
  readonly as_of?: AsOf;
};

export type Stages = {
  /** Asks for a stage, or finds that it was asked for; `spec` is computed once. Throws `WaitsFor` until it has ended. */
  readonly job: <T>(
    stage: string,
    kind: string,
    spec: () => Promise<Record<string, unknown>>,
  ) => Promise<PartResult<T>>;
  /** The rows of a recipe, frozen; a dataset without rows is not refused. */
  readonly freeze: (stage: string, recipe: () => Promise<Recipe>) => Promise<FrozenRows>;
};

/** Id of the job of a stage; the iteration is part of it where a round has several. */
export const stageId = ({ run, round, iteration, iterations }: OfStage, stage: string): string =>
  iterations === 1 ? `${run}/${round}/${stage}` : `${run}/${round}/${iteration}/${stage}`;

/** The stages of one iteration, or, with one iteration only, those of its round. */
export function stagesOf(context: JobContext, plan: Plan, of: OfStage): Stages {
  const { db, log } = context;
  const { run } = of;
  const job: Stages['job'] = async <T>(stage: string, kind: string, spec: () => Promise<Record<string, unknown>>) => {
    const job_id = stageId(of, stage);
    const known = await partOf<T>(db, job_id);
    if (known !== null) return known;
    if (plan.budget !== undefined) await waitProjected(db, { log });
    const over = await runOver(context, plan, run);
    if (over !== null)
      throw new BudgetSpent(
        `${over} So ${job_id} did not begin; the plan with another budget, run again, goes on there.`,
      );
    const asked = await spec();
    const own = asked.budget as Budget | undefined;
    const limited = await stageBudget(context, plan, { run, job_id, kind, own });
    await requestJob(context, { job_id, kind, spec: { ...asked, ...limited }, parent: run });
    throw new WaitsFor(job_id);
  };
  const asOf = of.as_of === undefined ? {} : { as_of: of.as_of };
  return {
    job,
    freeze: async (stage, recipe) =>
      (await job<FrozenRows>(stage, 'freeze', async () => ({ recipe: await recipe(), allow_empty: true, ...asOf })))
        .result,
  };
}
