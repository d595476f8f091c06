/** Rewards and credit of agents that act side by side: joint rewards, local rewards, turns of players. */

import { groupBy } from '../methods/statistics.ts';
import type { Assemble, Assemblers } from './assembler.ts';
import { type StepFacts, stepKey } from './facts.ts';
import { credit, type Judgement, reward } from './judgement.ts';
import { listsOn, numbersOn, ownRewardsOf } from './named-feedback.ts';
import { answerTo, noSteps, onwardOf, overEpisodes, overGroups } from './over-episodes.ts';
import { mixedIn } from './policy-versions.ts';

/**
 * MAGRPO's crossed form: each agent has one call with the same number of candidates; `joint_rewards` on the episode has an entry for
 * every combination of them, the agent that spoke first being the slowest to change.
 */
const byCombination: Assemble = (method, params, facts) => {
  const joint = listsOn(facts.feedback, 'episode', 'joint_rewards');
  return overEpisodes(method, facts, ({ episode_id }, steps) => {
    const rewards = joint.get(stepKey(episode_id, ''));
    if (rewards === undefined) return 'no_joint_rewards';
    const agents = [...groupBy(steps, (step) => step.agent ?? '').values()];
    if (agents.some((own) => own.some((step) => step.call_id !== own[0]!.call_id))) return 'several_calls';
    const k = agents[0]!.length;
    if (agents.some((own) => own.length !== k)) return 'uneven_candidates';
    if (rewards.length !== k ** agents.length) return 'uneven_joint_rewards';
    const input = { k, agents: agents.length, rewards, ...params };
    const output = answerTo<{ sums: number[]; advantages: number[] }[]>(method, input);
    if (typeof output === 'string') return output;
    return agents.flatMap((own, a) =>
      own.map((step, i) => credit(step, output[a]!.advantages[i]!, null, { sum: output[a]!.sums[i]! })),
    );
  });
};

/**
 * CoMAM: the trajectories are the episodes of a group. An agent's own reward in one is feedback on the agent, else the mean of what its
 * steps earned. A trajectory that lacks one of them leaves the ranking. The agent's reward is copied to its steps; its agreement
 * and weight stand beside it.
 */
const byRanking: Assemble = (method, params, facts) => {
  const ownReward = ownRewardsOf(facts);
  const ofAgent = facts.ownRewards ? new Map<string, number>() : numbersOn(facts.feedback, 'agent', 'reward');
  const local = (episode: string, agent: string, steps: readonly StepFacts[]) => {
    const said = ofAgent.get(stepKey(episode, agent));
    if (said !== undefined) return said;
    const known = steps.filter((step) => (step.agent ?? '') === agent).flatMap((step) => ownReward(step) ?? []);
    return known.length === 0 ? null : known.reduce((sum, one) => sum + one, 0) / known.length;
  };
  return overGroups(method, facts, (members) => {
    const agents = [...new Set(members.flatMap(({ steps }) => steps.map(({ agent }) => agent ?? '')))].sort();
    const rows = members.map((member) => ({
      ...member,
      own: agents.map((agent) => local(member.episode.episode_id, agent, member.steps)),
    }));
    const complete = rows.filter(({ episode, own }) => episode.reward !== null && !own.includes(null));
    type Output = Record<'ndcg' | 'weight', Record<string, number>> & { reward: Record<string, number[]> };
    const output = answerTo<Output>(method, {
      global: complete.map(({ episode }) => episode.reward),
      local: Object.fromEntries(agents.map((agent, a) => [agent, complete.map(({ own }) => own[a])])),
      ...params,
    });
    if (typeof output === 'string') return output;
    return rows.flatMap((row): Judgement[] => {
      const at = complete.indexOf(row);
      const reason = row.episode.reward === null ? 'missing_reward' : 'no_local_reward';
      if (row.steps.length === 0) return [noSteps(row.episode)];
      return row.steps.map((step) => {
        const agent = step.agent ?? '';
        return at < 0
          ? reward(step, null, reason)
          : reward(step, output.reward[agent]![at]!, null, { ndcg: output.ndcg[agent], weight: output.weight[agent] });
      });
    });
  });
};

const gameOf = (tags: Readonly<Record<string, unknown>> | null): string | null =>
  typeof tags?.game === 'string' ? tags.game : null;

/**
 * MARS: a trajectory is what one agent did in one episode, its turns are the steps that the episode went on from. The game is the tag
 * `game` of the episode, or of its task. The source's batch is the group, which is what is compared with each other: a mean over
 * whatever is judged together would change with the order of work.
 */
const byPlayer: Assemble = (method, params, facts) => {
  const ownReward = ownRewardsOf(facts);
  const mixed = mixedIn(facts);
  return overGroups(method, facts, (members) => {
    const trajectories = members.flatMap(({ episode, steps }) => {
      const onward = onwardOf(steps);
      const tag = gameOf(episode.tags) ?? gameOf(episode.task_tags);
      return [...groupBy(onward, (step) => step.agent ?? '')].map(([player, turns]) => ({
        turns,
        known: turns.every((step) => ownReward(step) !== null),
        input: {
          id: stepKey(episode.episode_id, player),
          player,
          ...(tag === null ? {} : { tag }),
          turn_rewards: turns.map(ownReward),
        },
      }));
    });
    const known = trajectories.filter((trajectory) => trajectory.known);
    const output = answerTo<Record<string, number[]>>(method, {
      trajectories: known.map(({ input }) => input),
      ...params,
    });
    if (typeof output === 'string') return output;
    const said = new Map<StepFacts, Judgement>();
    for (const { turns, known, input } of trajectories) {
      for (const [i, step] of turns.entries()) {
        const reason = mixed(step.episode_id) ? 'mixed_policies' : null;
        said.set(step, known ? credit(step, output[input.id]![i]!, reason) : credit(step, null, 'missing_reward'));
      }
    }
    return members.flatMap(({ episode, steps }) =>
      steps.length === 0 ? [noSteps(episode)] : steps.map((step) => said.get(step) ?? credit(step, null, 'not_chosen')),
    );
  });
};

const writes = ['credits', 'scores'] as const;
const reads = ['feedback'] as const;
export const AGENT_ASSEMBLERS: Assemblers = {
  'joint rewards': { credit: { over: byCombination, reads, writes } },
  'team and local rewards by group': { reward: { over: byRanking, reads, writes: ['rewards', 'scores'] } },
  'turn rewards by player': { credit: { over: byPlayer, reads, writes } },
};
