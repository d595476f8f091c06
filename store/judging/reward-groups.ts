/**
 * From rewards, by whatever they are compared within, to filters of episodes and credit of steps. Flags of sizes and spreads come before
 * doubts about the group: where they are set there is no signal to doubt.
 */
import { type GroupFlag, groupFlags } from '../methods/group-flags.ts';
import type { Assembled } from './assembled.ts';
import { type EpisodeFacts, groupOf, type StepFacts } from './facts.ts';
import { doubtOf, partialGroups } from './group-doubts.ts';
import { credit, type Judgement, verdictOn } from './judgement.ts';
import { mixedPolicies } from './policy-versions.ts';

type Reward = number | null;

/**
 * GRPO and its like: an episode is a sample, and its credit goes to each of its steps. Where the rewards of another method are read
 * each step is a sample.
 */
export function creditByGroup(
  { episodes, steps, rewardOf, ownRewards }: Assembled,
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
  return steps.map((step, i) => {
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

/** Dr. MAS and its like: each step is a sample of its agent. */
export function creditByAgent(
  { episodes, steps, rewardOf }: Pick<Assembled, 'episodes' | 'steps' | 'rewardOf'>,
  credited: (rows: { readonly steps: readonly AgentStep[] }) => readonly Reward[],
): Judgement[] {
  const at = episodeOf(episodes, steps);
  const names = episodes.map(groupOf);
  const query = steps.map((_, i) => names[at[i]!]!);
  const agents = steps.map(({ agent }) => agent ?? '');
  const rewards = steps.map(rewardOf);
  const rows = steps.map(({ episode_id }, i) => ({
    query: query[i]!,
    traj: episode_id,
    agent: agents[i]!,
    reward: rewards[i]!,
  }));
  const values = credited({ steps: rows });
  const flags = groupFlags([query, agents], rewards);
  const partial = partialGroups(episodes);
  const mixed = mixedPolicies(steps, (i) => query[i]!);
  return steps.map((step, i) =>
    credit(step, values[i] ?? null, flags[i] ?? doubtOf(partial.has(query[i]!), mixed.has(query[i]!))),
  );
}

type TurnStep = { readonly env: string; readonly turn: number; readonly agent: string; readonly reward: Reward };

/** AT-GRPO: the environment is the recorded one, else the group. Without a turn nobody knows which prompt a step answered. */
export function creditByEnvironment(
  { episodes, steps: all, rewardOf }: Assembled,
  credited: (rows: { readonly steps: readonly TurnStep[] }) => readonly Reward[],
): Judgement[] {
  const steps = all.filter(({ turn }) => turn !== null);
  const at = episodeOf(episodes, steps);
  const groups = episodes.map(groupOf);
  const names = episodes.map((episode, i) => episode.env_id ?? groups[i]!);
  const env = steps.map((_, i) => names[at[i]!]!);
  const turns = steps.map(({ turn }) => turn!);
  const agents = steps.map(({ agent }) => agent ?? '');
  const rewards = steps.map(rewardOf);
  const rows = steps.map((_, i) => ({ env: env[i]!, turn: turns[i]!, agent: agents[i]!, reward: rewards[i]! }));
  const values = credited({ steps: rows });
  const flags = groupFlags([env, turns, agents], rewards);
  const partial = partialGroups(episodes);
  const mixed = mixedPolicies(steps, (i) => env[i]!);
  return [
    ...steps.map((step, i) =>
      credit(step, values[i] ?? null, flags[i] ?? doubtOf(partial.has(groups[at[i]!]!), mixed.has(env[i]!))),
    ),
    ...all.filter(({ turn }) => turn === null).map((step) => credit(step, null, 'no_turn')),
  ];
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
