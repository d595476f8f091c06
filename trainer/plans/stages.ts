/** The stages of a run: each is a job with an id of its own, so a run that was killed finds what is done. */
import { firstOf, query } from '../../store/db/query.ts';
import { type JobContext, requestJob, WaitsFor } from '../../store/jobs/jobs.ts';
import { type Done, partOf } from './parts.ts';
import type { Plan } from './plan-schema.ts';

/** No stage may begin: the minutes of the plan are used up. */
export class BudgetSpent extends Error {}

/** Where a stage stands in its run. */
export type OfStage = {
  readonly run: string;
  readonly round: number;
  readonly iteration: number;
  readonly iterations: number;
};

export type Stages = {
  /** Asks for a stage, or finds that it was asked for; `spec` is computed once. Throws `WaitsFor` until it has ended. */
  readonly job: <T>(stage: string, kind: string, spec: () => Promise<Record<string, unknown>>) => Promise<Done<T>>;
};

/** Id of the job of a stage; the iteration is part of it where a round has several. */
export const stageId = ({ run, round, iteration, iterations }: OfStage, stage: string): string =>
  iterations === 1 ? `${run}/${round}/${stage}` : `${run}/${round}/${iteration}/${stage}`;

/** The stages of one iteration, or, with one iteration only, those of its round. */
export function stagesOf(context: JobContext, plan: Plan, of: OfStage): Stages {
  const { db, now } = context;
  const isOverBudget = async () => {
    const minutes = plan.budget?.minutes;
    if (minutes === undefined) return false;
    const run = query.selectFrom('troupe.job_queue').select('requested_at').where('job_id', '=', of.run);
    const asked = await firstOf(db, run);
    return asked !== undefined && now().getTime() - Date.parse(asked.requested_at) > minutes * 60_000;
  };
  return {
    async job<T>(stage: string, kind: string, spec: () => Promise<Record<string, unknown>>): Promise<Done<T>> {
      const job_id = stageId(of, stage);
      const known = await partOf<T>(db, job_id);
      if (known !== null) return known;
      if (await isOverBudget())
        throw new BudgetSpent(`The budget of ${plan.budget?.minutes} minutes was used up before ${job_id} began.`);
      await requestJob(context, { job_id, kind, spec: await spec(), parent: of.run });
      throw new WaitsFor(job_id);
    },
  };
}
