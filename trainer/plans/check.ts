/** What a run of a plan would do now, what it needs, what it costs, and whether its gate has enough tasks. Nothing is changed by asking. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { countText, TroupeError } from '../../errors.ts';
import type { AsOf } from '../../store/datasets/as-of.ts';
import { freeze } from '../../store/datasets/freeze.ts';
import { type OpenedDataset, openDataset } from '../../store/datasets/read.ts';
import { parseRecipe } from '../../store/datasets/recipe.ts';
import type { Db } from '../../store/db/pool.ts';
import { firstOf, query, rowsOf, sql } from '../../store/db/query.ts';
import { liveDeviation } from '../../store/gating/live-units.ts';
import type { GateReport } from '../../store/gating/report.ts';
import { episodesForCanary, tasksForGate } from '../../store/gating/size.ts';
import { watchedBy } from '../../store/gating/watch.ts';
import type { RolloutTask } from '../../store/rollouts/rollout.ts';
import { looksAtJudgement } from '../../store/select.ts';
import { requireReleasedTeam } from '../../store/teams/version.ts';
import { cutRow, type StepRow, supervisedRow } from '../data/training-rows.ts';
import { type OpenModel, openModelForIds } from '../models/model-directory.ts';
import { findRunner, missingVariables, type Runner } from '../rollouts/runners.ts';
import { servedNow } from '../rollouts/serving.ts';
import { type CanaryGate, canaryRulesOf, type PlayGate, rulesOf } from './gate-schema.ts';
import { requireTasks, rolloutOf, versionOf } from './plan-parts.ts';
import { playingStages, writingStages } from './plan-rollout.ts';
import {
  isWhere,
  type Plan,
  type PlanPolicy,
  type PlanTasks,
  type PlanTeam,
  passStage,
  servedPolicies,
} from './plan-schema.ts';
import { tasksOf } from './plan-tasks.ts';
import { asJudged, withoutGates } from './round-rows.ts';
import { incumbentTeam, sameVersion } from './team-round.ts';
import { type AdapterCheck, adapterCheck, checkpointBytes, memoryOf } from './training-cost.ts';
import { type Checkpoint, startOf, taskOf } from './weights.ts';

type PolicyCheck = {
  readonly method: string;
  /** Null where there are no weights to start from. */
  readonly start: Checkpoint | null;
  /** Rows by split that the recipe has now; null where it names a method that has not been run yet. */
  readonly rows: Readonly<Record<string, number>> | null;
  readonly roles: readonly string[];
  /** Tokens that pass through the model in one round; null where there are no rows. */
  readonly tokens: number | null;
  /** At the speed of the last job of this method here; null where none was run. */
  readonly minutes: number | null;
  /** Null where all weights are trained, or where it is not known. */
  readonly adapter: AdapterCheck | null;
  /** Bytes of memory at the peak of the training; null where there are no rows. */
  readonly memory_bytes: number | null;
  /** Bytes of a checkpoint on disk; null where they are not known. */
  readonly checkpoint_bytes: number | null;
};

export type PlanCheck = {
  readonly plan: string;
  /** Stages of a round, in order. */
  readonly stages: readonly string[];
  readonly rounds: number;
  /** Of all rounds together; null where the plan has none. */
  readonly budget: NonNullable<Plan['budget']> | null;
  readonly policies: Readonly<Record<string, PolicyCheck>>;
  /**
   * The versions of its team that the gate would compare now; null where the plan has none, incumbent where nothing is there to compare with,
   * candidate where it is found by pruning.
   */
  readonly team: { readonly name: string; readonly candidate: string | null; readonly incumbent: string | null } | null;
  /** Null where the plan has none. */
  readonly rollout: RolloutCheck | null;
  readonly gate: {
    readonly kind: Plan['gate']['kind'];
    /** Tasks that would be compared now; null where that is not known, or the gate compares none. */
    readonly tasks: number | null;
    readonly tasks_wanted: number | null;
    /** Live episodes of both sides that a canary needs, and those of the candidate; null for other gates, or where not known. */
    readonly episodes_wanted: { readonly all: number; readonly candidate: number } | null;
    /** Standard deviation of the last gate of this plan, or of live episodes for a canary, which the wanted are computed from. */
    readonly deviation: number | null;
    /** What a gate that plays has the runner do; null for others. */
    readonly played: RolloutCheck | null;
  };
  /** What keeps it from running, and what is worth knowing. */
  readonly problems: readonly string[];
  readonly notes: readonly string[];
};

type RolloutCheck = {
  readonly runner: string;
  /** In the plan, and in a round. */
  readonly tasks: number;
  readonly tasks_of_round: number;
  readonly samples: number;
  /** How often a round plays its tasks before its gate. */
  readonly iterations: number;
  /** Of a round, all its iterations or both sides of a gate together: one for each sample, and at most with all that are tried again; null where the runner is not known. */
  readonly attempts: number;
  readonly attempts_at_most: number | null;
  readonly tasks_sha256: string | null;
};

type Asked = {
  readonly db: Db;
  readonly folder: string;
  readonly codeVersion: string;
  /** Folder of the files that recipes decontaminate against. */
  readonly benchmarks?: string;
  /** Folder of the datasets that recipes replay. */
  readonly datasets?: string;
  /** Of a run that learns from what had been recorded at an earlier time. */
  readonly asOf?: AsOf;
};

/** What a check needs to know beside the plan. */
export type Checking = Asked & {
  /** Those of the configuration. */
  readonly runners: readonly Runner[];
  readonly env: Readonly<Record<string, string | undefined>>;
};

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

/** Rows looked at for the mean number of tokens. */
const SAMPLE = 200;

/**
 * Problems are certain: what the stages of the run may change before it matters, such as rows that its methods choose, is a note.
 * @param asked.folder in which datasets are frozen for the count, and removed again
 */
export async function checkPlan(asked: Checking, plan: Plan): Promise<PlanCheck> {
  const problems: string[] = [];
  const notes: string[] = [];
  await mkdir(asked.folder, { recursive: true });
  const folder = await mkdtemp(join(asked.folder, 'plan-check-'));
  try {
    noteMissing(asked, plan, notes);
    if (plan.rollout !== undefined) noteUnjudged(plan, notes);
    const rollout = await rolloutCheck(asked, plan, { problems, notes });
    const policies: Record<string, PolicyCheck> = {};
    const heldOut = new Set<string>();
    const trained = new Set<string>();
    let unknown = false;
    for (const [name, policy] of Object.entries(plan.policies)) {
      const start = await startOf(asked.db, name, policy, null).catch((error: TroupeError) => {
        problems.push(error.message);
        return null;
      });
      if (start !== null && (policy.from ?? 'released') !== 'base' && start.directory === policy.base)
        notes.push(`${name} has no ${policy.from ?? 'released'} checkpoint yet; it starts with ${policy.base}.`);
      const recipe = { ...withoutGates(policy.recipe), name: `${plan.name}-${name}` };
      const dataset = rollout === null ? await frozen({ ...asked, folder }, recipe, plan, notes) : null;
      unknown ||= dataset === null;
      for (const row of stepsOf(dataset, 'held_out')) heldOut.add(taskOf(row));
      for (const row of stepsOf(dataset, 'train')) trained.add(taskOf(row));
      if (dataset !== null && dataset.manifest.rows.train === 0)
        (isJudgedBy(plan, recipe) ? notes : problems).push(emptied(name, dataset));
      policies[name] = await policyCheck(asked.db, { name, policy, start, dataset }, { problems, notes });
    }
    for (const { model } of plan.passes ?? [])
      if (model !== undefined)
        await openModelForIds(model).catch((error: Error) => problems.push(`passes: ${error.message}`));
    for (const at of ['rollout', 'gate'] as const) await playingTeamCheck(asked.db, plan, at, problems);
    const team =
      plan.team === undefined ? null : await teamCheck(asked.db, plan.team, plan.gate.kind === 'manual', problems);
    const gateRows = plan.gate.kind === 'offline' ? plan.gate.recipe : undefined;
    const shown =
      gateRows &&
      (await frozen({ ...asked, folder }, { ...withoutGates(gateRows), name: `${plan.name}-gate` }, plan, notes));
    const compared =
      gateRows === undefined
        ? heldOut
        : new Set(
            stepsOf(shown ?? null, 'train')
              .map(taskOf)
              .filter((task) => !trained.has(task)),
          );
    const counted = plan.gate.kind === 'offline' && !unknown && shown !== null;
    const played =
      plan.gate.kind === 'play' ? await playCheck(asked, plan, plan.gate, { trained, problems, notes }) : null;
    if (
      plan.gate.kind !== 'manual' &&
      'guardrails' in plan.gate &&
      plan.gate.guardrails &&
      'usd' in plan.gate.guardrails
    )
      notes.push(
        'gate.guardrails.usd compares what the calls of an episode cost: of upstreams by their prices, of policies by those in the setting prices. If one call has no price, it has no data, and the gate does not pass.',
      );
    const tasks = played === null ? (counted ? compared.size : null) : played.tasks_of_round;
    const gate = await gateCheck(asked.db, plan, policies, { tasks, played }, notes);
    if (gate.tasks !== null && gate.tasks < 2)
      (mostTasks(plan, gate.tasks) < 2 ? problems : notes).push(
        `The gate compares tasks that were not trained on, and there are ${gate.tasks} now; it needs at least 2: give it others, or train on fewer.`,
      );
    if (gate.tasks !== null && gate.tasks_wanted !== null && gate.tasks < gate.tasks_wanted)
      notes.push(
        `The gate has ${countText(gate.tasks, 'task')} and wants ${gate.tasks_wanted}: a gain as small as gate.find will often not pass.`,
      );
    if (plan.watch !== undefined) {
      const { metric, at_least, hours } = watchedBy(plan.watch);
      notes.push(
        `A release is watched for ${countText(hours, 'hour')} by \`troupe run work\`, which \`troupe up\` starts: it needs ${at_least} live episodes with a ${metric} before it and as many after it, ${plan.team === undefined ? 'answered by the gateway' : 'which name their version by team_id'}. The first release of a policy can only go back to the model that a route of it falls back to.`,
      );
    }
    const rounds = plan.rounds ?? 1;
    const budget = plan.budget ?? null;
    if (plan.gate.kind === 'canary') canaryWithin(plan.budget, canaryRulesOf(plan.gate), { problems, notes });
    if (budget?.tokens !== undefined || budget?.usd !== undefined)
      for (const [name, { train }] of Object.entries(plan.policies))
        if (train.engine === 'command')
          notes.push(
            `The budget counts what the program ${train.use} writes to TROUPE_METRICS, such as {"step": 10, "tokens": 52000, "usd": 0.4}: what it has used until then. A program of policies.${name} that writes none of what the budget limits, not even 0, ends the run once it has trained: unknown is not 0.`,
          );
    if (budget?.usd !== undefined)
      notes.push(
        'budget.usd counts what calls cost: of upstreams by their prices, of policies by those in the setting prices, else nothing. A call of an upstream without a price cannot be counted, and ends the run.',
      );
    return { plan: plan.name, stages: stagesOf(plan), rounds, budget, policies, team, rollout, gate, problems, notes };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Whether the methods that the plan runs choose the rows of the recipe: then those of now say little. */
function isJudgedBy({ judge = [] }: Plan, written: Readonly<Record<string, unknown>>): boolean {
  const { where, reward, credit, verdicts } = parseRecipe({ name: 'rows', ...written });
  const reads = [reward, credit, ...verdicts].some((one) => one !== null);
  return judge.length > 0 && (reads || (where !== null && looksAtJudgement(where)));
}

/** The most tasks that the gate of a run may have, where it has these now. */
function mostTasks(plan: Plan, now: number): number {
  const { gate } = plan;
  const recipes = [...Object.values(plan.policies), gate].flatMap((of) => ('recipe' in of && of.recipe) || []);
  const settled = plan.rollout === undefined && !recipes.some((recipe) => isJudgedBy(plan, recipe));
  const listed = gate.kind === 'play' ? requireTasks('gate', gate.tasks) : null;
  if (settled && (listed === null || !isWhere(listed))) return now;
  return listed === null || isWhere(listed) ? Number.POSITIVE_INFINITY : listed.length;
}

/** A team that a rollout or a gate names is looked up when the stage begins: after a training, where it is the gate. */
async function playingTeamCheck(db: Db, plan: Plan, at: 'rollout' | 'gate', problems: string[]): Promise<void> {
  const played = plan[at];
  if (played === undefined || !('team' in played) || played.team === undefined) return;
  await requireReleasedTeam(db, played.team).catch((error: TroupeError) => {
    problems.push(`${at}.team: ${error.message}`);
  });
}

async function teamCheck(db: Db, team: PlanTeam, alone: boolean, problems: string[]): Promise<PlanCheck['team']> {
  const candidate = versionOf(team, 'candidate')?.team_id ?? null;
  const incumbent = await incumbentTeam(db, team).catch((error: TroupeError) => {
    // A person may release the first version; a comparison needs two.
    if (!alone) problems.push(error.message);
    return null;
  });
  if (candidate !== null && incumbent?.team_id === candidate) problems.push(sameVersion(candidate));
  const members = incumbent?.definition.agents as readonly unknown[] | undefined;
  if (team.prune !== undefined && members !== undefined && members.length <= team.prune.keep)
    problems.push(
      `The team has ${countText(members.length, 'member')}, and team.prune.keep is ${team.prune.keep}: nothing is left to prune.`,
    );
  return { name: team.name, candidate, incumbent: incumbent?.team_id ?? null };
}

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

async function rolloutCheck(
  { db, runners }: { readonly db: Db; readonly runners: readonly Runner[] },
  plan: Plan,
  { problems, notes }: { readonly problems: string[]; readonly notes: string[] },
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
async function playCheck(
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
  { problems, notes }: { readonly problems: string[]; readonly notes: string[] },
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
function noteMissing(
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
    const { field, missing } = missingVariables(runner, env);
    if (missing.length > 0)
      notes.push(
        `${field} names ${missing.join(', ')}, which is not set here. A rollout fails where the environment of \`run work\` does not have it either.`,
      );
  }
}

/** Methods that a recipe reads and the plan does not run: nobody has judged episodes that are yet to be played. */
function noteUnjudged({ policies, judge = [] }: Plan, notes: string[]): void {
  const run = new Set(judge.map(({ method }) => method));
  for (const [name, policy] of Object.entries(policies)) {
    const { reward, credit, verdicts } = parseRecipe({ ...withoutGates(policy.recipe), name });
    for (const { method } of [reward, credit, ...verdicts].filter((one) => one !== null))
      if (method !== null && !run.has(method))
        notes.push(
          `policies.${name}.recipe reads ${method}, and no entry of judge runs it: a round fails at freeze-${name}, unless \`troupe run judge\` runs it by the setting judge.`,
        );
  }
}

async function noteUnserved(db: Db, plan: Plan, notes: string[]): Promise<void> {
  for (const policy of servedPolicies(plan))
    if ((await servedNow(db, policy)).length === 0)
      notes.push(
        `No process serves ${policy} now. Start \`troupe up\`, which serves what is released, and the base of a policy while a round waits for it, or \`troupe run infer --policy ${policy}\`, before its first release with --model DIR.`,
      );
}

/** The recipe as a dataset of now; null where its methods have not been run. */
async function frozen(
  { db, folder, ...options }: Asked,
  recipe: Readonly<Record<string, unknown>>,
  plan: Plan,
  notes: string[],
): Promise<OpenedDataset | null> {
  try {
    const { directory } = await freeze(db, asJudged(parseRecipe(recipe), plan.judge), {
      ...options,
      directory: folder,
      allowEmpty: true,
    });
    return await openDataset(directory);
  } catch (error) {
    if (!(error instanceof TroupeError) || error.code !== 'not_found' || !plan.judge) throw error;
    notes.push(`Rows of ${recipe.name} are not counted: ${error.message} The stage judge does that.`);
    return null;
  }
}

async function policyCheck(
  db: Db,
  {
    name,
    policy: { train },
    start,
    dataset,
  }: {
    readonly name: string;
    readonly policy: PlanPolicy;
    readonly start: Checkpoint | null;
    readonly dataset: OpenedDataset | null;
  },
  { problems, notes }: { readonly problems: string[]; readonly notes: string[] },
): Promise<PolicyCheck> {
  const method = train.engine === 'command' ? `program ${train.use}` : train.method;
  const rows = dataset?.manifest.rows ?? null;
  const roles = [...new Set(stepsOf(dataset, 'train').map(({ role }) => role ?? ''))].sort();
  const unknown = { tokens: null, minutes: null, adapter: null, memory_bytes: null, checkpoint_bytes: null };
  const found = { ...unknown, method, start, rows, roles };
  if (start === null || train.engine === 'command') return found;
  try {
    const open = await openModelForIds(start.directory);
    const adapter = adapterCheck(train, open);
    if (adapter !== null) notes.push(adapterNote(name, adapter));
    const checkpoint_bytes = checkpointBytes(train, open.config);
    if (!rows?.train) return { ...found, adapter, checkpoint_bytes };
    const lengths = tokensOf(open, stepsOf(dataset, 'train'));
    const mean = lengths.reduce((a, b) => a + b, 0) / lengths.length;
    const tokens = Math.round(mean * rowsSeen(train, rows.train, roles));
    const speed = await lastSpeed(db, method);
    return {
      ...found,
      tokens,
      minutes: speed === null ? null : tokens / speed / 60,
      adapter,
      checkpoint_bytes,
      memory_bytes: Math.round(memoryOf(train, open.config, { rows: stepsOf(dataset, 'train'), lengths })),
    };
  } catch (error) {
    if (!(error instanceof TroupeError)) throw error;
    problems.push(`${name} cannot be trained from the weights in ${start.directory}: ${error.message}`);
    return found;
  }
}

const adapterNote = (name: string, { parameters, of_parameters, base, continues }: AdapterCheck): string =>
  `${name} trains an adapter of ${parameters} numbers over ${base}, which has ${of_parameters} and stays as it is${continues === null ? '' : `; it goes on with the adapter of ${continues}`}.`;

/** Rows that pass through the model in one round. */
function rowsSeen(
  train: Exclude<PlanPolicy['train'], { engine: 'command' }>,
  rows: number,
  roles: readonly string[],
): number {
  if (train.method === 'rl') return rows * (train.epochs ?? 1);
  if (train.method === 'dpo') return 2 * train.steps * train.batch;
  if (train.method === 'value') return train.steps * train.batch;
  const { steps } = train;
  const all = typeof steps === 'number' ? steps * roles.length : Object.values(steps).reduce((a, b) => a + b, 0);
  return all * train.batch;
}

/** Tokens of each of the first rows that have something to learn. @throws TroupeError `training_failed` where no row has anything to learn */
function tokensOf(open: OpenModel, rows: readonly StepRow[]): number[] {
  const lengths: number[] = [];
  for (const row of rows) {
    if (lengths.length === SAMPLE) break;
    const cut = cutRow(supervisedRow(row, open), open.config.max_position_embeddings);
    if (cut !== null) lengths.push(cut.promptIds.length + cut.tokenIds.length);
  }
  if (lengths.length === 0)
    throw new TroupeError(
      'training_failed',
      `none of ${rows.length} rows has anything to learn within its ${open.config.max_position_embeddings} tokens.`,
    );
  return lengths;
}

/** Tokens a second of the last training by this method that reported them. */
async function lastSpeed(db: Db, method: string): Promise<number | null> {
  const last = await firstOf(
    db,
    query
      .selectFrom('facts.job_metrics as m')
      .innerJoin('facts.jobs as j', 'j.job_id', 'm.job_id')
      .select('m.value')
      .where('j.kind', '=', method)
      .where('m.name', '=', 'tokens_per_second')
      .orderBy('m.occurred_at', (order) => order.desc().nullsLast())
      .limit(1),
  );
  return last?.value ?? null;
}

async function gateCheck(
  db: Db,
  { name, gate, team }: Plan,
  policies: Readonly<Record<string, PolicyCheck>>,
  { tasks, played }: Pick<PlanCheck['gate'], 'tasks' | 'played'>,
  notes: string[],
): Promise<PlanCheck['gate']> {
  const none = { tasks_wanted: null, episodes_wanted: null };
  if (gate.kind === 'manual') return { kind: gate.kind, tasks: null, ...none, deviation: null, played };
  if (gate.kind === 'canary') return canaryCheck(db, gate, { policies, isTeam: team !== undefined }, notes);
  const deviation = await lastDeviation(db, name, gate.kind === 'play' ? 'play' : 'gate');
  const found = { kind: gate.kind, tasks, ...none, deviation, played };
  if (gate.find === undefined) {
    notes.push('How many tasks the gate wants is not computed: gate.find does not say which gain should pass.');
    return found;
  }
  if (deviation === null) {
    notes.push('How many tasks the gate wants is known after its first report: it depends on how much tasks differ.');
    return found;
  }
  const rules = rulesOf(gate);
  const roles = new Set(Object.values(policies).flatMap((policy) => policy.roles)).size;
  const guardrails = rules.guardrails.roles === null ? 0 : roles;
  const tasks_wanted = tasksForGate(rules, {
    find: gate.find,
    deviation,
    // Roles of one task are taken to differ as much as tasks do, if each had one row.
    partDeviation: deviation * Math.sqrt(Math.max(1, roles)),
    guardrails,
    power: gate.power ?? 0.8,
  });
  return { ...found, tasks_wanted };
}

/** What a canary needs, from live episodes of now. */
async function canaryCheck(
  db: Db,
  gate: CanaryGate,
  { policies, isTeam }: { readonly policies: Readonly<Record<string, PolicyCheck>>; readonly isTeam: boolean },
  notes: string[],
): Promise<PlanCheck['gate']> {
  const rules = canaryRulesOf(gate);
  notes.push(
    isTeam
      ? `The candidate plays ${rules.share} of the live episodes whose program asks GET /v1/teams/NAME?episode=ID, for ${countText(rules.hours, 'hour')} at most: \`troupe up\` has to run, or \`troupe run serve\` and \`run work\`.`
      : `The candidate answers ${rules.share} of the live calls that name a policy of the plan at the gateway, for ${countText(rules.hours, 'hour')} at most: \`troupe up\` has to run, or \`troupe run serve\`, \`run infer\` and \`run work\`.`,
  );
  const deviation = await liveDeviation(db, gate.metric);
  const found = { kind: gate.kind, tasks: null, tasks_wanted: null, episodes_wanted: null, deviation, played: null };
  if (gate.find === undefined || deviation === null) {
    notes.push(
      gate.find === undefined
        ? 'How many episodes the canary needs is not computed: gate.find does not say which gain should pass.'
        : `How many episodes the canary needs is not known: fewer than two live episodes have a ${gate.metric}.`,
    );
    return found;
  }
  const roles = new Set(Object.values(policies).flatMap((policy) => policy.roles)).size;
  const all = episodesForCanary(rules, {
    find: gate.find,
    deviation,
    partDeviation: deviation,
    guardrails: rules.guardrails.roles === null ? 0 : roles,
    power: gate.power ?? 0.8,
  });
  const candidate = Math.ceil(all * rules.share);
  notes.push(
    `The canary needs ${all} live episodes, ${candidate} of them of the candidate, so that a gain of ${gate.find} passes with a chance of ${gate.power ?? 0.8}.`,
  );
  if (all > rules.at_most)
    notes.push(`It ends after gate.at_most, ${rules.at_most}: a gain as small as gate.find will often not pass.`);
  return { ...found, episodes_wanted: { all, candidate } };
}

/** A canary ends with the minutes of its plan, whatever `gate.hours` says. */
function canaryWithin(
  { minutes }: NonNullable<Plan['budget']> = {},
  { bake_hours, hours }: ReturnType<typeof canaryRulesOf>,
  { problems, notes }: { readonly problems: string[]; readonly notes: string[] },
): void {
  if (minutes === undefined || hours * 60 <= minutes) return;
  const ends = `budget.minutes is ${minutes}, and a canary ends with them`;
  if (bake_hours * 60 > minutes)
    problems.push(`${ends}: it needs ${countText(bake_hours, 'hour')} (gate.bake_hours) before it may release.`);
  else notes.push(`${ends}, though gate.hours is ${hours}.`);
}

/** Of the last gate, of this kind of job, of a plan of this name. */
async function lastDeviation(db: Db, plan: string, kind: 'gate' | 'play'): Promise<number | null> {
  const [last] = await rowsOf(
    db,
    query
      .selectFrom('facts.jobs as gate')
      .innerJoin('facts.jobs as run', 'run.job_id', 'gate.parent_job_id')
      .select('gate.result')
      .where('gate.kind', '=', kind)
      .where('gate.outcome', '=', 'done')
      .where(sql<boolean>`gate.result ->> 'cut_short' is null`)
      .where(sql<string>`run.spec -> 'plan' ->> 'name'`, '=', plan)
      .orderBy('gate.finished_at', 'desc')
      .limit(1),
  );
  return (last?.result as GateReport | null | undefined)?.deviation ?? null;
}

function emptied(name: string, { manifest }: OpenedDataset): string {
  const stage = manifest.funnel.find(({ before, after }) => before !== 0 && after === 0);
  const why = stage ? `"${stage.name}" keeps none of its ${stage.before ?? ''} ${stage.of}` : 'nothing is recorded';
  return `The recipe of ${name} has no rows to train on: ${why}. Change policies.${name}.recipe, or record what it takes.`;
}

const stepsOf = (dataset: OpenedDataset | null, split: string): StepRow[] =>
  dataset?.splits.includes(split) ? ([...dataset.rows(split)] as unknown as StepRow[]) : [];
