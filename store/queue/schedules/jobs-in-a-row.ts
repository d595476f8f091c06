/** Whether the last jobs of a schedule went so badly that it should start no more of them. */
import type { ScheduleDefinition } from './definition-schema.ts';
import type { ScheduledRun } from './history.ts';

/** Defaults of a schedule that names none. */
export const PAUSE_AFTER = { failed: 3, refused: 2, rolled_back: 1, over_budget: 0 } as const;

/** Why the schedule is to be paused, from its jobs, newest first; null where it is not. */
export function reasonToPause(
  { pause_after = PAUSE_AFTER }: Pick<ScheduleDefinition, 'pause_after'>,
  runs: readonly ScheduledRun[],
  /** Ids of those whose release was rolled back. */
  rolledBack: ReadonlySet<string>,
): string | null {
  const ended = runs.filter((run) => run.state === 'finished');
  const inARow = (bad: (run: ScheduledRun) => boolean): number => {
    const good = ended.findIndex((run) => !bad(run));
    return good < 0 ? ended.length : good;
  };
  const failed = inARow((run) => run.outcome === 'failed');
  if (pause_after.failed > 0 && failed >= pause_after.failed)
    return `its last ${failed} jobs failed: ${messageOf(ended[0]?.error)}`;
  const refused = inARow(gateRefused);
  if (pause_after.refused > 0 && refused >= pause_after.refused)
    return `the gate refused the candidates of its last ${refused} jobs`;
  const over = inARow(endedByBudget);
  const mostOver = pause_after.over_budget ?? PAUSE_AFTER.over_budget;
  if (mostOver > 0 && over >= mostOver)
    return `the budget of its plan ended ${over === 1 ? 'its last job' : `its last ${over} jobs`}`;
  const back = inARow((run) => rolledBack.has(run.job_id));
  const most = pause_after.rolled_back ?? PAUSE_AFTER.rolled_back;
  if (most > 0 && back >= most)
    return `the live metric fell after the release of ${back === 1 ? 'its last job' : `its last ${back} jobs`}, and the watch rolled back`;
  return null;
}

/** A plan that came to its gate and released nothing. */
function gateRefused({ outcome, result }: ScheduledRun): boolean {
  if (outcome !== 'done' || typeof result !== 'object' || result === null) return false;
  const { released, rounds, nothing_to_learn = null } = result as Readonly<Record<string, unknown>>;
  return released === false && Array.isArray(rounds) && rounds.length > 0 && nothing_to_learn === null;
}

const endedByBudget = ({ result }: ScheduledRun): boolean =>
  typeof result === 'object' &&
  result !== null &&
  typeof (result as { ended_early?: unknown }).ended_early === 'string';

const messageOf = (error: unknown): string =>
  typeof error === 'object' && error !== null && 'message' in error ? String(error.message) : 'without a reason';
