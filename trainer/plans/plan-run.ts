/**
 * One run of a plan: for each round play, where it has a rollout, evaluate, freeze, train, gate, release. Every stage is a job of its
 * own with an id made of run, round and stage, so a run that was killed finds what is done and goes on where it was. The run itself
 * holds no worker while a stage runs: its handler is called again from the beginning whenever a stage has ended.
 */
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { TroupeError } from '../../errors.ts';
import { openDataset } from '../../store/datasets/read.ts';
import { parseRecipe } from '../../store/datasets/recipe.ts';
import { anyOf, firstOf, query, rowsOf } from '../../store/db/query.ts';
import { CANARY } from '../../store/gating/canary.ts';
import { canaryOf } from '../../store/gating/canary-traffic.ts';
import type { Side } from '../../store/gating/play.ts';
import type { GateReport, ManualReport } from '../../store/gating/report.ts';
import { WATCH, watchSpec } from '../../store/gating/watching.ts';
import { checkedSpec, type Handler, type JobContext, requestJob, WaitsFor } from '../../store/jobs/jobs.ts';
import { waitProjected } from '../../store/projecting/positions.ts';
import { recordRelease, releasesOf } from '../../store/releasing/releases.ts';
import type { Filter } from '../../store/select.ts';
import { looksAtJudgement, parseFilter, splitFilter } from '../../store/select.ts';
import { openModelForIds } from '../models/model-directory.ts';
import type { RolloutResult } from '../rollouts/handler.ts';
import type { ServingResult } from '../rollouts/serving.ts';
import { type Done, partOf } from './parts.ts';
import {
  type CanaryGate,
  canaryRulesOf,
  type Plan,
  type PlanPolicy,
  type PlanRollout,
  type PlanTeam,
  type PlayGate,
  parseStoredPlan,
  requireTasks,
  rolloutOf,
  rulesOf,
  versionOf,
} from './plan.ts';
import {
  completeGroupsOf,
  type RoundRollout,
  requireCompleteGroup,
  rolloutAsked,
  roundRollout,
  wholeRollout,
} from './plan-rollout.ts';
import { tasksOf } from './plan-tasks.ts';
import { playAsked } from './play-gate.ts';
import { teamsAsked } from './team-round.ts';
import { type Checkpoint, releasedOf, startOf } from './weights.ts';

/** What a job of kind `plan` needs: the plan as JSON with absolute paths. The name of the run is the id of the job. */
export const PlanSpec = Compile(Type.Object({ plan: Type.Unknown() }));

export type Round = {
  readonly round: number;
  readonly candidates: Readonly<Record<string, string>>;
  /** Of a plan with a team: the id of the version that was its candidate. */
  readonly teams?: Readonly<Record<string, string>>;
  readonly passed: boolean;
  readonly reason: string;
  /** Job that holds the gate's report. */
  readonly gate: string;
  readonly release_id: string | null;
  /** Null where the plan has none. */
  readonly rollout: RoundRollout | null;
};
export type PlanResult = {
  readonly plan: string;
  readonly released: boolean;
  readonly rounds: readonly Round[];
  /** Why it ended before its last round; null where it did not. */
  readonly ended_early: string | null;
};

type Trained = { readonly checkpoint_id: string; readonly directory: string };
type Frozen = {
  readonly dataset_id: string;
  readonly directory: string;
  readonly rows: Readonly<Record<string, number>>;
  readonly funnel: readonly { readonly name: string; readonly before: number | null; readonly after: number }[];
};

/** @returns handler of kind `plan`, whose result is a `PlanResult` */
export function planHandler(context: JobContext): Handler {
  /** Rounds that ended, by run: a handler that is called again does not compute their reports again. */
  const known = new Map<string, readonly Round[]>();
  return async ({ job_id, spec }) => {
    const plan = parseStoredPlan(checkedSpec(PlanSpec, spec).plan);
    const run = job_id;
    const rounds = [...(known.get(run) ?? [])];
    for (let round = rounds.length + 1; round <= (plan.rounds ?? 1); round++) {
      try {
        rounds.push(await runRound(context, plan, { run, round, before: rounds.at(-1) ?? null }));
        known.set(run, [...rounds]);
      } catch (error) {
        if (!(error instanceof BudgetSpent)) throw error;
        known.delete(run);
        return resultOf(plan, rounds, error.message);
      }
    }
    known.delete(run);
    return resultOf(plan, rounds, null);
  };
}

const resultOf = (plan: Plan, rounds: readonly Round[], ended_early: string | null): PlanResult => ({
  plan: plan.name,
  released: rounds.some(({ release_id }) => release_id !== null),
  rounds,
  ended_early,
});

/** How long a plan waits for the processes that serve its policies. */
const SERVING_WITHIN_S = 120;

class BudgetSpent extends Error {}

/** What one iteration of a round came to. */
type Iteration = {
  readonly played: RolloutResult | null;
  readonly frozen: Readonly<Record<string, Frozen>>;
  readonly trained: Readonly<Record<string, Done<Trained>>>;
};

type OfRound = {
  readonly run: string;
  readonly round: number;
  readonly iteration: number;
  readonly iterations: number;
  /** The candidates of the iteration before; null in the first one. */
  readonly before: Readonly<Record<string, Trained>> | null;
  /** Ids of the candidates of the round before. */
  readonly candidates: Readonly<Record<string, string>>;
};

/** Play, where the plan has a rollout, judge, freeze and train once. */
async function iterate(context: JobContext, plan: Plan, of: OfRound): Promise<Iteration> {
  const { round, iteration, iterations, before, candidates } = of;
  const stages = stagesOf(context, plan, of);
  const names = Object.keys(plan.policies);
  const seed = seedOf((plan.seed ?? 0) + round - 1, of);
  const rollout = rolloutOf(plan);
  const played = rollout && (await play(context, stages, { rollout, names, round, seed, before }));
  const taken = played && completeGroupsOf(played);
  if (plan.judge)
    await stages.job('judge', 'judge', async () => ({ methods: plan.judge, where: whereOf(plan, taken) }));
  const frozen: Record<string, Frozen> = {};
  for (const name of names) {
    const recipe = parseRecipe({
      ...withoutGates(within(plan.policies[name]!.recipe, taken)),
      name: `${plan.name}-${name}`,
    });
    const { result } = await stages.job<Frozen>(`freeze-${name}`, 'freeze', async () => ({
      recipe,
      allow_empty: true,
    }));
    requireRows(name, result);
    frozen[name] = result;
  }
  const trained: Record<string, Done<Trained>> = {};
  for (const name of names) {
    const policy = plan.policies[name]!;
    const dataset = frozen[name]!.directory;
    const start = async () =>
      before?.[name]?.directory ?? (await startOf(context.db, name, policy, candidates[name] ?? null)).directory;
    trained[name] = await stages.job<Trained>(`train-${name}`, kindOf(policy), async () => ({
      ...(await trainSpec(policy, dataset)),
      base: await start(),
      dataset,
      policy: name,
      seed,
      keep: iteration === iterations,
      reset_optimizer: iteration === 1,
    }));
  }
  return { played, frozen, trained };
}

/** The iterations of a round that have ended, as they stand in the queue. Nothing is asked for. */
async function iterationsOf(
  { db }: JobContext,
  plan: Plan,
  of: { readonly run: string; readonly round: number; readonly iterations: number },
): Promise<Iteration[]> {
  const found: Iteration[] = [];
  const names = Object.keys(plan.policies);
  for (let iteration = 1; iteration <= of.iterations; iteration++) {
    const part = async <T>(stage: string) => (await partOf<T>(db, stageId({ ...of, iteration }, stage)))!;
    const each = async <T>(stage: string) =>
      Object.fromEntries(
        await Promise.all(names.map(async (name) => [name, await part<T>(`${stage}-${name}`)] as const)),
      );
    found.push({
      played: plan.rollout ? (await part<RolloutResult>('rollout')).result : null,
      frozen: mapped(await each<Frozen>('freeze'), ({ result }) => result),
      trained: await each<Trained>('train'),
    });
  }
  return found;
}

const mapped = <From, To>(
  values: Readonly<Record<string, From>>,
  to: (value: From, name: string) => To,
): Record<string, To> => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, to(value, name)]));

/** The first iteration that has not ended, and the candidates of the one before. */
async function iterationToGoOn(
  { db }: JobContext,
  plan: Plan,
  of: { readonly run: string; readonly round: number; readonly iterations: number },
): Promise<Pick<OfRound, 'iteration' | 'before'>> {
  const names = Object.keys(plan.policies);
  const last = (iteration: number) => stageId({ ...of, iteration }, `train-${names.at(-1)}`);
  const all = Array.from({ length: of.iterations }, (_, i) => last(i + 1));
  const ended = query
    .selectFrom('troupe.job_queue')
    .select('job_id')
    .where('job_id', '=', anyOf(all))
    .where('state', '=', 'finished')
    .where('outcome', '=', 'done');
  const done = new Set((await rowsOf(db, ended)).map(({ job_id }) => job_id));
  const iteration = all.findIndex((id) => !done.has(id)) + 1 || of.iterations;
  if (iteration === 1) return { iteration, before: null };
  const before = await Promise.all(
    names.map(async (name) => {
      const part = await partOf<Trained>(db, stageId({ ...of, iteration: iteration - 1 }, `train-${name}`));
      return [name, part!.result] as const;
    }),
  );
  return { iteration, before: Object.fromEntries(before) };
}

async function runRound(
  context: JobContext,
  plan: Plan,
  { run, round, before }: { readonly run: string; readonly round: number; readonly before: Round | null },
): Promise<Round> {
  if (plan.team !== undefined) return teamRound(context, plan, plan.team, { run, round });
  const names = Object.keys(plan.policies);
  const iterations = plan.rollout?.iterations ?? 1;
  const of = { run, round, iterations };
  const from = await iterationToGoOn(context, plan, of);
  let now = { ...from };
  let last = await iterate(context, plan, { ...of, ...now, candidates: before?.candidates ?? {} });
  while (now.iteration < iterations) {
    now = { iteration: now.iteration + 1, before: mapped(last.trained, ({ result }) => result) };
    last = await iterate(context, plan, { ...of, ...now, candidates: before?.candidates ?? {} });
  }
  const { frozen, trained } = last;
  const stages = stagesOf(context, plan, { ...of, iterations: 1, iteration: 1 });
  const gateRows = plan.gate.kind === 'offline' ? plan.gate.recipe : undefined;
  const shown =
    gateRows &&
    (await stages.job<Frozen>('freeze-gate', 'freeze', async () => ({
      recipe: parseRecipe({ ...withoutGates(gateRows), name: `${plan.name}-gate` }),
      allow_empty: true,
    })));
  const candidates = mapped(trained, ({ result }) => result);
  /** The weights that the round began with. */
  const basesOf = (all: readonly Iteration[]) => mapped(all[0]!.trained, ({ spec }) => String(spec.base));
  const gate =
    plan.gate.kind === 'manual'
      ? await stages.job<ManualReport>('gate', 'decision', async () => ({ kind: 'manual', candidates }))
      : plan.gate.kind === 'play'
        ? await stages.job<GateReport>('gate', 'play', async () => {
            const all = await iterationsOf(context, plan, of);
            return gateAsked(context, plan, plan.gate as PlayGate, {
              candidates,
              bases: basesOf(all),
              frozen: all.flatMap(({ frozen }) => Object.values(frozen)),
            });
          })
        : plan.gate.kind === 'canary'
          ? await stages.job<GateReport>('gate', CANARY, async () => {
              const bases = basesOf(await iterationsOf(context, plan, of));
              return canaryAsked(context, plan, plan.gate as CanaryGate, { candidates, bases });
            })
          : await stages.job<GateReport>('gate', 'gate', async () => ({
              kind: 'offline',
              rules: rulesOf(plan.gate as Extract<Plan['gate'], { kind: 'offline' }>),
              dataset: shown?.result.directory ?? null,
              policies: Object.fromEntries(
                await Promise.all(
                  names.map(async (name) => [
                    name,
                    {
                      incumbent: await incumbentOf(
                        context,
                        name,
                        basesOf(await iterationsOf(context, plan, of))[name]!,
                      ),
                      candidate: candidates[name]!,
                      dataset: frozen[name]!.directory,
                      roles: plan.policies[name]!.recipe.roles ?? null,
                    },
                  ]),
                ),
              ),
            }));
  const { passed, reason } = gate.result;
  const ids = Object.fromEntries(names.map((name) => [name, candidates[name]!.checkpoint_id]));
  const release_id = passed ? await release(context, { run, round, plan, policies: ids, reason }) : null;
  if (release_id !== null && plan.watch)
    await requestJob(context, {
      job_id: `${run}/${round}/watch`,
      kind: WATCH,
      spec: watchSpec(release_id, plan.watch),
      parent: run,
    });
  const report = plan.rollout ? await reportOf(context, await iterationsOf(context, plan, of)) : null;
  return { round, candidates: ids, passed, reason, gate: `${run}/${round}/gate`, release_id, rollout: report };
}

/** What all rollouts of a round came to. */
async function reportOf(context: JobContext, all: readonly Iteration[]): Promise<RoundRollout> {
  const parts: RoundRollout[] = [];
  for (const { played, trained } of all) {
    const starts = await startsOf(
      context,
      mapped(trained, ({ result }) => result.checkpoint_id),
    );
    parts.push(await roundRollout(context.db, played!, starts));
  }
  return wholeRollout(parts);
}

/** Seed of an iteration: that of the round where there is one only. */
const seedOf = (round: number, { iteration, iterations }: Pick<OfRound, 'iteration' | 'iterations'>): number =>
  iterations === 1 ? round : 1000 * round + iteration;

/**
 * Has the runner play the tasks of an iteration: the first one once the policies are answered by what was released, the others with the
 * candidates of the iteration before.
 */
async function play(
  { db }: JobContext,
  stages: Stages,
  of: {
    readonly rollout: PlanRollout;
    readonly names: readonly string[];
    readonly round: number;
    readonly seed: number;
    readonly before: Readonly<Record<string, Trained>> | null;
  },
): Promise<RolloutResult> {
  const { rollout, names, round, seed, before } = of;
  const within_s = rollout.serving_within_s ?? SERVING_WITHIN_S;
  if (before !== null) {
    const { result } = await stages.job<RolloutResult>('rollout', 'rollout', async () => ({
      ...rolloutAsked(
        rollout,
        await tasksOf(db, 'rollout', rollout.tasks),
        { round, seed },
        mapped(before, ({ checkpoint_id }) => checkpoint_id),
      ),
      weights: mapped(before, ({ checkpoint_id, directory }) => ({ checkpoint_id, directory })),
      awaits: { policies: names, within_s },
    }));
    requireCompleteGroup(round, result);
    return result;
  }
  const serving = await stages.job<ServingResult>('serving', 'serving', async () => ({
    policies: Object.fromEntries(
      await Promise.all(names.map(async (name) => [name, (await releasedOf(db, name))?.checkpoint_id ?? null])),
    ),
    within_s,
  }));
  const { result } = await stages.job<RolloutResult>('rollout', 'rollout', async () =>
    rolloutAsked(rollout, await tasksOf(db, 'rollout', rollout.tasks), { round, seed }, serving.result.policies),
  );
  requireCompleteGroup(round, result);
  return result;
}

/** The weights that the training of these candidates began with, by policy. */
async function startsOf(
  { db, log }: JobContext,
  candidates: Readonly<Record<string, string>>,
): Promise<Record<string, string>> {
  await waitProjected(db, { log });
  const ids = Object.values(candidates);
  const saved = await rowsOf(
    db,
    query.selectFrom('facts.checkpoints').select(['checkpoint_id', 'parent_id']).where('checkpoint_id', 'in', ids),
  );
  const parents = new Map(saved.map(({ checkpoint_id, parent_id }) => [checkpoint_id, parent_id]));
  // A checkpoint without a parent has the weights that it began with.
  return Object.fromEntries(Object.entries(candidates).map(([name, id]) => [name, parents.get(id) ?? id]));
}

type Stages = {
  /** Asks for a stage, or finds that it was asked for; `spec` is computed once. Throws `WaitsFor` until it has ended. */
  readonly job: <T>(stage: string, kind: string, spec: () => Promise<Record<string, unknown>>) => Promise<Done<T>>;
};

type OfStage = Pick<OfRound, 'run' | 'round' | 'iteration' | 'iterations'>;

/** Id of the job of a stage; the iteration is part of it where a round has several. */
const stageId = ({ run, round, iteration, iterations }: OfStage, stage: string): string =>
  iterations === 1 ? `${run}/${round}/${stage}` : `${run}/${round}/${iteration}/${stage}`;

function stagesOf(context: JobContext, plan: Plan, of: OfStage): Stages {
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

type RoundRecipe = Omit<PlanPolicy['recipe'], 'where'> & { readonly where?: unknown };

/** Episodes that no gate played: a candidate that learned from those would be compared on what it was trained on. */
const NO_GATE: Filter = { field: 'tags.gate', op: 'is null' };

/** A recipe that takes no episode of a gate. */
export const withoutGates = (recipe: RoundRecipe): RoundRecipe => ({
  ...recipe,
  where: { and: [NO_GATE, ...(recipe.where ? [parseFilter(recipe.where)] : [])] },
});

/** The recipe of a policy, which takes nothing else where the round has episodes of its own. */
const within = (recipe: PlanPolicy['recipe'], taken: Filter | null): RoundRecipe => {
  const own = recipe.where ? [parseFilter(recipe.where)] : [];
  return taken === null ? recipe : { ...recipe, where: { and: [taken, ...own] } };
};

/** Episodes that a recipe of the plan may take, once they are judged; null where one takes all. */
function whereOf(plan: Plan, taken: Filter | null): Filter | null {
  const recipes: RoundRecipe[] = Object.values(plan.policies).map(({ recipe }) => within(recipe, taken));
  if (plan.gate.kind === 'offline' && plan.gate.recipe) recipes.push(plan.gate.recipe);
  const filters = recipes.map(({ where }) =>
    splitFilter(where ? parseFilter(where) : null).episode.filter((part) => !looksAtJudgement(part)),
  );
  if (filters.some((parts) => parts.length === 0)) return null;
  return { or: filters.map((and) => ({ and })) };
}

function requireRows(name: string, { rows, funnel }: Frozen): void {
  if ((rows.train ?? 0) > 0) return;
  const emptied = funnel.find(({ before, after }) => before !== 0 && after === 0);
  throw new TroupeError(
    'training_failed',
    `There is nothing to learn for ${name}: ${emptied ? `"${emptied.name}" keeps none of ${emptied.before ?? 'its'} rows` : 'nothing is recorded that its recipe takes'}.`,
    { hint: 'troupe plan check shows how many rows each recipe has.' },
  );
}

/** Kind of the job that trains. */
const kindOf = ({ train }: PlanPolicy): string => (train.engine === 'command' ? 'program' : train.method);

/** The numbers of a training job. `sft` and `rl` have theirs by role: those of the recipe, else those of the rows. */
async function trainSpec({ recipe, train }: PlanPolicy, dataset: string): Promise<Record<string, unknown>> {
  if (train.engine === 'command') {
    const { use, layout, params = {} } = train;
    return { engine: use, params, ...(layout === undefined ? {} : { layout }) };
  }
  const { engine: _engine, method, ...numbers } = train;
  if (method === 'dpo') return { warmup: 0, ...numbers };
  const roles = recipe.roles ?? (await rolesOf(dataset));
  if (train.method === 'sft') {
    const { steps } = train;
    const byRole = typeof steps === 'number' ? Object.fromEntries(roles.map((role) => [role, steps])) : steps;
    return { warmup: 0, entropy: 0, ...numbers, steps: byRole };
  }
  const { groups, learning_rate, entropy = 0, ...rest } = train as Extract<PlanPolicy['train'], { method: 'rl' }>;
  const of = (numbers: number | Readonly<Record<string, number>>, role: string): number =>
    typeof numbers === 'number' ? numbers : numbers[role]!;
  const { engine: _, method: __, ...others } = rest;
  return {
    warmup: 0,
    clip_low: 0.2,
    clip_high: 0.28,
    ...others,
    roles: roles.map((role) => ({
      role,
      groups: of(groups, role),
      learning_rate: of(learning_rate, role),
      entropy: of(entropy, role),
    })),
  };
}

async function rolesOf(dataset: string): Promise<string[]> {
  const opened = await openDataset(dataset);
  const roles = new Set<string>();
  for (const row of opened.rows('train')) roles.add(String(row.role ?? ''));
  return [...roles].sort();
}

/** What a gate that plays is asked for: the whole map of each side, so that a release in between changes nothing. */
async function gateAsked(
  context: JobContext,
  plan: Plan,
  gate: PlayGate,
  {
    candidates,
    bases,
    frozen,
  }: {
    readonly candidates: Readonly<Record<string, Trained>>;
    readonly bases: Readonly<Record<string, string>>;
    readonly frozen: readonly Frozen[];
  },
): Promise<Record<string, unknown>> {
  const maps = await mapsOf(context, candidates, bases);
  return playAsked(gate, {
    tasks: await tasksOf(context.db, 'gate', requireTasks('gate', gate.tasks)),
    seed: plan.seed ?? 0,
    datasets: frozen.map(({ directory }) => directory),
    maps,
    policies: Object.keys(candidates),
    guarded: Object.values(plan.policies).flatMap(({ recipe }) => recipe.roles ?? []),
  });
}

/** The whole map of each side: what is released, else what training began with; and the candidates in its place. */
async function mapsOf(
  { db, log }: JobContext,
  candidates: Readonly<Record<string, Trained>>,
  bases: Readonly<Record<string, string>>,
): Promise<Record<Side, Record<string, Checkpoint>>> {
  await waitProjected(db, { log });
  const incumbent: Record<string, Checkpoint> = {};
  for (const name of Object.keys((await releasesOf(db)).at(-1)?.policies ?? {})) {
    const released = await releasedOf(db, name);
    if (released !== null) incumbent[name] = released;
  }
  for (const [name, base] of Object.entries(bases))
    incumbent[name] ??= { checkpoint_id: (await openModelForIds(base)).id, directory: base };
  return { incumbent, candidate: { ...incumbent, ...mapped(candidates, weightsOf) } };
}

const weightsOf = ({ checkpoint_id, directory }: Trained): Checkpoint => ({ checkpoint_id, directory });

/**
 * What a canary is asked for. One at a time answers the live calls of a policy.
 * @throws WaitsFor the canary of another run that is under way
 */
async function canaryAsked(
  context: JobContext,
  plan: Plan,
  gate: CanaryGate,
  {
    candidates,
    bases,
  }: { readonly candidates: Readonly<Record<string, Trained>>; readonly bases: Readonly<Record<string, string>> },
): Promise<Record<string, unknown>> {
  const other = await canaryOf(context.db, Object.keys(candidates));
  if (other !== null) throw new WaitsFor(other);
  const maps = await mapsOf(context, candidates, bases);
  const idsOf = (side: Side) => mapped(candidates, (_, name) => maps[side][name]!.checkpoint_id);
  return {
    kind: CANARY,
    rules: canaryRulesOf(gate),
    maps: { incumbent: idsOf('incumbent'), candidate: idsOf('candidate') },
    weights: mapped(candidates, weightsOf),
    guarded: Object.values(plan.policies).flatMap(({ recipe }) => recipe.roles ?? []),
  };
}

/** The round of a plan with a team: its gate plays two versions with the same weights, and nothing is trained. */
async function teamRound(
  context: JobContext,
  plan: Plan,
  team: PlanTeam,
  { run, round }: { readonly run: string; readonly round: number },
): Promise<Round> {
  const candidate = versionOf(team, 'candidate')!;
  const stages = stagesOf(context, plan, { run, round, iterations: 1, iteration: 1 });
  const gate = await stages.job<GateReport>('gate', 'play', async () => {
    const play = plan.gate as PlayGate;
    const { incumbent: map } = await mapsOf(context, {}, {});
    const teams = await teamsAsked(context, team);
    return playAsked(play, {
      tasks: await tasksOf(context.db, 'gate', requireTasks('gate', play.tasks)),
      seed: plan.seed ?? 0,
      datasets: [],
      maps: { incumbent: map, candidate: map },
      policies: [],
      guarded: [],
      teams,
    });
  });
  const { passed, reason } = gate.result;
  const teams = { [team.name]: candidate.team_id };
  const release_id = passed ? await release(context, { run, round, plan, policies: {}, teams, reason }) : null;
  return { round, candidates: {}, teams, passed, reason, gate: `${run}/${round}/gate`, release_id, rollout: null };
}

/** What is released now; where nothing is, the weights that the candidate was trained from. */
async function incumbentOf({ db }: JobContext, policy: string, base: string): Promise<Checkpoint> {
  return (await releasedOf(db, policy)) ?? { checkpoint_id: base.split('/').at(-1)!, directory: base };
}

/** Appends the release once: the whole map, with the other policies as they are. */
async function release(
  { db, log, now }: JobContext,
  {
    run,
    round,
    plan,
    policies,
    teams,
    reason,
  }: {
    readonly run: string;
    readonly round: number;
    readonly plan: Plan;
    readonly policies: Readonly<Record<string, string>>;
    readonly teams?: Readonly<Record<string, string>>;
    readonly reason: string;
  },
): Promise<string> {
  const release_id = `${run}/${round}`;
  await waitProjected(db, { log });
  const known = query.selectFrom('facts.releases').select('release_id').where('release_id', '=', release_id);
  if ((await firstOf(db, known)) !== undefined) return release_id;
  const before = (await releasesOf(db)).at(-1);
  await recordRelease(log, {
    release_id,
    policies: { ...before?.policies, ...policies },
    teams: { ...before?.teams, ...teams },
    reason,
    by: `plan ${plan.name}`,
    source: '/plans',
    time: now().toISOString(),
  });
  await waitProjected(db, { log });
  return release_id;
}
