/** The plan that an operation is given. */
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { got, TroupeError, unreadable } from '../../../errors.ts';
import { parsePlan, readPlan } from '../../../trainer/loop/plan/plan.ts';
import { withTasks, withTeam } from '../../../trainer/loop/plan/plan-parts.ts';
import type { Plan } from '../../../trainer/loop/plan/plan-schema.ts';
import { type PlanValues, withValues } from '../../../trainer/loop/plan/plan-values.ts';
import { readTasksFile, readTeamFile } from '../played-files.ts';

export type PlanInput = {
  readonly plan: string | object;
  readonly set?: PlanValues | undefined;
  readonly rounds?: number | undefined;
  readonly folder?: string | undefined;
};

/**
 * The plan with its values set, its paths absolute, and with the tasks and versions that it names by files. Without a folder it may name
 * no files.
 * @throws TroupeError `plan_invalid`, `not_found`
 */
export async function planOf({ plan: given, set = {}, rounds, folder }: PlanInput): Promise<Plan> {
  const plan =
    typeof given === 'string' ? await readPlan(given, 'The plan', set) : await parsePlan(withValues(given, set));
  const placed = (path: string): string => {
    if (folder !== undefined) return resolve(folder, path);
    throw new TroupeError('plan_invalid', `The plan names ${got(path)}, and no folder to look for it in is given.`, {
      field: 'folder',
      hint: 'Over HTTP a plan names no files: its tasks and versions of a team stand in it, and its policies start from what was released.',
    });
  };
  const { policies, passes } = plan;
  const whole = {
    ...plan,
    ...(rounds === undefined ? {} : { rounds }),
    policies: Object.fromEntries(
      Object.entries(policies).map(([name, policy]) => [
        name,
        policy.base === undefined ? policy : { ...policy, base: placed(policy.base) },
      ]),
    ),
    ...(passes === undefined
      ? {}
      : {
          passes: passes.map((pass) => (pass.model === undefined ? pass : { ...pass, model: placed(pass.model) })),
        }),
  };
  const filled = withTeam(whole, (version) => readTeamFile(placed(version)));
  // Checked again: what the tasks have to be is known only now.
  return parsePlan(withTasks(filled, (tasks) => readTasksFile(placed(tasks))));
}

/** The plan of a file. @throws TroupeError `plan_invalid`, `not_found` */
export async function planOfFile(file: string, set: PlanValues = {}): Promise<Plan> {
  const text = await readFile(file, 'utf8').catch((cause) => {
    throw unreadable(`The plan ${file}`, cause);
  });
  return planOf({ plan: text, set, folder: dirname(file) });
}
