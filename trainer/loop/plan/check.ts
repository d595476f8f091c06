/** What a run of a plan would do now, what it needs, what it costs, and whether its gate has enough tasks. Nothing is changed by asking. */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { countText, TroupeError } from '../../../errors.ts';
import type { OpenedDataset } from '../../../store/datasets/read.ts';
import { parseRecipe } from '../../../store/datasets/recipe.ts';
import type { Db } from '../../../store/db/pool.ts';
import { resolveMethods } from '../../../store/evaluate/judging/judge.ts';
import { unreadRewards, unreadText } from '../../../store/evaluate/judging/unread-rewards.ts';
import { fewestTasks } from '../../../store/loop/comparison/gate.ts';
import { watchedBy } from '../../../store/loop/comparison/watch.ts';
import { openModelForIds } from '../../model/model-directory.ts';
import { countEpisodes } from '../../sample/pass-episodes.ts';
import type { Checking, Findings, PlanCheck, PolicyCheck, RolloutCheck } from './check-found.ts';
import { canaryWithin, gateCheck, mostTasks } from './check-gates.ts';
import { enginesCheck, noteMissing, playCheck, rolloutCheck } from './check-played.ts';
import { emptied, frozen, isJudgedBy, noteUnjudged, policyCheck, stepsOf, unjudged } from './check-policies.ts';
import { playingTeamCheck, teamCheck } from './check-teams.ts';
import { canaryRulesOf, rulesOf } from './gate-schema.ts';
import { playingStages, writingStages } from './plan-rollout.ts';
import { type Plan, type PlanPolicy, passStage } from './plan-schema.ts';
import { lacksSignal, withoutGates } from './round-rows.ts';
import { learnsFromSignal } from './training-asked.ts';
import { type Checkpoint, startOf, taskOf } from './weights.ts';

/**
 * A run does not begin with what would keep it from its end.
 * @throws TroupeError `plan_blocked` with every problem that `checkPlan` finds
 */
export async function requireUnblocked(asked: Checking, plan: Plan): Promise<void> {
  const { problems } = await checkPlan(asked, plan);
  if (problems.length === 0) return;
  throw new TroupeError('plan_blocked', `Plan ${plan.name} was not started. ${problems.join(' ')}`, {
    hint: 'troupe plan check shows each problem on a line of its own, with rows, cost and notes; once none is left, run the plan again.',
  });
}

/**
 * Problems are certain: what the stages of the run may change before it matters, such as rows that its methods choose, is a note.
 * @param asked.folder in which datasets are frozen for the count, and removed again
 */
export async function checkPlan(asked: Checking, plan: Plan): Promise<PlanCheck> {
  const found: Findings = { problems: [], notes: [] };
  await mkdir(asked.folder, { recursive: true });
  const folder = await mkdtemp(join(asked.folder, 'plan-check-'));
  try {
    const check: Check = { asked: { ...asked, folder }, plan, found };
    noteMissing(asked, plan, found.notes);
    enginesCheck(asked, plan, found);
    if (plan.rollout !== undefined) await noteUnjudged(asked.db, plan, found);
    const rollout = await rolloutCheck(asked, plan, found);
    await noteUnread(check);
    const rows = await policiesCheck(check, rollout);
    await passesCheck(check);
    for (const at of ['rollout', 'gate'] as const) await playingTeamCheck(asked.db, plan, at, found.problems);
    const team =
      plan.team === undefined
        ? null
        : await teamCheck(asked.db, plan.team, plan.gate.kind === 'manual', found.problems);
    const gate = await comparisonCheck(check, rows);
    for (const note of [
      tooFewTasks,
      smallGate,
      gainOfGate,
      costOfCalls,
      watchOfRelease,
      budgetOfPrograms,
      budgetOfCalls,
    ])
      note({ plan, gate, found });
    if (plan.gate.kind === 'canary') canaryWithin(plan.budget, canaryRulesOf(plan.gate), found);
    const { rounds = 1, budget = null } = plan;
    const { policies } = rows;
    return { plan: plan.name, stages: stagesOf(plan), rounds, budget, policies, team, rollout, gate, ...found };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

type Check = { readonly asked: Checking; readonly plan: Plan; readonly found: Findings };

/** Rewards of steps that are recorded and that no method of the plan reads. */
async function noteUnread({ asked, plan, found }: Check): Promise<void> {
  if (plan.judge === undefined) return;
  const runs = await resolveMethods(plan.judge);
  for (const one of await unreadRewards(asked.db, runs)) found.notes.push(unreadText(one));
}

/** What each policy would learn from now. */
type RowsCheck = {
  readonly policies: Readonly<Record<string, PolicyCheck>>;
  /** Tasks that are held out, and those that are trained on. */
  readonly heldOut: ReadonlySet<string>;
  readonly trained: ReadonlySet<string>;
  /** False where the rows of some policy are not known before the run. */
  readonly known: boolean;
};

async function policiesCheck({ asked, plan, found }: Check, rollout: RolloutCheck | null): Promise<RowsCheck> {
  const policies: Record<string, PolicyCheck> = {};
  const heldOut = new Set<string>();
  const trained = new Set<string>();
  let known = true;
  for (const [name, policy] of Object.entries(plan.policies)) {
    const start = await startCheck(asked.db, name, policy, found);
    const recipe = { ...withoutGates(policy.recipe), name: `${plan.name}-${name}` };
    const dataset = rollout === null ? await frozen(asked, recipe, plan, found.notes) : null;
    known &&= dataset !== null;
    for (const row of stepsOf(dataset, 'held_out')) heldOut.add(taskOf(row));
    for (const row of stepsOf(dataset, 'train')) trained.add(taskOf(row));
    if (rollout === null && !dataset?.manifest.rows.train)
      await emptyCheck({ asked, plan, found }, { name, policy, recipe, dataset });
    const of = { name, policy, start, dataset, rollout, rounds: plan.rounds ?? 1 };
    policies[name] = await policyCheck(asked.db, of, found);
  }
  return { policies, heldOut, trained, known };
}

/** The weights that a policy starts from; null where there are none, which is a problem. */
async function startCheck(
  db: Db,
  name: string,
  policy: PlanPolicy,
  { problems, notes }: Findings,
): Promise<Checkpoint | null> {
  const { from = 'released', base } = policy;
  const start = await startOf(db, name, policy, null).catch((error: TroupeError) => {
    problems.push(error.message);
    return null;
  });
  if (start !== null && from !== 'base' && start.directory === base)
    notes.push(`${name} has no ${from} checkpoint yet; it starts with ${base}.`);
  if (base !== undefined && start !== null && start.directory !== base && !existsSync(base))
    notes.push(
      `There is nothing at ${base}, the base of ${name}. This run does not need it; one from base, or where nothing is released any more, fails.`,
    );
  return start;
}

/** A recipe without rows: what a method chooses is known once it ran; that nothing is there to choose from is known now. */
async function emptyCheck(
  { asked, plan, found }: Check,
  {
    name,
    policy,
    recipe,
    dataset,
  }: {
    readonly name: string;
    readonly policy: PlanPolicy;
    readonly recipe: Readonly<Record<string, unknown>>;
    readonly dataset: OpenedDataset | null;
  },
): Promise<void> {
  const most = isJudgedBy(plan, recipe) ? await frozen(asked, unjudged(parseRecipe(recipe)), plan, []) : dataset;
  const silent =
    most !== null &&
    learnsFromSignal(policy) &&
    (await lacksSignal(most.manifest, most.manifest.recipe, countEpisodes(asked.db)));
  if (most?.manifest.rows.train === 0 && !silent) found.problems.push(emptied(name, most));
  else if (dataset !== null) found.notes.push(emptied(name, dataset));
}

/** Models that passes are by can be opened. */
async function passesCheck({ plan, found }: Check): Promise<void> {
  for (const { model } of plan.passes ?? [])
    if (model !== undefined)
      await openModelForIds(model).catch((error: Error) => found.problems.push(`passes: ${error.message}`));
}

/** What the gate would compare now. */
async function comparisonCheck({ asked, plan, found }: Check, rows: RowsCheck): Promise<PlanCheck['gate']> {
  const { policies, trained } = rows;
  const { gate } = plan;
  if (gate.kind === 'play') {
    const played = await playCheck(asked, plan, gate, { trained, ...found });
    return gateCheck(asked.db, plan, policies, { tasks: played.tasks_of_round, played }, found.notes);
  }
  const compared = gate.kind === 'offline' ? await offlineTasks({ asked, plan, found }, gate.recipe, rows) : null;
  return gateCheck(asked.db, plan, policies, { tasks: compared?.size ?? null, played: null }, found.notes);
}

/** Tasks of an offline gate that are not trained on; null where they are not known before the run. */
async function offlineTasks(
  { asked, plan, found }: Check,
  recipe: Readonly<Record<string, unknown>> | undefined,
  { heldOut, trained, known }: RowsCheck,
): Promise<ReadonlySet<string> | null> {
  if (recipe === undefined) return known ? heldOut : null;
  const dataset = await frozen(asked, { ...withoutGates(recipe), name: `${plan.name}-gate` }, plan, found.notes);
  if (dataset === null || !known) return null;
  return new Set(
    stepsOf(dataset, 'train')
      .map(taskOf)
      .filter((task) => !trained.has(task)),
  );
}

type Note = (of: { readonly plan: Plan; readonly gate: PlanCheck['gate']; readonly found: Findings }) => void;

const tooFewTasks: Note = ({ plan, gate, found }) => {
  if (gate.tasks === null || plan.gate.kind === 'manual') return;
  const fewest = fewestTasks(rulesOf(plan.gate).level);
  if (gate.tasks >= fewest) return;
  (mostTasks(plan, gate.tasks) < fewest ? found.problems : found.notes).push(
    `The gate compares tasks that were not trained on, and there are ${gate.tasks} now; it needs at least ${fewest}, since fewer differ in one direction by chance: give it others, or train on fewer.`,
  );
};

const smallGate: Note = ({ gate, found }) => {
  if (gate.tasks === null || gate.tasks_wanted === null || gate.tasks >= gate.tasks_wanted) return;
  found.notes.push(
    `The gate has ${countText(gate.tasks, 'task')} and wants ${gate.tasks_wanted}: a gain as small as gate.find will often not pass.`,
  );
};

const gainOfGate: Note = ({ gate, found }) => {
  if (gate.gain === null) return;
  found.notes.push(
    `With ${countText(gate.tasks!, 'task')} the gate can tell a gain of ${gate.gain}${gate.deviation === null ? ', if each reward is 0 or 1' : ''}; a smaller one will often not pass.`,
  );
};

const costOfCalls: Note = ({ plan, found }) => {
  if (plan.gate.kind === 'manual' || !plan.gate.guardrails || !('usd' in plan.gate.guardrails)) return;
  found.notes.push(
    'gate.guardrails.usd compares what the calls of an episode cost: of upstreams by their prices, of policies by those in the setting prices. If one call has no price, it has no data, and the gate does not pass.',
  );
};

const watchOfRelease: Note = ({ plan, found }) => {
  if (plan.watch === undefined) return;
  const { metric, at_least, hours } = watchedBy(plan.watch);
  found.notes.push(
    `A release is watched for ${countText(hours, 'hour')} by \`troupe run work\`, which \`troupe up\` starts: it needs ${at_least} live episodes with a ${metric} before it and as many after it, ${plan.team === undefined ? 'answered by the gateway' : 'which name their version by team_id'}. The first release of a policy can only go back to the model that a route of it falls back to.`,
  );
};

const budgetOfPrograms: Note = ({ plan, found }) => {
  if (plan.budget?.tokens === undefined && plan.budget?.usd === undefined) return;
  for (const [name, { train }] of Object.entries(plan.policies))
    if (train.engine === 'command')
      found.notes.push(
        `The budget counts what the program ${train.use} writes to TROUPE_METRICS, such as {"step": 10, "tokens": 52000, "usd": 0.4}: what it has used until then. A program of policies.${name} that writes none of what the budget limits, not even 0, ends the run once it has trained: unknown is not 0.`,
      );
};

const budgetOfCalls: Note = ({ plan, found }) => {
  if (plan.budget?.usd === undefined) return;
  found.notes.push(
    'budget.usd counts what calls cost: of upstreams by their prices, of policies by those in the setting prices, else nothing. A call of an upstream without a price cannot be counted, and ends the run.',
  );
};

/** The stages of a round by the names that their jobs have. */
function stagesOf(plan: Plan): string[] {
  const names = Object.keys(plan.policies);
  if (plan.team?.prune !== undefined) return ['rollout', 'judge', 'prune', 'gate'];
  return [
    ...(plan.rollout ? ['serving', ...writingStages(plan), ...playingStages(plan)] : []),
    ...(plan.passes ?? []).map(passStage),
    ...(plan.judge ? ['judge'] : []),
    ...names.map((name) => `freeze-${name}`),
    ...(plan.gate.kind === 'offline' && plan.gate.recipe ? ['freeze-gate'] : []),
    ...names.map((name) => `train-${name}`),
    'gate',
  ];
}
