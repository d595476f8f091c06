/** The tasks of a stage of a plan: those of the plan itself, or the stored ones that its filter selects when the stage begins. */
import type { Session } from '../../../store/db/pool.ts';
import { parseTaskFilter } from '../../../store/filter/select.ts';
import type { RolloutTask } from '../../../store/loop/play/rollout.ts';
import { storedTasks } from '../../../store/loop/play/stored-tasks.ts';
import { isWhere, type PlanTasks } from './plan-schema.ts';

/** @throws TroupeError `not_found` where no stored task fits the filter, `recipe_invalid` for the filter itself */
export async function tasksOf(
  db: Pick<Session, 'query'>,
  at: 'rollout' | 'gate',
  tasks: PlanTasks,
): Promise<readonly RolloutTask[]> {
  if (!isWhere(tasks)) return tasks;
  return storedTasks(db, parseTaskFilter(tasks.where, `${at}.tasks.where`), tasks.where);
}
