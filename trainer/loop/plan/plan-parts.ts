/** Parts of a plan that stand in files of their own until it is run: tasks, and versions of a team. */
import { got, TroupeError } from '../../../errors.ts';
import { canonicalJson, isRecord, sha256 } from '../../../ingest/events/json.ts';
import type { RolloutTask } from '../../../store/loop/play/rollout.ts';
import { type TeamVersion, teamVersion } from '../../../store/loop/team/version.ts';
import { isWhere, type Plan, type PlanRollout, type PlanTasks, type PlanTeam } from './plan-schema.ts';

/** An error of a plan, with the path of the field. */
export const invalid = (
  field: string,
  message: string,
  detail: { expected?: string; got?: string; hint?: string } = {},
) => new TroupeError('plan_invalid', message, { field, ...detail });

/** The plan with the versions of its team in place of their files. */
export function withTeam(plan: Plan, read: (file: string) => unknown): Plan {
  if (plan.team === undefined) return plan;
  const filled = (at: 'candidate' | 'base', definition: NonNullable<PlanTeam['candidate']>) => {
    if (typeof definition !== 'string') return definition;
    const value = read(definition);
    if (isRecord(value)) return value;
    throw invalid(
      `team.${at}`,
      `The file ${definition} should hold a version of a team as an object, but it is ${got(value)}.`,
    );
  };
  const { candidate, base, ...rest } = plan.team;
  return {
    ...plan,
    team: {
      ...rest,
      ...(candidate === undefined ? {} : { candidate: filled('candidate', candidate) }),
      ...(base === undefined ? {} : { base: filled('base', base) }),
    },
  };
}

/** A version of the team of a plan that is run. @throws TroupeError `plan_invalid` where it is still a file */
export function versionOf({ name, ...of }: PlanTeam, at: 'candidate' | 'base'): TeamVersion | null {
  const definition = of[at];
  if (definition === undefined) return null;
  if (typeof definition !== 'string') return teamVersion(name, definition);
  throw invalid(
    `team.${at}`,
    `team.${at} should be the version itself in a plan that is requested as a job, but it is the file ${got(definition)}.`,
    { hint: 'troupe plan run and troupe schedule add read the file.' },
  );
}

/** The rollout of a plan that is run; null where it has none. @throws TroupeError `plan_invalid` where its tasks are still a file */
export function rolloutOf({ rollout }: Plan): PlanRollout | null {
  if (rollout === undefined) return null;
  return { ...rollout, tasks: requireTasks('rollout', rollout.tasks) };
}

/** The tasks that the rollout or the gate of a stored plan plays. @throws TroupeError `plan_invalid` where they are still a file */
export function requireTasks(at: 'rollout' | 'gate', tasks: string | PlanTasks): PlanTasks {
  if (typeof tasks !== 'string') return tasks;
  throw invalid(
    `${at}.tasks`,
    `${at}.tasks should be the tasks as a list in a plan that is requested as a job, but it is the file ${got(tasks)}.`,
    { hint: 'troupe plan run and troupe schedule add read the file; a program puts its tasks into the plan.' },
  );
}

/** The plan with the tasks of its rollout and its gate in place of their files, and with their hashes. */
export function withTasks(plan: Plan, read: (file: string) => readonly RolloutTask[]): Plan {
  const filled = <Part extends { readonly tasks: string | PlanTasks }>(part: Part) => {
    if (isWhere(part.tasks)) return part;
    const tasks = typeof part.tasks === 'string' ? read(part.tasks) : part.tasks;
    return { ...part, tasks: [...tasks], tasks_sha256: tasksHash(tasks) };
  };
  return {
    ...plan,
    ...(plan.rollout === undefined ? {} : { rollout: filled(plan.rollout) }),
    ...(plan.gate.kind === 'play' ? { gate: filled(plan.gate) } : {}),
  };
}

/** Hash of tasks as canonical JSON. */
export const tasksHash = (tasks: readonly RolloutTask[]): string => sha256(canonicalJson(tasks));
