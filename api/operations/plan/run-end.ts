/** What becomes of a run of a plan that an operation started or let go on. */
import { stateOfRun } from '../../../store/queue/jobs/run-of-plan.ts';
import type { PlanResult } from '../../../trainer/loop/plan/round.ts';
import type { ChangeContext } from '../operation.ts';

/** Works on the run until it has ended or waits, unless that is left to other processes. */
export async function endRun(context: ChangeContext, run: string, detached: boolean) {
  if (detached || context.workOnRun === null) return { run, state: 'running' as const };
  await context.workOnRun(run, context);
  // Whoever asks the tables next finds what the run did, though a projector beside it may wait for more to come.
  await context.catchUp();
  const { state, ...found } = await stateOfRun(context.db, run);
  return { run, state, ...('result' in found ? (found.result as PlanResult) : found) };
}
