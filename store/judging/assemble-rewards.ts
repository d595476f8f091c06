/** From rewards, by whatever they are compared within, to filters of episodes and credit of steps. */
import { groupFlags } from '../methods/group-flags.ts';
import { runMethod } from '../methods/run.ts';
import type { Assemble, Assemblers } from './assembler.ts';
import { type EpisodeFacts, groupOf, type StepFacts } from './facts.ts';
import { credit } from './judgement.ts';
import { mixedPolicies } from './policy-versions.ts';

/**
 * GRPO and its like: an episode is a sample, and its credit goes to each of its steps. Where the rewards of another method are read
 * each step is a sample.
 */
const byGroup: Assemble = (method, params, { episodes, steps, rewardOf, ownRewards }) => {
  const at = episodeOf(episodes, steps);
  const names = episodes.map(groupOf);
  const group = ownRewards ? steps.map((_, i) => names[at[i]!]!) : names;
  const reward = ownRewards ? steps.map(rewardOf) : episodes.map((episode) => episode.reward);
  const values = runMethod(method, { group, reward, ...params }) as (number | null)[];
  const flags = groupFlags(group, reward);
  const mixed = mixedPolicies(steps, (i) => names[at[i]!]!);
  return steps.map((step, i) => {
    const sample = ownRewards ? i : at[i]!;
    return credit(step, values[sample] ?? null, flags[sample] ?? flagOf(mixed.has(names[at[i]!]!)));
  });
};

/** Group sizes and spreads come first: where they are flagged there is no signal to doubt. */
const flagOf = (mixed: boolean) => (mixed ? 'mixed_policies' : null);

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

/** A filter over rewards keeps or drops whole episodes. One that wants outcomes of 0 and 1 knows nothing of other rewards. */
const episodesByReward: Assemble = (method, params, { episodes }) => {
  const groups = episodes.map(groupOf);
  const rewards = episodes.map((episode) => episode.reward);
  const binary = Object.hasOwn((method.input as { properties: object }).properties, 'outcome');
  const known = binary ? rewards.map((reward) => (reward === 0 || reward === 1 ? reward : null)) : rewards;
  const input = { group: groups, [binary ? 'outcome' : 'reward']: known, ...params };
  const kept = new Set(runMethod(method, input) as number[]);
  const flags = groupFlags(groups, rewards);
  return episodes.map(({ episode_id }, i) => {
    const verdict = { table: 'verdicts', episode_id, step_id: '' } as const;
    if (rewards[i] === null) return { ...verdict, keep: null, reason: 'missing_reward' };
    if (known[i] === null) return { ...verdict, keep: null, reason: 'reward_not_binary' };
    return kept.has(i)
      ? { ...verdict, keep: true, reason: null }
      : { ...verdict, keep: false, reason: flags[i] ?? 'dropped' };
  });
};

/** Dr. MAS and its like: each step is a sample of its agent. */
const byGroupAndAgent: Assemble = (method, params, { episodes, steps, rewardOf }) => {
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
  const values = runMethod(method, { steps: rows, ...params }) as (number | null)[];
  const flags = groupFlags([query, agents], rewards);
  const mixed = mixedPolicies(steps, (i) => query[i]!);
  return steps.map((step, i) => credit(step, values[i] ?? null, flags[i] ?? flagOf(mixed.has(query[i]!))));
};

/** AT-GRPO: the environment is the recorded one, else the group. Without a turn nobody knows which prompt a step answered. */
const byEnvironment: Assemble = (method, params, { episodes, steps: all, rewardOf }) => {
  const steps = all.filter(({ turn }) => turn !== null);
  const at = episodeOf(episodes, steps);
  const names = episodes.map((episode) => episode.env_id ?? groupOf(episode));
  const env = steps.map((_, i) => names[at[i]!]!);
  const turns = steps.map(({ turn }) => turn!);
  const agents = steps.map(({ agent }) => agent ?? '');
  const rewards = steps.map(rewardOf);
  const rows = steps.map((_, i) => ({ env: env[i]!, turn: turns[i]!, agent: agents[i]!, reward: rewards[i]! }));
  const values = runMethod(method, { steps: rows, ...params }) as (number | null)[];
  const flags = groupFlags([env, turns, agents], rewards);
  const mixed = mixedPolicies(steps, (i) => env[i]!);
  return [
    ...steps.map((step, i) => credit(step, values[i] ?? null, flags[i] ?? flagOf(mixed.has(env[i]!)))),
    ...all.filter(({ turn }) => turn === null).map((step) => credit(step, null, 'no_turn')),
  ];
};

export const REWARD_ASSEMBLERS: Assemblers = {
  'rewards by group': { filter: { over: episodesByReward }, credit: { over: byGroup } },
  // TRL can scale by the std of the whole batch, and normalise over it: its batch is everything that is judged together.
  'rewards of a batch': {
    credit: {
      over: byGroup,
      scope: (params) => (params.scale === 'group' && params.combine !== 'normalize_then_sum' ? 'group' : 'set'),
    },
  },
  'rewards by group and agent': { credit: { over: byGroupAndAgent } },
  'rewards by environment, turn and agent': { credit: { over: byEnvironment } },
};
