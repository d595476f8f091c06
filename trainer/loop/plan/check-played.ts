import type { TroupeError } from '../../../errors.ts';
import type { Db } from '../../../store/db/pool.ts';
import type { RolloutTask } from '../../../store/loop/play/rollout.ts';
import { type Engine, findEngine } from '../../engines/engines.ts';
import { checkProgram } from '../play/command.ts';
import { findRunner, missingVariables, type Runner } from '../play/runners.ts';
import { servedNow } from '../play/serving.ts';
import type { Checking, Findings, RolloutCheck } from './check-found.ts';
import type { PlayGate } from './gate-schema.ts';
import { requireTasks, rolloutOf } from './plan-parts.ts';
import { isWhere, type Plan, type PlanTasks, servedPolicies } from './plan-schema.ts';
import { tasksOf } from './plan-tasks.ts';

export async function rolloutCheck(
  { db, runners }: { readonly db: Db; readonly runners: readonly Runner[] },
  plan: Plan,
  { problems, notes }: Findings,
): Promise<RolloutCheck | null> {
  const rollout = rolloutOf(plan);
  if (rollout === null) return null;
  const runner = runnerOf(runners, rollout.runner, problems);
  if (plan.team === undefined)
    notes.push('Rows are not counted: the recipes of a round take only the complete groups of its rollout.');
  for (const { repair } of rollout.branches ?? []) if (repair !== undefined) runnerOf(runners, repair.runner, problems);
  if (rollout.branches !== undefined)
    notes.push(
      'Attempts of branches are not counted: how many steps they go on from is known once the tasks are played.',
    );
  if (rollout.budget !== undefined) {
    const limits = Object.entries(rollout.budget).map(([of, most]) => `${most} ${of === 'usd' ? 'USD' : of}`);
    notes.push(
      `A rollout hands out no further attempt once it has used ${limits.join(' or ')}; those that run end as usual.${
        rollout.budget.usd === undefined
          ? ''
          : ' Calls of policies cost what the setting prices says, and nothing without it.'
      }`,
    );
  }
  await noteUnserved(db, plan, notes);
  const tasks = await tasksNow(db, 'rollout', rollout.tasks, { problems, notes });
  const drawn = Math.min(rollout.per_round ?? tasks.length, tasks.length);
  const { samples, iterations = 1, writers } = rollout;
  if (writers !== undefined) {
    runnerOf(runners, writers.runner, problems);
    notes.push(
      `The tasks are written first: ${drawn * writers.samples} episodes of ${writers.runner} in each iteration write one each, and those that are accepted are played. So the tasks of a round are at most as many as stand here.`,
    );
  }
  const tasks_of_round =
    writers === undefined ? drawn : Math.min(drawn * writers.samples, writers.at_most ?? Number.POSITIVE_INFINITY);
  const attempts = tasks_of_round * samples * iterations;
  return {
    runner: rollout.runner,
    tasks: tasks.length,
    tasks_of_round,
    samples,
    iterations,
    attempts,
    attempts_at_most: runner === null ? null : attempts * (1 + runner.retries),
    tasks_sha256: rollout.tasks_sha256 ?? null,
  };
}

/** What a gate that plays has its runner do, without the tasks that are trained on now. */
export async function playCheck(
  { db, runners }: { readonly db: Db; readonly runners: readonly Runner[] },
  plan: Plan,
  gate: PlayGate,
  {
    trained,
    problems,
    notes,
  }: { readonly trained: ReadonlySet<string>; readonly problems: string[]; readonly notes: string[] },
): Promise<RolloutCheck> {
  const runner = runnerOf(runners, gate.runner, problems);
  const all = await tasksNow(db, 'gate', requireTasks('gate', gate.tasks), { problems, notes });
  // What a rollout of the round plays is what the round trains on.
  const rollout = rolloutOf(plan);
  const played =
    rollout === null || rollout.writers !== undefined
      ? []
      : await tasksNow(db, 'rollout', rollout.tasks, { problems: [], notes: [] });
  const soon = new Set(played.map(({ task_id }) => task_id));
  const tasks = all.filter(({ task_id }) => !trained.has(task_id) && !soon.has(task_id));
  if (tasks.length < all.length)
    notes.push(
      `Of the tasks of the gate (${all.length}) ${all.length - tasks.length} may be trained on: a round leaves out those that were.`,
    );
  if (gate.guardrails?.roles !== undefined)
    notes.push(
      'gate.guardrails.roles compares rewards that the team or the judge of the runner records for a step or an agent; a role without any has no data, and does not pass.',
    );
  if (plan.rollout === undefined) await noteUnserved(db, plan, notes);
  const attempts = 2 * tasks.length * gate.samples;
  return {
    runner: gate.runner,
    tasks: all.length,
    tasks_of_round: tasks.length,
    samples: gate.samples,
    iterations: 1,
    attempts,
    attempts_at_most: runner === null ? null : attempts * (1 + runner.retries),
    tasks_sha256: gate.tasks_sha256 ?? null,
  };
}

/** Those of now; a filter is read again when the stage begins. */
async function tasksNow(
  db: Db,
  at: 'rollout' | 'gate',
  tasks: PlanTasks,
  { problems, notes }: Findings,
): Promise<readonly RolloutTask[]> {
  if (isWhere(tasks))
    notes.push(`${at}.tasks is a filter: the tasks counted are those of now; the stage reads it again when it begins.`);
  try {
    return await tasksOf(db, at, tasks);
  } catch (error) {
    // A rollout reads it at once, a gate after the training.
    (at === 'gate' ? notes : problems).push((error as TroupeError).message);
    return [];
  }
}

function runnerOf(runners: readonly Runner[], name: string, problems: string[]): Runner | null {
  try {
    return findRunner(runners, name);
  } catch (error) {
    problems.push((error as TroupeError).message);
    return null;
  }
}

/** Variables that runners of the plan pass on, and that this environment lacks: that of `run work` may be another. */
export function noteMissing(
  { runners, env }: { readonly runners: readonly Runner[]; readonly env: Readonly<Record<string, string | undefined>> },
  { rollout, gate }: Plan,
  notes: string[],
): void {
  const repairing = (rollout?.branches ?? []).map(({ repair }) => repair?.runner);
  const names = [
    rollout?.runner,
    rollout?.writers?.runner,
    ...repairing,
    gate.kind === 'play' ? gate.runner : undefined,
  ];
  for (const runner of runners) {
    if (runner.by === 'workers' || !names.includes(runner.name)) continue;
    if (runner.by === 'command') noteProgram(runner.command, `runners.${runner.name}`, env, notes);
    const { field, missing } = missingVariables(runner, env);
    if (missing.length > 0)
      notes.push(
        `${field} names ${missing.join(', ')}, which is not set here. A rollout fails where the environment of \`run work\` does not have it either.`,
      );
  }
}

/** Programs that the plan trains with: an engine that is not configured, and one whose program is not found here. */
export function enginesCheck(
  { engines, env }: { readonly engines: readonly Engine[]; readonly env: Checking['env'] },
  { policies }: Plan,
  { problems, notes }: Findings,
): void {
  const used = Object.values(policies).flatMap(({ train }) => (train.engine === 'command' ? [train.use] : []));
  for (const name of new Set(used))
    try {
      noteProgram(findEngine(engines, name).command, `engines.${name}`, env, notes);
    } catch (error) {
      problems.push((error as TroupeError).message);
    }
}

/** A program that is not found here: `run work` may be another machine, or have another PATH. */
function noteProgram([program]: readonly string[], of: string, env: Checking['env'], notes: string[]): void {
  try {
    checkProgram(program!, env.PATH ?? '', of);
  } catch (error) {
    notes.push(`${(error as TroupeError).message} Its stage fails where \`run work\` does not find it either.`);
  }
}

async function noteUnserved(db: Db, plan: Plan, notes: string[]): Promise<void> {
  for (const policy of servedPolicies(plan))
    if ((await servedNow(db, policy)).length === 0)
      notes.push(
        `No process serves ${policy} now. Start \`troupe up\`, which serves what is released, and the base of a policy while a round waits for it, or \`troupe run infer --policy ${policy}\`, before its first release with --model DIR.`,
      );
}
