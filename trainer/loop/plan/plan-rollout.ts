/** The rollout of a round: which tasks are played, which of its episodes the recipes take, and whether other weights answered them. */
import { countText, TroupeError } from '../../../errors.ts';
import { hashId } from '../../../ingest/events/json.ts';
import type { Db } from '../../../store/db/pool.ts';
import { type Filter, parseFilter } from '../../../store/filter/select.ts';
import type { ReplayRequest } from '../../../store/loop/play/replay.ts';
import type { RolloutSpec, RolloutTask } from '../../../store/loop/play/rollout.ts';
import { countsText, type WrittenTasks } from '../../../store/loop/play/written-tasks.ts';
import type { RolloutResult } from '../play/handler.ts';
import { answeredBy } from '../play/staleness.ts';
import type { PlayGate } from './gate-schema.ts';
import { isWhere, type Plan, type PlanBranch, type PlanRollout, type PlanWriters } from './plan-schema.ts';

/** The part of a round's report on its rollout. */
export type RoundRollout = {
  readonly rollout_id: string;
  /** Those of complete groups: what the recipes may take. */
  readonly episodes: number;
  readonly groups: RolloutResult['groups'];
  /** Why samples of partial groups are missing, with how many; the groups stand in the result of the rollout's job. */
  readonly left_out: RolloutResult['partial'][number]['why'];
  /** Episodes that the bound of the rollout leaves out; runs of a version without it have none. */
  readonly withheld?: number;
  /** Of a rollout whose tasks were written first: by how many episodes, how many there are, and why others wrote none. */
  readonly written?: { readonly episodes: number; readonly tasks: number; readonly left_out: WrittenTasks['left_out'] };
  /** Episodes in which other weights answered than those that training began with: they are off-policy. */
  readonly stale: number;
  /** Episodes in which no call names the weights that answered, of whichever policy. */
  readonly unknown: number;
};

/** The tasks of a round in the order of the plan: the `per_round` first ones in an order that follows from the seed. Pure. */
export function tasksOfRound(
  { per_round }: Pick<PlanRollout, 'per_round'>,
  tasks: readonly RolloutTask[],
  seed: number,
): readonly RolloutTask[] {
  if (per_round === undefined) return tasks;
  const drawn = tasks
    .map(({ task_id }) => ({ task_id, place: hashId('plan-rollout', seed, task_id) }))
    .sort((a, b) => (a.place < b.place ? -1 : 1))
    .slice(0, per_round);
  const chosen = new Set(drawn.map(({ task_id }) => task_id));
  return tasks.filter(({ task_id }) => chosen.has(task_id));
}

/** The settings of the team in a round, from 1: of a list the value of that round, or the last one. So a horizon grows over rounds. Pure. */
const paramsOfRound = (params: NonNullable<PlanRollout['params']>, round: number): NonNullable<RolloutSpec['params']> =>
  Object.fromEntries(
    Object.entries(params).map(([name, value]) => [
      name,
      Array.isArray(value) ? value[Math.min(round, value.length) - 1]! : value,
    ]),
  );

/** The settings of the team at the gate of a round: its own, else those that the round was played with by the same runner. Pure. */
export const paramsOfGate = (
  { rollout }: Pick<Plan, 'rollout'>,
  { runner, params }: PlayGate,
  round: number,
): Pick<RolloutSpec, 'params'> => {
  const own =
    params ?? (rollout?.runner === runner && rollout.params ? paramsOfRound(rollout.params, round) : undefined);
  return own === undefined ? {} : { params: own };
};

/** What the rollout of a round, from 1, is asked for. Pure. */
export function rolloutAsked(
  rollout: PlanRollout,
  tasks: readonly RolloutTask[],
  { round, seed }: { readonly round: number; readonly seed: number },
  policies: Readonly<Record<string, string | null>>,
): RolloutSpec {
  const { runner, samples, deadline_s, params, budget, max_staleness } = rollout;
  const known = Object.entries(policies).filter((entry): entry is [string, string] => entry[1] !== null);
  return {
    runner,
    tasks: [...tasksOfRound(rollout, tasks, seed)],
    ...(isWhere(rollout.tasks) ? { tasks_where: rollout.tasks.where } : {}),
    samples,
    seed,
    ...(deadline_s === undefined ? {} : { deadline_s }),
    ...(params === undefined ? {} : { params: paramsOfRound(params, round) }),
    ...(budget === undefined ? {} : { budget }),
    ...(max_staleness === undefined ? {} : { max_staleness }),
    ...(known.length === 0 ? {} : { policies: Object.fromEntries(known) }),
  };
}

/** The stages before it that write its tasks. Pure. */
export const writingStages = ({ rollout }: Pick<Plan, 'rollout'>): string[] =>
  rollout?.writers === undefined ? [] : ['write', ...(rollout.writers.judge ? ['judge-written'] : []), 'tasks'];

/** What the writers of a rollout are asked for: its tasks, for them. Pure. */
export const writingAsked = (
  { writers, branches: _, team: __, ...rollout }: PlanRollout & { readonly writers: PlanWriters },
  tasks: readonly RolloutTask[],
  at: { readonly round: number; readonly seed: number },
  policies: Readonly<Record<string, string | null>>,
): RolloutSpec => rolloutAsked({ ...rollout, runner: writers.runner, samples: writers.samples }, tasks, at, policies);

/** @throws TroupeError `training_failed` where no task was written, with what became of the episodes */
export function requireWritten(round: number, rollout_id: string, { tasks, episodes, left_out }: WrittenTasks): void {
  if (tasks.length > 0) return;
  throw new TroupeError(
    'training_failed',
    `Round ${round} has no task to play: of ${countText(episodes, 'episode')} of ${rollout_id} that wrote tasks none is accepted (${countsText(left_out)}).`,
    {
      hint: `troupe sql "select episode_id, reward, answer from traj.episodes where tags->>'rollout' = '${rollout_id}'"`,
    },
  );
}

/** The stages that play: the tasks, then each branch. Below the id of the rollout, so that its weights answer the branches too. Pure. */
export const rolloutStages = ({ rollout }: Pick<Plan, 'rollout'>): string[] =>
  rollout === undefined ? [] : ['rollout', ...(rollout.branches ?? []).map((_, i) => branchStage(i))];
export const branchStage = (i: number): string => `rollout/branch-${i + 1}`;
export const repairStage = (i: number): string => `${branchStage(i)}-repair`;
/** The same with what comes before a branch. Pure. */
export const playingStages = (plan: Pick<Plan, 'rollout'>): string[] =>
  rolloutStages(plan).flatMap((stage, i) =>
    i > 0 && plan.rollout?.branches?.[i - 1]?.repair !== undefined ? [repairStage(i - 1), stage] : [stage],
  );

/** What the replays of a branch are asked for: of the steps that fit, those in complete groups of the rollouts of the round before it. Pure. */
export const branchAsked = (
  { where, samples: _, repair: __, ...atPlace }: PlanBranch,
  played: readonly RolloutSummary[],
): ReplayRequest => ({
  ...atPlace,
  where: { and: [completeGroupsOf(...played), parseFilter(where, 'rollout.branches.where')] },
});

/** Attempts that were accepted: those that failed or came late are in no group. */
const MEMBERS: Filter = { not: { field: 'group_id', op: 'is null' } };

type RolloutSummary = Pick<RolloutResult, 'rollout_id' | 'partial' | 'staleness'>;

/** The episodes of complete groups of one or several rollouts, as a filter. Pure. */
export const completeGroupsOf = (...played: readonly RolloutSummary[]): Filter =>
  played.length === 1 ? groupsIn(played[0]!) : { or: played.map(groupsIn) };

/**
 * The episodes of complete groups: those that the result of the rollout lists. An attempt that failed or came late is in no group, and one that
 * is too stale is withheld.
 */
function groupsIn({ rollout_id, partial, staleness: { withheld } }: RolloutSummary): Filter {
  const left_out = partial.map(({ group_id }) => group_id);
  return {
    and: [
      { field: 'tags.rollout', op: '=', value: rollout_id },
      MEMBERS,
      ...(left_out.length === 0 ? [] : [{ not: { field: 'group_id', op: 'in', value: left_out } } as const]),
      ...(withheld.length === 0 ? [] : [{ not: { field: 'episode_id', op: 'in', value: withheld } } as const]),
    ],
  };
}

/** @throws TroupeError `training_failed` where no group is complete, with what the samples failed at */
export function requireCompleteGroup(
  round: number,
  { rollout_id, episodes, groups, partial, staleness }: RolloutResult,
): void {
  if (episodes.length > 0) return;
  if (groups.complete > 0)
    throw new TroupeError(
      'training_failed',
      `Round ${round} has nothing to learn from: rollout ${rollout_id} withholds all it has (${countText(staleness.withheld.length, 'episode')}), because their weights are more releases behind than rollout.max_staleness allows.`,
    );
  throw new TroupeError(
    'training_failed',
    `Round ${round} has nothing to learn from: of ${countText(groups.partial, 'group')} of rollout ${rollout_id} none is complete. ${reasonsText(reasons(partial))}`,
    { hint: `troupe sql "select episode_id, stop_reason from traj.episodes where tags->>'rollout' = '${rollout_id}'"` },
  );
}

/**
 * @param starts id of the weights that training began with, by policy
 * @returns the rollout's part of the round's report
 */
export async function roundRollout(
  db: Pick<Db, 'query'>,
  { rollout_id, episodes, groups, partial, staleness }: RolloutResult,
  starts: Readonly<Record<string, string>>,
): Promise<RoundRollout> {
  const taken = new Set(episodes);
  const answered = await answeredBy(db, rollout_id);
  const named = answered.filter(({ episode_id, checkpoint_id }) => taken.has(episode_id) && checkpoint_id !== null);
  const known = new Set(named.map(({ episode_id }) => episode_id));
  // A policy that does not learn here cannot be off-policy.
  const stale = new Set(
    named.flatMap(({ episode_id, policy, checkpoint_id }) =>
      (starts[policy] ?? checkpoint_id) === checkpoint_id ? [] : [episode_id],
    ),
  );
  return {
    rollout_id,
    episodes: taken.size,
    groups,
    left_out: reasons(partial),
    withheld: staleness.withheld.length,
    stale: stale.size,
    unknown: taken.size - known.size,
  };
}

/** The rollouts of all iterations of a round, and their branches, as one; each has the part of a rollout's id that they share. Pure. */
export function wholeRollout(parts: readonly RoundRollout[]): RoundRollout {
  const sum = (of: (part: RoundRollout) => number) => parts.reduce((total, part) => total + of(part), 0);
  return {
    rollout_id: sharedId(parts.map(({ rollout_id }) => rollout_id)),
    episodes: sum(({ episodes }) => episodes),
    groups: { complete: sum(({ groups }) => groups.complete), partial: sum(({ groups }) => groups.partial) },
    left_out: counted(parts.flatMap(({ left_out }) => left_out)),
    withheld: sum(({ withheld = 0 }) => withheld),
    stale: sum(({ stale }) => stale),
    unknown: sum(({ unknown }) => unknown),
    ...writtenIn(parts.flatMap(({ written }) => written ?? [])),
  };
}

function writtenIn(all: readonly NonNullable<RoundRollout['written']>[]): Pick<RoundRollout, 'written'> {
  if (all.length === 0) return {};
  const left_out: Record<string, number> = {};
  for (const one of all)
    for (const [why, count] of Object.entries(one.left_out)) left_out[why] = (left_out[why] ?? 0) + count;
  const sum = (of: 'episodes' | 'tasks') => all.reduce((total, one) => total + one[of], 0);
  return { written: { episodes: sum('episodes'), tasks: sum('tasks'), left_out } };
}

/** The id of the first rollout, with a star in the place of its iteration where there are several. */
function sharedId(ids: readonly string[]): string {
  const first = ids[0]!;
  const plain = ids.filter((id) => id.endsWith('/rollout'));
  return plain.length > 1 ? first.replace(/[^/]+\/rollout$/, '*/rollout') : first;
}

/** The same in a sentence. Pure. */
export function rolloutText({
  rollout_id,
  episodes,
  groups,
  left_out,
  withheld,
  stale,
  unknown,
  written,
}: RoundRollout): string {
  const parts = [`Rollout ${rollout_id}: ${countText(groups.complete, 'group')} complete`];
  if (written !== undefined)
    parts.push(
      `${countText(written.tasks, 'task')} written by ${countText(written.episodes, 'episode')}${Object.keys(written.left_out).length === 0 ? '' : ` (${countsText(written.left_out)})`}`,
    );
  if (withheld) parts.push(`${countText(withheld, 'episode')} withheld, whose weights are too many releases behind`);
  if (groups.partial > 0) parts.push(`${groups.partial} partial and left out (${reasonsText(left_out)})`);
  parts.push(`stale: ${stale} of ${countText(episodes, 'episode')}`);
  if (unknown > 0) parts.push(`unknown which weights answered: ${unknown} of ${episodes}`);
  return `${parts.join('; ')}.`;
}

/** The reasons of all partial groups together, the most frequent first. */
const reasons = (partial: RolloutResult['partial']): RoundRollout['left_out'] =>
  counted(partial.flatMap(({ why }) => why));

function counted(all: RoundRollout['left_out']): RoundRollout['left_out'] {
  const found = new Map<string, RoundRollout['left_out'][number]>();
  for (const { code, message, samples } of all) {
    const known = found.get(code);
    found.set(code, { code, message: known?.message ?? message, samples: samples + (known?.samples ?? 0) });
  }
  return [...found.values()].sort((a, b) => b.samples - a.samples);
}

const reasonsText = (why: RoundRollout['left_out']): string =>
  why.map(({ code, message, samples }) => `${countText(samples, 'sample')} ${code}: ${message}`).join(' ');
