/** Reads and checks a plan as people write it. */

import { read } from '../../../document.ts';
import { got, TroupeError } from '../../../errors.ts';
import { isRecord } from '../../../ingest/events/json.ts';
import { parseYaml } from '../../../ingest/files/parse-yaml.ts';
import { parseRecipe } from '../../../store/datasets/recipe.ts';
import { type MethodRequest, requireRunnable, resolveMethods } from '../../../store/evaluate/judging/judge.ts';
import { looksAt, parseFilter, parseTaskFilter } from '../../../store/filter/select.ts';
import { checkReplay } from '../../../store/loop/play/replay.ts';
import { rolloutSpec } from '../../../store/loop/play/rollout.ts';
import { teamVersion } from '../../../store/loop/team/version.ts';
import { PASS_AS } from '../../sample/passes.ts';
import type { PlayGate } from './gate-schema.ts';
import { invalid, requireTasks, rolloutOf, tasksHash, versionOf } from './plan-parts.ts';
import {
  isWhere,
  type Plan,
  type PlanBranch,
  type PlanPass,
  type PlanPolicy,
  type PlanTeam,
  type PlanWriters,
  planSchema,
} from './plan-schema.ts';
import { type PlanValues, withValues } from './plan-values.ts';

/**
 * Reads YAML or JSON text (JSON is YAML).
 * @param called what the text is, for messages, such as `The plan nightly.yaml`
 * @param values set in it before it is checked, by their paths
 * @throws TroupeError `plan_invalid`
 */
export async function readPlan(text: string, called = 'The plan', values: PlanValues = {}): Promise<Plan> {
  let value: unknown;
  try {
    value = parseYaml(text);
  } catch (error) {
    const [why = ''] = (error as Error).message.split('\n', 1);
    throw invalid('plan', `${called} is neither YAML nor JSON: ${why.replace(/:$/, '')}.`);
  }
  return parsePlan(withValues(value, values));
}

/**
 * Checks a plan, its recipes and its methods.
 * @throws TroupeError `plan_invalid` with the path of what is wrong and what was expected; `method_unknown` and `method_input` with theirs
 */
export async function parsePlan(value: unknown): Promise<Plan> {
  const written = read(planSchema, value, { called: 'A plan', code: 'plan_invalid' });
  const plan: Plan = { ...written, policies: written.policies ?? {} };
  requireCandidate(plan);
  await requireMethods('judge', plan.judge);
  if (plan.rollout) requirePlayable(plan.name, 'rollout', plan.rollout);
  if (plan.rollout?.writers) await requireWriters(plan.rollout.writers);
  for (const [i, branch] of (plan.rollout?.branches ?? []).entries()) requireBranch(branch, `rollout.branches.${i}`);
  if (plan.gate.kind === 'play') requirePlayable(plan.name, 'gate', plan.gate);
  requireRange('watch.range', plan.watch?.range);
  if (plan.gate.kind === 'canary') requireRange('gate.range', plan.gate.range);
  for (const [name, policy] of Object.entries(plan.policies)) requireComplete(plan, name, policy);
  for (const [i, pass] of (plan.passes ?? []).entries()) requirePass(plan, pass, `passes.${i}`);
  return plan;
}

/** @throws TroupeError `plan_invalid` where a pass is by no model, by two, or by one of another plan */
function requirePass({ policies }: Plan, { pass, policy, model, as }: PlanPass, at: string): void {
  if ((policy === undefined) === (model === undefined))
    throw invalid(`${at}.policy`, `${at} should have one of policy and model.`);
  if (policy !== undefined && !Object.hasOwn(policies, policy))
    throw invalid(
      `${at}.policy`,
      `${at}.policy should be one of ${Object.keys(policies).join(', ')}, the policies of the plan, but it is ${got(policy)}.`,
    );
  if ((pass === 'ifd') !== (as !== undefined))
    throw invalid(
      `${at}.as`,
      pass === 'ifd'
        ? `${at}.as should be ${PASS_AS.join(' or ')}: methods distinguish the two models of a pass ifd by it.`
        : `${at}.as should be left out: it is of a pass ifd, and this one is ${pass}.`,
    );
  if (model !== undefined && pass !== 'ifd')
    throw invalid(`${at}.model`, `${at}.model is of a pass ifd; ${pass} is by a policy of the plan.`);
}

/**
 * Checks a plan that is to be run: it holds the tasks of its rollout itself.
 * @throws TroupeError as `parsePlan` does
 */
export async function parseStoredPlan(value: unknown): Promise<Plan> {
  const plan = await parsePlan(value);
  rolloutOf(plan);
  if (plan.gate.kind === 'play') requireTasks('gate', plan.gate.tasks);
  if (plan.team) for (const at of ['candidate', 'base'] as const) versionOf(plan.team, at);
  return plan;
}

/** @throws TroupeError `plan_invalid` for a plan without a candidate, or with a team and what only policies have */
function requireCandidate({ policies, team, rollout, passes, judge, rounds = 1, gate }: Plan): void {
  if (team === undefined) {
    if (Object.keys(policies).length === 0)
      throw invalid('policies', 'A plan should have policies to train, or a team whose version is the candidate.');
    return;
  }
  const { prune } = team;
  if ((team.candidate === undefined) === (prune === undefined))
    throw invalid('team.candidate', 'A team should have one of candidate and prune.');
  if (prune !== undefined) requirePrunable(prune, { rollout, judge });
  const played = prune === undefined ? { rollout, judge } : {};
  const other = Object.entries({ policies: Object.keys(policies).length > 0, passes, ...played }).find(
    ([, there]) => there,
  );
  if (other !== undefined)
    throw invalid(
      other[0],
      `A plan with a team trains nothing and plays in its gate alone, so it should have no ${other[0]}.`,
    );
  if (rounds !== 1) throw invalid('rounds', `A plan with a team has one round, but rounds is ${rounds}.`);
  if (gate.kind === 'offline')
    throw invalid(
      'gate.kind',
      'gate.kind should be play, canary or manual in a plan with a team, but it is offline, which compares weights.',
    );
  if (gate.kind === 'play' && gate.team !== undefined)
    throw invalid('gate.team', 'gate.team should be left out in a plan with a team, whose two versions play.');
  for (const field of ['candidate', 'base'] as const) {
    const definition = team[field];
    if (!isRecord(definition)) continue;
    try {
      teamVersion(team.name, definition);
    } catch (error) {
      throw invalid(`team.${field}`, `team.${field}: ${(error as Error).message}`);
    }
  }
}

/** What a team is pruned by: a rollout in its version, and the method that judges it. */
function requirePrunable(
  { by }: NonNullable<PlanTeam['prune']>,
  { rollout, judge = [] }: { readonly rollout: Plan['rollout']; readonly judge: Plan['judge'] | undefined },
): void {
  if (rollout === undefined)
    throw invalid('rollout', 'A team is pruned by what its members did: the plan should have a rollout.');
  for (const field of ['iterations', 'branches', 'writers', 'team'] as const)
    if (rollout[field] !== undefined)
      throw invalid(`rollout.${field}`, `The rollout of a plan that prunes a team should have no ${field}.`);
  if (judge.filter(({ method }) => method === by).length !== 1)
    throw invalid('team.prune.by', `team.prune.by is ${by}, so judge should run that method, once.`);
}

function requireRange(at: string, range: readonly number[] | undefined): void {
  const [least, greatest] = range ?? [0, 1];
  if (least! < greatest!) return;
  throw invalid(at, `${at} should be a least and a greater value, but it is ${least} and ${greatest}.`);
}

/** Each method on its own, after those before it: the first that does not fit is named with its place. */
async function requireMethods(at: string, judge: readonly MethodRequest[] = []): Promise<void> {
  for (let i = 0; i < judge.length; i++)
    try {
      requireRunnable(await resolveMethods(judge.slice(0, i + 1)));
    } catch (error) {
      if (!(error instanceof TroupeError)) throw error;
      const field = `${at}.${i}${placeIn(judge[i]!, error)}`;
      throw new TroupeError(error.code, `${field}: ${error.message}`, { ...error.detail, field });
    }
}

/** Which part of an entry of `judge` the error is about; empty for the entry itself. */
function placeIn({ method }: MethodRequest, { code, detail }: TroupeError): string {
  if (code === 'method_unknown') return detail.got === got(method) ? '.method' : '.reads';
  return detail.field === undefined ? '' : `.params.${detail.field}`;
}

async function requireWriters({ accept, judge }: PlanWriters): Promise<void> {
  await requireMethods('rollout.writers.judge', judge);
  if (looksAt(parseFilter(accept, 'rollout.writers.accept'), 'step'))
    throw invalid(
      'rollout.writers.accept',
      'rollout.writers.accept chooses whole episodes, so it should have no field of single steps.',
    );
}

function requireBranch({ samples: _, repair, ...replay }: PlanBranch, at: string): void {
  parseFilter(replay.where, `${at}.where`);
  const other = (['answer', 'answers', 'fault', 'skip'] as const).find((field) => replay[field] !== undefined);
  if (repair !== undefined && other !== undefined)
    throw invalid(`${at}.${other}`, `${at}.repair says what stands at the step, so ${at} should have no ${other}.`);
  try {
    checkReplay(replay);
  } catch (error) {
    throw invalid(at, `${at}: ${(error as Error).message}`);
  }
}

function requirePlayable(name: string, at: 'rollout' | 'gate', played: NonNullable<Plan['rollout']> | PlayGate): void {
  const { runner, tasks, tasks_sha256, samples } = played;
  const per_round = 'per_round' in played ? played.per_round : undefined;
  if (typeof tasks === 'string') return;
  if (isWhere(tasks)) {
    parseTaskFilter(tasks.where, `${at}.tasks.where`);
    return;
  }
  try {
    // The longest id that it may get: a run has a number, and each side of a gate a name.
    rolloutSpec(`${name}-1/1/${at === 'gate' ? 'gate/incumbent' : at}`, { runner, tasks, samples });
  } catch (error) {
    throw invalid(`${at}.tasks`, `${at}.tasks: ${(error as Error).message}`);
  }
  if (per_round !== undefined && per_round > tasks.length)
    throw invalid(
      'rollout.per_round',
      `rollout.per_round should be at most the number of tasks, ${tasks.length}, but it is ${per_round}.`,
    );
  if (tasks_sha256 !== undefined && tasks_sha256 !== tasksHash(tasks))
    throw invalid(
      `${at}.tasks_sha256`,
      `${at}.tasks_sha256 should be ${tasksHash(tasks)}, the hash of the tasks that stand in the plan, but it is ${got(tasks_sha256)}. Leave it out where the tasks were changed on purpose.`,
    );
}

/** What a schema cannot express: which fields need each other. */
function requireComplete(plan: Plan, name: string, { from = 'released', base, recipe, train }: PlanPolicy): void {
  const at = `policies.${name}`;
  if (from === 'base' && base === undefined)
    throw invalid(`${at}.base`, `${at}.from is base, so ${at}.base should name the directory of a model.`);
  const { unit, credit, split } = parseRecipe({ ...recipe, name });
  const method = train.engine === 'command' ? null : train.method;
  if ((method === 'sft' || method === 'rl' || method === 'value') && unit !== 'step')
    throw invalid(`${at}.recipe.unit`, `${method} learns from steps, but ${at}.recipe.unit is ${unit}.`);
  if (method === 'rl' && credit === null)
    throw invalid(`${at}.recipe.credit`, `rl needs advantages: ${at}.recipe.credit should name a credit method.`);
  if (train.engine !== 'command' && train.method === 'rl')
    for (const field of ['groups', 'learning_rate', 'entropy'] as const)
      requireRoles(`${at}.train.${field}`, train[field], recipe.roles);
  if (plan.gate.kind === 'offline' && method === 'value')
    throw invalid(
      'gate.kind',
      `An offline gate compares log-probabilities, and ${name} gives values. Set gate.kind to play or manual.`,
    );
  if (plan.gate.kind !== 'offline' || plan.gate.recipe !== undefined) return;
  if (unit !== 'step')
    throw invalid(
      'gate.recipe',
      `An offline gate compares steps, but ${at}.recipe.unit is ${unit}: gate.recipe should name the steps.`,
    );
  if (method === 'dpo' || method === 'rl')
    throw invalid(
      'gate.recipe',
      `An offline gate compares log-probabilities of good answers, and those that ${name} learns from by ${method} are not all good. Set gate.recipe to select good ones, or gate.kind to manual.`,
    );
  if (split === null || !('held_out' in split) || split.held_out === 0)
    throw invalid(
      `${at}.recipe.split`,
      `An offline gate needs held-out rows: ${at}.recipe.split should be such as { held_out: 0.2 }, or gate.recipe name the rows.`,
    );
}

/** @throws TroupeError `plan_invalid` where a number by role lacks a role of the recipe */
function requireRoles(at: string, value: unknown, roles: readonly string[] | null | undefined): void {
  if (!isRecord(value)) return;
  const missing = roles?.find((role) => !(role in value));
  if (roles && missing === undefined) return;
  throw invalid(
    at,
    !roles
      ? `${at} is by role, so the recipe should name its roles.`
      : `${at} has no number for the role ${got(missing)} of the recipe.`,
  );
}
