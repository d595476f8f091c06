/**
 * The gate that plays: a runner has the team play the same tasks with the same seeds twice, answered by the incumbent and by the candidate, and
 * the rewards are compared by task. Each side is a rollout, so a kill loses and doubles nothing, and all that is counted follows from the tables.
 */
import { readFile } from 'node:fs/promises';
import { TroupeError } from '../../../errors.ts';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { hashId, sha256 } from '../../../ingest/events/json.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import type { Db } from '../../../store/db/pool.ts';
import { query, rowsOf } from '../../../store/db/query.ts';
import type { Both } from '../../../store/evaluate/statistics/paired.ts';
import { decide, deviationOf, type GateRules, type MeasuredTask } from '../../../store/loop/comparison/gate.ts';
import { overBudget, spentOf } from '../../../store/loop/play/budget.ts';
import { playedIn } from '../../../store/loop/play/ids.ts';
import { requestedOf } from '../../../store/loop/play/request.ts';
import { ROLLOUT, type RolloutSpec, type RolloutTask } from '../../../store/loop/play/rollout.ts';
import { hostedModel, type Weights } from '../../../store/loop/play/weights.ts';
import type { TeamVersion } from '../../../store/loop/team/version.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import { checkedSpec, type Handler, type JobContext, requestJob, WaitsFor } from '../../../store/queue/jobs/jobs.ts';
import type { StepRow } from '../../learn/data/training-rows.ts';
import { EPISODE_USE, meanOfAll, pairOf, roleRewards, unitOf } from '../comparison/measured.ts';
import { type GateSide, PLAY, PlayGateSpec, rolloutOfSide, SIDES } from '../comparison/play.ts';
import { cutShort, type GateReport } from '../comparison/report.ts';
import type { RolloutResult } from '../play/handler.ts';
import { findRunner, type Runner } from '../play/runners.ts';
import { type PlayGate, rulesOf } from './gate-schema.ts';
import { partOf } from './parts.ts';
import { isWhere } from './plan-schema.ts';
import { recordedFamilies, taskOf } from './weights.ts';

/** How long a gate waits until both sides can answer. */
const SERVING_WITHIN_S = 120;
/** Share of its samples that a candidate may leave unplayed beyond the incumbent. */
const UNPLAYED = 0.05;

const TRAINED_ON = 'trained on';
const NOT_PLAYED = { incumbent: 'not played by the incumbent', candidate: 'not played by the candidate' } as const;
const NO_REWARD = 'without a reward';
const OTHER_WEIGHTS = 'not answered by the weights of their side';
const OTHER_VERSION = 'not played by the version of their side';

/** What the gate of a round is asked for. */
export async function playAsked(
  gate: PlayGate,
  of: {
    readonly tasks: readonly RolloutTask[];
    readonly seed: number;
    readonly params?: RolloutSpec['params'];
    /** Datasets that were trained on: their tasks are not played. */
    readonly datasets: readonly string[];
    readonly maps: Readonly<Record<GateSide, Readonly<Record<string, Weights>>>>;
    readonly policies: readonly string[];
    readonly guarded: readonly string[];
    readonly teams?: Readonly<Record<GateSide, TeamVersion>>;
    readonly team?: TeamVersion;
  },
): Promise<Record<string, unknown>> {
  const trained = new Set<string>();
  for (const directory of of.datasets)
    for (const row of (await openDataset(directory)).rows('train')) trained.add(taskOf(row as unknown as StepRow));
  const tasks = of.tasks.filter(({ task_id }) => !trained.has(task_id));
  const { runner, samples, deadline_s, serving_within_s = SERVING_WITHIN_S, guardrails = {} } = gate;
  return {
    kind: PLAY,
    rules: rulesOf(gate),
    runner,
    tasks,
    ...(isWhere(gate.tasks) ? { tasks_where: gate.tasks.where } : {}),
    samples,
    seed: of.seed,
    ...(of.params === undefined ? {} : { params: of.params }),
    ...(deadline_s === undefined ? {} : { deadline_s }),
    serving_within_s,
    policies: of.policies,
    ...(of.teams === undefined ? {} : { teams: of.teams }),
    ...(of.team === undefined ? {} : { team: of.team }),
    maps: of.maps,
    guarded: of.guarded,
    unplayed: guardrails.unplayed ?? UNPLAYED,
    left_out: { [TRAINED_ON]: of.tasks.length - tasks.length },
  };
}

const checked = (spec: unknown) => checkedSpec(PlayGateSpec, spec);
type Spec = ReturnType<typeof checked>;

/** @returns handler of kind `play`, whose result is a `GateReport` */
export function playGate(
  context: JobContext,
  settings: { readonly runners: readonly Runner[]; readonly codeVersion: string },
): Handler {
  return async ({ job_id, spec }): Promise<GateReport> => {
    const asked = checked(spec);
    const runner = findRunner(settings.runners, asked.runner);
    const environment = await environmentOf(runner);
    const { db, log } = context;
    const results: Record<GateSide, RolloutResult | null> = { incumbent: null, candidate: null };
    let over: string | null = null;
    for (const side of asked.tasks.length === 0 ? [] : SIDES) {
      if (over !== null) break;
      const id = rolloutOfSide(job_id, side);
      const known = await partOf<RolloutResult>(db, id);
      if (known === null) {
        const left = await leftFor(context, asked, job_id);
        over = left.over;
        if (over !== null) break;
        const spec = { ...rolloutAsked(asked, side, job_id, environment), ...left.limited };
        await requestJob(context, { job_id: id, kind: ROLLOUT, spec, parent: job_id });
        throw new WaitsFor(id);
      }
      requireSame(runner, environment, known.spec);
      results[side] = known.result;
      over = leftOutBy(known.result);
    }
    await waitProjected(db, { log });
    const sides = {
      incumbent: await playedBy(db, asked, 'incumbent', results.incumbent),
      candidate: await playedBy(db, asked, 'candidate', results.candidate),
    };
    const { tasks, left_out } = await paired(db, asked, sides);
    const rules = asked.rules as GateRules;
    const unplayed = {
      of: 'samples played',
      margin: asked.unplayed,
      pairs: asked.tasks.map(({ task_id }) => both((side) => sides[side].played.get(task_id) ?? 0)),
    };
    const decision = decide(tasks, rules, asked.guarded, undefined, [unplayed]);
    const { teams } = asked;
    const models = Object.fromEntries([
      ...asked.policies.map((policy) => [policy, bothOf((side) => asked.maps[side][policy]!.checkpoint_id)]),
      ...(teams === undefined ? [] : [[`team ${teams.candidate.name}`, bothOf((side) => teams[side].team_id)]]),
    ]);
    return {
      format: 'troupe-gate/1',
      kind: PLAY,
      measure: 'mean reward of the episodes of a task',
      unit: 'reward',
      ...(over === null ? decision : cutShort(decision, over)),
      rules,
      deviation: deviationOf(tasks),
      models,
      pinned: {
        task_set: hashId(asked.tasks, asked.samples, asked.seed, ...(asked.params === undefined ? [] : [asked.params])),
        scorer: hashId('reward', runner.reward, environment),
        models:
          teams === undefined
            ? hashId(asked.maps)
            : hashId(
                asked.maps,
                bothOf((side) => teams[side].team_id),
              ),
        environment: hashId({
          troupe: settings.codeVersion,
          runner: environment,
          ...(asked.team === undefined ? {} : { team: asked.team.team_id }),
        }),
      },
      left_out: { ...asked.left_out, ...left_out },
      rollouts: { incumbent: rolloutOfSide(job_id, 'incumbent'), candidate: rolloutOfSide(job_id, 'candidate') },
    };
  };
}

/** What is left to a side of the budget of its gate, which both sides share; `over` says why it does not begin. */
async function leftFor({ db, log }: JobContext, { budget }: Spec, job_id: string) {
  if (budget === undefined) return { over: null, limited: {} };
  await waitProjected(db, { log });
  const spent = await spentOf(
    db,
    SIDES.map((one) => rolloutOfSide(job_id, one)),
  );
  const { age } = await requestedOf(db, job_id);
  const over = overBudget({ budget }, spent, age);
  if (over !== null) return { over: over.message, limited: {} };
  const { tokens, usd, seconds } = budget;
  const limited = {
    ...(tokens === undefined ? {} : { tokens: tokens - (spent.tokens ?? 0) }),
    ...(usd === undefined ? {} : { usd: usd - (spent.usd ?? 0) }),
    ...(seconds === undefined ? {} : { seconds: seconds - age }),
  };
  return { over: null, limited: { budget: limited } };
}

/** Why samples of a rollout were left out by its budget; null where none was. */
const leftOutBy = ({ partial }: RolloutResult): string | null =>
  partial.flatMap(({ why }) => why).find(({ code }) => code === 'budget')?.message ?? null;

const bothOf = <T>(of: (side: GateSide) => T): Readonly<Record<GateSide, T>> => ({
  incumbent: of('incumbent'),
  candidate: of('candidate'),
});
const both = (of: (side: GateSide) => number): Both => bothOf(of);

/** The episodes are tagged as the gate's, so that no recipe of a plan trains on them. */
function rolloutAsked(asked: Spec, side: GateSide, gate: string, environment: string): RolloutSpec {
  const { runner, tasks, tasks_where, samples, seed, params, deadline_s, serving_within_s, maps } = asked;
  const team = asked.teams?.[side] ?? asked.team;
  const policies = Object.entries(maps[side]).map(([policy, { checkpoint_id }]) => [policy, checkpoint_id]);
  return {
    runner,
    tasks,
    samples,
    seed,
    ...(params === undefined ? {} : { params }),
    tags: { gate, side, environment },
    policies: Object.fromEntries(policies),
    ...(tasks_where === undefined ? {} : { tasks_where }),
    weights: maps[side],
    ...(team === undefined ? {} : { team }),
    awaits: { policies: asked.policies, within_s: serving_within_s },
    ...(deadline_s === undefined ? {} : { deadline_s }),
  };
}

/** @throws TroupeError `training_failed` where the two sides were not played by the same program */
function requireSame(runner: Runner, environment: string, spec: Readonly<Record<string, unknown>>): void {
  const tags = spec.tags as { readonly environment?: string } | undefined;
  if (tags?.environment === undefined || tags.environment === environment) return;
  throw new TroupeError(
    'training_failed',
    `The runner ${runner.name}, or a file that its command names, changed while the gate played, so its two sides cannot be compared. Run the plan again.`,
    { expected: tags.environment, got: environment },
  );
}

/** Hash of a runner: its settings, and the files that its commands name. Of workers and servers only the settings are known. */
export async function environmentOf(runner: Runner): Promise<string> {
  const named = [
    ...(runner.by === 'command' ? runner.command : []),
    ...(runner.reward.from === 'command' ? runner.reward.command : []),
  ];
  const files = await Promise.all(
    named.map((path) =>
      readFile(path).then(
        (bytes) => [path, sha256(bytes)],
        () => null,
      ),
    ),
  );
  return hashId(
    runner,
    files.filter((file) => file !== null),
  );
}

type PlayedSide = {
  /** By task, all samples of it: only complete groups. */
  readonly tasks: ReadonlyMap<string, ReturnType<typeof unitOf>>;
  /** Share of the samples of each task that were played. */
  readonly played: ReadonlyMap<string, number>;
  /** Tasks whose episodes other weights answered, no policy of the gate, or another version of the team. */
  readonly foreign: ReadonlySet<string>;
};

/** What one side played, from the tables. */
async function playedBy(db: Db, asked: Spec, side: GateSide, result: RolloutResult | null): Promise<PlayedSide> {
  if (result === null) return { tasks: new Map(), played: new Map(), foreign: new Set() };
  const { rollout_id: id, partial } = result;
  const episodes = await rowsOf(
    db,
    query
      .selectFrom('facts.episodes as e')
      .select(['episode_id', 'task_id', 'team_id', 'reward as value', ...EPISODE_USE])
      .where(playedIn('episode_id', id)),
  );
  const calls = await rowsOf(
    db,
    query
      .selectFrom('facts.calls')
      .select(['episode_id', 'policy', 'checkpoint_id'])
      .where(playedIn('episode_id', id))
      .distinct(),
  );
  const rolesOf = await roleRewards(db, playedIn('f.episode_id', id));
  const callsOf = groupBy(calls, ({ episode_id }) => episode_id);
  const taken = new Set(result.episodes);
  const foreign = new Set<string>();
  const found = [];
  for (const episode of episodes) {
    const { episode_id, task_id, team_id } = episode;
    if (!taken.has(episode_id) || task_id === null) continue;
    const mine = (callsOf.get(episode_id) ?? []).map((call) => ({ ...call, policy: policyOf(call, asked.maps[side]) }));
    const compared = mine.filter(
      ({ policy, checkpoint_id }) => asked.policies.includes(policy ?? '') && checkpoint_id !== null,
    );
    const right = compared.every(
      ({ policy, checkpoint_id }) => asked.maps[side][policy!]?.checkpoint_id === checkpoint_id,
    );
    const version = (asked.teams?.[side] ?? asked.team)?.team_id;
    const answered = asked.teams !== undefined || compared.length > 0;
    const own = answered && (version === undefined || team_id === version);
    if (!own || !right) foreign.add(task_id);
    found.push({ ...episode, task_id, roles: rolesOf(episode_id) });
  }
  const done = new Map(partial.map(({ task_id, done, of }) => [task_id, done / of]));
  return {
    tasks: new Map(
      [...groupBy(found, ({ task_id }) => task_id)].map(([task_id, all]) => [task_id, unitOf(all, meanOfAll)]),
    ),
    played: new Map(asked.tasks.map(({ task_id }) => [task_id, done.get(task_id) ?? 1])),
    foreign,
  };
}

/** A call that a configured server answered in the place of a policy names no policy, only the model that stands in the map. */
function policyOf(
  { policy, checkpoint_id }: { readonly policy: string | null; readonly checkpoint_id: string | null },
  map: Readonly<Record<string, Weights>>,
): string | null {
  if (policy !== null || checkpoint_id === null || hostedModel(checkpoint_id) === null) return policy;
  return Object.keys(map).find((name) => map[name]!.checkpoint_id === checkpoint_id) ?? null;
}

/** Tasks that both sides played whole, with rewards, by the right weights; the others counted by reason. */
async function paired(
  db: Db,
  { tasks: asked, teams }: Spec,
  sides: Readonly<Record<GateSide, PlayedSide>>,
): Promise<{ readonly tasks: MeasuredTask[]; readonly left_out: Record<string, number> }> {
  const foreign = teams === undefined ? OTHER_WEIGHTS : OTHER_VERSION;
  const left_out = { [NOT_PLAYED.incumbent]: 0, [NOT_PLAYED.candidate]: 0, [NO_REWARD]: 0, [foreign]: 0 };
  const families = await familiesOf(db, asked);
  const tasks: MeasuredTask[] = [];
  for (const { task_id } of asked) {
    const [before, after] = [sides.incumbent.tasks.get(task_id), sides.candidate.tasks.get(task_id)];
    if (before === undefined) left_out[NOT_PLAYED.incumbent]++;
    else if (after === undefined) left_out[NOT_PLAYED.candidate]++;
    else if (SIDES.some((side) => sides[side].foreign.has(task_id))) left_out[foreign]!++;
    else {
      const pair = pairOf(before, after);
      if (pair === null) left_out[NO_REWARD]++;
      else tasks.push({ task_id, family: families.get(task_id) ?? null, ...pair });
    }
  }
  return { tasks, left_out };
}

/** The family of each task: its `domain` in the file of tasks, else what is recorded of it. */
async function familiesOf(db: Db, tasks: readonly RolloutTask[]): Promise<ReadonlyMap<string, string | null>> {
  const families = await recordedFamilies(
    db,
    tasks.map(({ task_id }) => task_id),
  );
  for (const task of tasks as readonly (RolloutTask & { readonly domain?: unknown })[])
    if (typeof task.domain === 'string') families.set(task.task_id, task.domain);
  return families;
}
