/** One iteration of a round: play, where the plan has a rollout, judge, freeze and train once. */
import { TroupeError } from '../../../errors.ts';
import { whyEmpty } from '../../../store/datasets/manifest.ts';
import { parseRecipe } from '../../../store/datasets/recipe.ts';
import { anyOf, query, rowsOf } from '../../../store/db/query.ts';
import { resolveMethods } from '../../../store/evaluate/judging/judge.ts';
import { pinnedTo } from '../../../store/filter/filter-check.ts';
import { parseFilter } from '../../../store/filter/select.ts';
import { findReplay } from '../../../store/loop/play/places.ts';
import { TASKS, type WrittenTasks } from '../../../store/loop/play/written-tasks.ts';
import { requireReleasedTeam } from '../../../store/loop/team/version.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import type { JobContext } from '../../../store/queue/jobs/jobs.ts';
import { countEpisodes } from '../../sample/pass-episodes.ts';
import { PASS } from '../jobs/passes.ts';
import type { RolloutResult } from '../play/handler.ts';
import { repairTasks, withRepairs } from '../play/repairs.ts';
import type { ServingResult } from '../play/serving.ts';
import { type PartResult, partOf } from './parts.ts';
import { rolloutOf } from './plan-parts.ts';
import {
  branchAsked,
  branchStage,
  completeGroupsOf,
  type RoundRollout,
  repairStage,
  requireCompleteGroup,
  requireWritten,
  rolloutAsked,
  rolloutStages,
  roundRollout,
  wholeRollout,
  writingAsked,
} from './plan-rollout.ts';
import { type Plan, type PlanRollout, type PlanWriters, passStage, servedPolicies } from './plan-schema.ts';
import { tasksOf } from './plan-tasks.ts';
import {
  asJudged,
  type FrozenRows,
  lacksSignal,
  requireRows,
  whereOf,
  withinRound,
  withoutGates,
} from './round-rows.ts';
import { NothingToLearn, type OfStage, type Stages, stageId, stagesOf } from './stages.ts';
import { learnsFromSignal, loraBase, type TrainingResult, trainingKind, trainSpec } from './training-asked.ts';
import { type HostedModels, releasedOf, startOf } from './weights.ts';

/** How long a plan waits for the processes that serve its policies. */
const SERVING_WITHIN_S = 120;

/** What one iteration of a round came to. */
export type Iteration = {
  /** The rollout and its branches; empty where the plan has none. */
  readonly played: readonly RolloutResult[];
  /** The tasks that writers wrote for it; null where they stand in the plan or are stored. */
  readonly written: WrittenTasks | null;
  readonly frozen: Readonly<Record<string, FrozenRows>>;
  readonly trained: Readonly<Record<string, PartResult<TrainingResult>>>;
};

type OfIteration = OfStage & {
  /** The candidates of the iteration before; null in the first one. */
  readonly before: Readonly<Record<string, TrainingResult>> | null;
  /** Ids of the candidates of the round before. */
  readonly candidates: Readonly<Record<string, string>>;
  /** The models that answer for policies which were never released. */
  readonly hosted: HostedModels;
};

/** Play, where the plan has a rollout, judge, freeze and train once. */
export async function iterate(context: JobContext, plan: Plan, of: OfIteration): Promise<Iteration> {
  const { round, iteration, iterations, before, candidates, hosted } = of;
  const stages = stagesOf(context, plan, of);
  const names = Object.keys(plan.policies);
  const seed = seedOf((plan.seed ?? 0) + round - 1, of);
  const rollout = rolloutOf(plan);
  const served = servedPolicies(plan);
  /** Folders of the weights that these policies begin with, but of those that a model of another server answers until then. */
  const basesOf = async (unreleased: readonly string[]) =>
    Object.fromEntries(
      await Promise.all(
        unreleased
          .filter((name) => hosted[name] === undefined)
          .map(async (name) => [name, (await startOf(context.db, name, plan.policies[name]!, null)).directory]),
      ),
    );
  const answering = before
    ? Object.fromEntries(served.map((name) => [name, before[name]!]))
    : await lastUnreleased(context.db, plan, { served, candidates });
  const { played, written } = rollout
    ? await playTrees(context, stages, { rollout, names: served, round, seed, answering, basesOf })
    : NOTHING_PLAYED;
  const taken = played.length === 0 ? null : completeGroupsOf(...played);
  /** Directory of the weights that a policy's training begins with. */
  const start = async (name: string): Promise<string> =>
    before?.[name]?.directory ??
    (await startOf(context.db, name, plan.policies[name]!, candidates[name] ?? null)).directory;
  for (const asked of plan.passes ?? [])
    await stages.job(passStage(asked), PASS, async () => ({
      pass: asked.pass,
      ...(asked.as === undefined ? {} : { as: asked.as }),
      model: asked.model ?? (await start(asked.policy!)),
      where: whereOf(plan, taken),
    }));
  if (plan.judge)
    await stages.job('judge', 'judge', async () => ({ methods: plan.judge, where: whereOf(plan, taken) }));
  const frozen: Record<string, FrozenRows> = {};
  const silent: string[] = [];
  const count = countEpisodes(context.db);
  for (const name of names) {
    const { recipe } = plan.policies[name]!;
    const asked = parseRecipe({ ...withoutGates(withinRound(recipe, taken)), name: `${plan.name}-${name}` });
    const result = await stages.freeze(`freeze-${name}`, () => asJudged(asked, plan.judge));
    const isSilent = learnsFromSignal(plan.policies[name]!) && (await lacksSignal(result, asked, count));
    if (isSilent) silent.push(name);
    else requireRows(name, result);
    frozen[name] = result;
  }
  if (iterations === 1 && silent.length === names.length)
    throw new NothingToLearn(`Nothing to learn for ${names.join(', ')}: ${whyEmpty(frozen[names[0]!]!.funnel)}.`);
  // An iteration without a signal leaves the weights as they are: the next one has other tasks.
  for (const name of silent) if (trainingKind(plan.policies[name]!) !== 'rl') requireRows(name, frozen[name]!);
  const trained: Record<string, PartResult<TrainingResult>> = {};
  for (const name of names) {
    const policy = plan.policies[name]!;
    const dataset = frozen[name]!.directory;
    trained[name] = await stages.job<TrainingResult>(`train-${name}`, trainingKind(policy), async () => ({
      ...(await trainSpec(policy, dataset)),
      base: await start(name),
      ...loraBase(policy),
      dataset,
      policy: name,
      seed,
      keep: iteration === iterations,
      reset_optimizer: iteration === 1,
    }));
  }
  return { played, written, frozen, trained };
}

/** The iterations of a round that have ended, as they stand in the queue. Nothing is asked for. */
export async function iterationsOf(
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
      // A branch that nothing fits is left out.
      played: (
        await Promise.all(
          rolloutStages(plan).map((stage) => partOf<RolloutResult>(db, stageId({ ...of, iteration }, stage))),
        )
      ).flatMap((found) => (found === null ? [] : [found.result])),
      written: plan.rollout?.writers === undefined ? null : (await part<WrittenTasks>('tasks')).result,
      frozen: mapped(await each<FrozenRows>('freeze'), ({ result }) => result),
      trained: await each<TrainingResult>('train'),
    });
  }
  return found;
}

/** The first iteration that has not ended, and the candidates of the one before. */
export async function iterationToGoOn(
  { db }: JobContext,
  plan: Plan,
  of: { readonly run: string; readonly round: number; readonly iterations: number },
): Promise<Pick<OfIteration, 'iteration' | 'before'>> {
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
      const part = await partOf<TrainingResult>(db, stageId({ ...of, iteration: iteration - 1 }, `train-${name}`));
      return [name, part!.result] as const;
    }),
  );
  return { iteration, before: Object.fromEntries(before) };
}

/** What all rollouts of a round came to. */
export async function reportOf(context: JobContext, all: readonly Iteration[]): Promise<RoundRollout> {
  const parts: RoundRollout[] = [];
  for (const { played, written, trained } of all) {
    const starts = await startsOf(
      context,
      mapped(trained, ({ result }) => result.checkpoint_id),
    );
    for (const [i, one] of played.entries())
      parts.push({
        ...(await roundRollout(context.db, one, starts)),
        ...(written === null || i > 0
          ? {}
          : { written: { episodes: written.episodes, tasks: written.tasks.length, left_out: written.left_out } }),
      });
  }
  return wholeRollout(parts);
}

/** Seed of an iteration: that of the round where there is one only. */
const seedOf = (round: number, { iteration, iterations }: Pick<OfIteration, 'iteration' | 'iterations'>): number =>
  iterations === 1 ? round : 1000 * round + iteration;

/** Plays the tasks of an iteration, and then its branches, each from the steps of all before it. */
async function playTrees(
  context: JobContext,
  stages: Stages,
  of: Parameters<typeof play>[2],
): Promise<Pick<Iteration, 'played' | 'written'>> {
  const { db } = context;
  const { runner, deadline_s, budget, max_staleness, branches = [] } = of.rollout;
  const asked = (more: Pick<PlanRollout, 'runner' | 'samples'>) => ({
    ...more,
    seed: of.seed,
    ...(deadline_s === undefined ? {} : { deadline_s }),
    ...(budget === undefined ? {} : { budget }),
    ...(max_staleness === undefined ? {} : { max_staleness }),
    ...(Object.keys(of.answering).length === 0 ? {} : { weights: weightsOf(of.answering) }),
  });
  const { result: first, written } = await play(context, stages, of);
  const played: RolloutResult[] = [first];
  for (const [i, branch] of branches.entries()) {
    const { samples, repair } = branch;
    const replay = branchAsked(branch, played);
    const found = () => findReplay(db, replay);
    let result: RolloutResult;
    try {
      const repairs =
        repair &&
        (await stages.job<RolloutResult>(repairStage(i), 'rollout', async () => ({
          ...asked({ ...repair, samples: 1 }),
          tasks: await repairTasks(db, await found()),
        })));
      ({ result } = await stages.job<RolloutResult>(branchStage(i), 'rollout', async () => ({
        ...asked({ runner, samples }),
        replay,
        ...(repairs ? await withRepairs(db, repairs.result.rollout_id, await found()) : await found()),
      })));
    } catch (error) {
      if (repair !== undefined && error instanceof TroupeError && error.code === 'not_found') continue;
      throw error;
    }
    // That no repair could be played takes nothing from what was.
    if (repair === undefined) requireCompleteGroup(of.round, result);
    played.push(result);
  }
  return { played, written };
}

const weightsOf = (before: Readonly<Record<string, TrainingResult>>) =>
  mapped(before, ({ checkpoint_id, directory }) => ({ checkpoint_id, directory }));

/** Of the policies that go on from their last checkpoint, that one where it was not released: else the first iteration would be off-policy. */
async function lastUnreleased(
  db: JobContext['db'],
  { policies }: Plan,
  { served, candidates }: { readonly served: readonly string[]; readonly candidates: Readonly<Record<string, string>> },
): Promise<Record<string, TrainingResult>> {
  const found: Record<string, TrainingResult> = {};
  for (const name of served) {
    const policy = policies[name]!;
    if (policy.from !== 'last') continue;
    const last = await startOf(db, name, policy, candidates[name] ?? null);
    if (last.directory === policy.base) continue;
    if (last.checkpoint_id !== (await releasedOf(db, name))?.checkpoint_id) found[name] = last;
  }
  return found;
}

/**
 * Has the runner play the tasks of an iteration, answered by these weights, and by what was released for the policies that have none of these. Where the plan has writers, they write those tasks first, answered by the same weights.
 */
async function play(
  { db }: JobContext,
  stages: Stages,
  of: {
    readonly rollout: PlanRollout;
    readonly names: readonly string[];
    readonly round: number;
    readonly seed: number;
    readonly answering: Readonly<Record<string, TrainingResult>>;
    readonly basesOf: (unreleased: readonly string[]) => Promise<Readonly<Record<string, string>>>;
  },
): Promise<{ readonly result: RolloutResult; readonly written: WrittenTasks | null }> {
  const { rollout, names, round, seed, answering, basesOf } = of;
  const within_s = rollout.serving_within_s ?? SERVING_WITHIN_S;
  const rest = names.filter((name) => answering[name] === undefined);
  const serving =
    rest.length > 0
      ? await stages.job<ServingResult>('serving', 'serving', async () => {
          const policies: Record<string, string | null> = {};
          for (const name of rest) policies[name] = (await releasedOf(db, name))?.checkpoint_id ?? null;
          return { policies, bases: await basesOf(rest.filter((name) => policies[name] === null)), within_s };
        })
      : null;
  const policies = { ...serving?.result.policies, ...mapped(answering, ({ checkpoint_id }) => checkpoint_id) };
  const awaited = Object.keys(answering);
  const answered =
    awaited.length === 0 ? {} : { weights: weightsOf(answering), awaits: { policies: awaited, within_s } };
  const at = { round, seed };
  const { writers } = rollout;
  const written =
    writers === undefined
      ? null
      : await write(stages, writers, round, async () => ({
          ...writingAsked({ ...rollout, writers }, await tasksOf(db, 'rollout', rollout.tasks), at, policies),
          ...answered,
        }));
  const { result } = await stages.job<RolloutResult>('rollout', 'rollout', async () => ({
    ...(written === null
      ? rolloutAsked(rollout, await tasksOf(db, 'rollout', rollout.tasks), at, policies)
      : rolloutAsked(ofWritten(rollout), written.tasks, at, policies)),
    ...(rollout.team === undefined ? {} : { team: await requireReleasedTeam(db, rollout.team) }),
    ...answered,
  }));
  requireCompleteGroup(round, result);
  return { result, written };
}

const NOTHING_PLAYED: Pick<Iteration, 'played' | 'written'> = { played: [], written: null };

/** All that was written is played: `per_round` is of those that the writers get, and a filter chose those. */
const ofWritten = ({ per_round: _, ...rollout }: PlanRollout): PlanRollout => ({ ...rollout, tasks: [] });

/** Has the writers play, judges what they wrote, and takes what is accepted. */
async function write(
  stages: Stages,
  { judge, accept, at_most }: PlanWriters,
  round: number,
  asked: () => Promise<Record<string, unknown>>,
): Promise<WrittenTasks> {
  const { result: wrote } = await stages.job<RolloutResult>('write', 'rollout', asked);
  if (judge)
    await stages.job('judge-written', 'judge', async () => ({ methods: judge, where: completeGroupsOf(wrote) }));
  const { rollout_id } = wrote;
  const { result } = await stages.job<WrittenTasks>('tasks', TASKS, async () => ({
    rollout_id,
    accept: pinnedTo(parseFilter(accept), await resolveMethods(judge ?? [])),
    ...(at_most === undefined ? {} : { at_most }),
  }));
  requireWritten(round, rollout_id, result);
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

export const mapped = <From, To>(
  values: Readonly<Record<string, From>>,
  to: (value: From, name: string) => To,
): Record<string, To> => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, to(value, name)]));
