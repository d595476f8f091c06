/**
 * From rewards, by whatever they are compared within, to filters of episodes and credit of steps. Flags of sizes and spreads come before
 * doubts about the group: where they are set there is no signal to doubt.
 */

import { groupBy } from '../../../ingest/events/group-by.ts';
import { type GroupFlag, groupFlags } from '../methods/group-flags.ts';
import { type EpisodeFacts, groupOf, type StepFacts } from './facts.ts';
import { doubtOf, partialGroups } from './group-doubts.ts';
import { credit, type Judgement, verdictOn } from './judgement.ts';
import type { MethodFacts } from './method-facts.ts';
import { passedOver } from './over-episodes.ts';
import { mixedPolicies } from './policy-versions.ts';
import { familiesOf } from './replay-trees.ts';
import { tagged } from './replays.ts';

type Reward = number | null;

/**
 * GRPO and its like: an episode is a sample, and its credit goes to each step that it went on from. Where the rewards of another method are
 * read each step is a sample.
 */
export function creditByGroup(
  { episodes, steps, rewardOf, ownRewards }: MethodFacts,
  credited: (rows: { readonly group: readonly string[]; readonly reward: readonly Reward[] }) => readonly Reward[],
): Judgement[] {
  const at = episodeOf(episodes, steps);
  const names = episodes.map(groupOf);
  const group = ownRewards ? steps.map((_, i) => names[at[i]!]!) : names;
  const reward = ownRewards ? steps.map(rewardOf) : episodes.map((episode) => episode.reward);
  const values = credited({ group, reward });
  const flags = groupFlags(group, reward);
  const partial = partialGroups(episodes);
  const mixed = mixedPolicies(steps, (i) => names[at[i]!]!);
  const over = ownRewards ? null : passedOver(steps);
  return steps.map((step, i) => {
    if (over?.has(step)) return credit(step, null, 'not_chosen');
    const sample = ownRewards ? i : at[i]!;
    return credit(
      step,
      values[sample] ?? null,
      flags[sample] ?? doubtOf(partial.has(names[at[i]!]!), mixed.has(names[at[i]!]!)),
    );
  });
}

/** The place of each step's episode. Steps come by episode, so that one look is enough for all of an episode. */
function episodeOf(episodes: readonly EpisodeFacts[], steps: readonly StepFacts[]): Int32Array {
  const places = new Map(episodes.map((episode, i) => [episode.episode_id, i]));
  const at = new Int32Array(steps.length);
  let last: string | null = null;
  let place = 0;
  for (const [i, { episode_id }] of steps.entries()) {
    if (episode_id !== last) {
      last = episode_id;
      place = places.get(episode_id)!;
    }
    at[i] = place;
  }
  return at;
}

type AgentStep = { readonly query: string; readonly traj: string; readonly agent: string; readonly reward: Reward };

/**
 * Dr. MAS and its like: each step is a sample of its agent. A copied one is a sample of the episode that it was copied from. `flagged` says
 * what is wrong with the signal where the samples are others.
 */
export function creditByAgent(
  { episodes, steps: all, rewardOf }: Pick<MethodFacts, 'episodes' | 'steps' | 'rewardOf'>,
  credited: (rows: { readonly steps: readonly AgentStep[] }) => readonly Reward[],
  flagged = flagsByAgent,
): Judgement[] {
  const [steps, copies] = [all.filter(({ copied }) => !copied), all.filter(({ copied }) => copied)];
  const at = episodeOf(episodes, steps);
  const names = episodes.map(groupOf);
  const query = steps.map((_, i) => names[at[i]!]!);
  const rows = steps.map((step, i) => ({
    query: query[i]!,
    traj: step.episode_id,
    agent: step.agent ?? '',
    reward: rewardOf(step),
  }));
  const values = credited({ steps: rows });
  const flags = flagged(rows);
  const partial = partialGroups(episodes);
  const mixed = mixedPolicies(steps, (i) => query[i]!);
  const over = passedOver(steps);
  return [
    ...steps.map((step, i) =>
      credit(
        step,
        values[i] ?? null,
        unrewarded(over, step, rows[i]!) ?? flags[i] ?? doubtOf(partial.has(query[i]!), mixed.has(query[i]!)),
      ),
    ),
    ...copies.map((step) => credit(step, null, 'copied')),
  ];
}

/** Why a step has no reward: nobody went on from it, and it has none of its own. */
const unrewarded = (
  over: ReadonlySet<StepFacts>,
  step: StepFacts,
  { reward }: { readonly reward: Reward },
): 'not_chosen' | null => (reward === null && over.has(step) ? 'not_chosen' : null);

function flagsByAgent(steps: readonly AgentStep[]): readonly (GroupFlag | null)[] {
  return groupFlags(
    [steps.map(({ query }) => query), steps.map(({ agent }) => agent)],
    steps.map(({ reward }) => reward),
  );
}

type TurnStep = { readonly env: string; readonly turn: number; readonly agent: string; readonly reward: Reward };

type InTurn = TurnStep & { readonly step: StepFacts; readonly group: string };

/**
 * AT-GRPO: the environment is the recorded one, else the group; without a turn nobody knows which prompt a step answered. In a tree that grew by
 * replays it is the step that the tree went on from: all that hangs from it answered one prompt, and a step is worth the mean reward of the
 * episodes that went through it.
 */
export function creditByEnvironment(
  facts: Pick<MethodFacts, 'episodes' | 'steps' | 'rewardOf'>,
  credited: (rows: { readonly steps: readonly TurnStep[] }) => readonly Reward[],
): Judgement[] {
  const { rows, without } = facts.episodes.some((episode) => tagged(episode, 'replay_of') !== null)
    ? inTrees(facts)
    : inTurns(facts);
  const values = credited({ steps: rows.map(({ env, turn, agent, reward }) => ({ env, turn, agent, reward })) });
  const envs = rows.map(({ env }) => env);
  const flags = groupFlags(
    [envs, rows.map(({ turn }) => turn), rows.map(({ agent }) => agent)],
    rows.map(({ reward }) => reward),
  );
  const partial = partialGroups(facts.episodes);
  const mixed = mixedPolicies(
    rows.map(({ step }) => step),
    (i) => envs[i]!,
  );
  const over = passedOver(facts.steps);
  return [
    ...rows.map((row, i) =>
      credit(
        row.step,
        values[i] ?? null,
        unrewarded(over, row.step, row) ?? flags[i] ?? doubtOf(partial.has(row.group), mixed.has(row.env)),
      ),
    ),
    ...without,
  ];
}

type Turns = { readonly rows: readonly InTurn[]; readonly without: readonly Judgement[] };

function inTurns({ episodes, steps: all, rewardOf }: Pick<MethodFacts, 'episodes' | 'steps' | 'rewardOf'>): Turns {
  const steps = all.filter(({ turn }) => turn !== null);
  const at = episodeOf(episodes, steps);
  const groups = episodes.map(groupOf);
  return {
    rows: steps.map((step, i) => {
      const group = groups[at[i]!]!;
      const env = episodes[at[i]!]!.env_id ?? group;
      return { step, group, env, turn: step.turn!, agent: step.agent ?? '', reward: rewardOf(step) };
    }),
    without: all.filter(({ turn }) => turn === null).map((step) => credit(step, null, 'no_turn')),
  };
}

function inTrees(facts: Pick<MethodFacts, 'episodes' | 'steps' | 'rewardOf'>): Turns {
  const own = groupBy(facts.steps, ({ episode_id }) => episode_id);
  const parts = familiesOf(facts).map(({ members, changed, grown }): Turns => {
    const steps = members.flatMap(({ episode_id }) => own.get(episode_id) ?? []);
    const without = changed
      .flatMap(({ episode_id }) => own.get(episode_id) ?? [])
      .map((step) => credit(step, null, 'intervened'));
    if (grown === null || !members.some((episode) => tagged(episode, 'replay_of') !== null)) {
      const alone = inTurns({ ...facts, episodes: members, steps });
      return { rows: alone.rows, without: [...alone.without, ...without] };
    }
    const groups = new Map(members.map((episode) => [episode.episode_id, groupOf(episode)]));
    const root = groups.get(grown.episode.episode_id)!;
    return {
      rows: grown.steps.map((step) => ({
        step,
        group: groups.get(step.episode_id)!,
        env: step.parent_step_id ?? root,
        turn: 0,
        agent: step.agent ?? '',
        reward: grown.rewardThrough(step),
      })),
      without: [...without, ...steps.filter(({ copied }) => copied).map((step) => credit(step, null, 'copied'))],
    };
  });
  return { rows: parts.flatMap(({ rows }) => rows), without: parts.flatMap(({ without }) => without) };
}

/** A verdict on each episode: `kept` are the places of those that the filter keeps, `known` the rewards that it was given. */
export function verdictsByReward(
  episodes: readonly EpisodeFacts[],
  known: readonly Reward[],
  kept: readonly number[],
): Judgement[] {
  const keeps = new Set(kept);
  const flags: readonly (GroupFlag | null)[] = groupFlags(
    episodes.map(groupOf),
    episodes.map((episode) => episode.reward),
  );
  return episodes.map((episode, i) => {
    if (episode.reward === null) return verdictOn(episode, null, 'missing_reward');
    if (known[i] === null) return verdictOn(episode, null, 'reward_not_binary');
    return keeps.has(i) ? verdictOn(episode, true, null) : verdictOn(episode, false, flags[i] ?? 'dropped');
  });
}
