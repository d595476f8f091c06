/** Dr. MAS (langfengQ/DrMAS): each agent is compared with itself, and ours after it. */

import { type Static, Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { groupOf, type StepFacts } from '../judging/facts.ts';
import { score } from '../judging/judgement.ts';
import { agentRewardsOf, EARNED } from '../judging/named-feedback.ts';
import { creditByAgent } from '../judging/reward-groups.ts';
import { groupFlags } from './group-flags.ts';
import { VERL_PARAMS, verlAdvantage } from './group-relative.ts';
import { method } from './method.ts';
import { AgentSteps, type Immutable } from './shapes.ts';
import { groupRows, groupStatistics, mean, standardDeviation } from './statistics.ts';

/** `reward`: what the judge takes as the reward of a step. */
const params: typeof VERL_PARAMS & typeof EARNED & { reward: 'own' | 'team' | 'mixed' } = {
  ...VERL_PARAMS,
  reward: 'own',
  ...EARNED,
};

/**
 * Dr. MAS: each agent's steps are compared with the same agent's steps on the same query, so that agents with other reward scales
 * do not drown each other.
 *
 * Source: langfengQ/DrMAS, verl/trainer/ppo/core_algos.py and ray_trainer.py, option group_by_agent_id. Verified (code).
 * Kept: every step of an agent is a sample, so one that acts more often weighs more in its own statistics; ddof 1; a group of one
 * as in verl's GRPO. A null reward has a null advantage.
 * In a judging the reward of a step is the agent's own where it was recorded (on the step, else on the agent), else the team's, which is
 * that of the episode; `reward: "team"` takes the team's alone, `"mixed"` adds the agent's own to it. `reward_name` is the name that the
 * agent's own was recorded under.
 * Dropped: the spread over tokens. Open: nothing known.
 * Version 3 gives a candidate that the episode did not go on from no credit of the episode.
 */
export const drmasAdvantage = method({
  name: 'drmas_advantage',
  kind: 'credit',
  source: 'Dr. MAS: langfengQ/DrMAS, core_algos.py and ray_trainer.py; verified (code)',
  version: 3,
  summary: 'GRPO within each query and agent; every step of the agent is one sample.',
  teams: 'several agents',
  params,
  limits: {
    eps: Type.Number({ minimum: 0 }),
    reward: Type.Union([Type.Literal('own'), Type.Literal('team'), Type.Literal('mixed')]),
  },
  input: Type.Object({ steps: AgentSteps }),
  run: ({ steps }, params): (number | null)[] =>
    verlAdvantage(
      groupRows(
        steps.map(({ query }) => query),
        steps.map(({ agent }) => agent),
      ),
      steps.map(({ reward }) => reward),
      params,
    ),
  judged: {
    reads: ['rewards', 'feedback'],
    rows: (facts, ask) => {
      const { episodes, steps, rewardOf: teamReward } = facts;
      // Rewards of another method stand for all that is recorded.
      const ownReward = facts.ownRewards ? () => null : agentRewardsOf(facts, ask.params);
      const rewardOf = {
        own: (step: StepFacts) => ownReward(step) ?? teamReward(step),
        team: teamReward,
        mixed: (step: StepFacts) => added(teamReward(step), ownReward(step)),
      }[ask.params.reward];
      return creditByAgent({ episodes, steps, rewardOf }, ask.run);
    },
  },
});

/** An agent without a reward of its own has the team's; a team without one has none to add to. */
const added = (team: number | null, own: number | null): number | null => (team === null ? null : team + (own ?? 0));

/**
 * The baseline that Dr. MAS compares itself with: one advantage for a whole trajectory, whoever acted in it.
 *
 * Source: langfengQ/DrMAS, verl/trainer/ppo/core_algos.py. Verified (code).
 * Kept: a trajectory is worth the average of its steps' rewards; statistics over the trajectories of the query, ddof 1.
 * A null reward has a null advantage and no part in its trajectory's average.
 * Dropped: the spread over tokens. Open: nothing known.
 * Version 2 gives a candidate that was passed over no credit, and flags trajectories; before, a step of an agent that acted once was flagged although its trajectory was compared.
 */
export const multiagentGrpoAdvantage = method({
  name: 'multiagent_grpo_advantage',
  kind: 'credit',
  source: 'Dr. MAS baseline: langfengQ/DrMAS, core_algos.py; verified (code)',
  version: 2,
  summary: 'GRPO over the average step reward of each trajectory; all its steps get the same value.',
  teams: 'several agents',
  params: VERL_PARAMS,
  limits: { eps: Type.Number({ minimum: 0 }) },
  input: Type.Object({ steps: AgentSteps }),
  run: ({ steps }, params): (number | null)[] => {
    const { of, query, worth } = trajectoriesOf(steps);
    const advantages = verlAdvantage(groupRows(query), worth, params);
    return steps.map(({ reward }, step) => (reward === null ? null : advantages[of[step]!]!));
  },
  judged: {
    reads: ['rewards'],
    rows: (facts, ask) =>
      creditByAgent(facts, ask.run, (steps) => {
        const { of, query, worth } = trajectoriesOf(steps);
        const flags = groupFlags(query, worth);
        return steps.map(({ reward }, step) => (reward === null ? 'missing_reward' : flags[of[step]!]!));
      }),
  },
});

/** The trajectory of each step; the query of each trajectory, and the average of its steps’ rewards, null where none has one. */
function trajectoriesOf(steps: Immutable<Static<typeof AgentSteps>>) {
  const queries = steps.map(({ query }) => query);
  const trajectories = groupRows(
    queries,
    steps.map(({ traj }) => traj),
  );
  const { size, mean } = groupStatistics(
    trajectories,
    steps.map(({ reward }) => reward),
    1,
  );
  const query: (string | number)[] = new Array(trajectories.count);
  trajectories.numbers.forEach((trajectory, step) => {
    query[trajectory] = queries[step]!;
  });
  const worth = Array.from(mean, (value, trajectory) => (size[trajectory] === 0 ? null : value));
  return { of: trajectories.numbers, query, worth };
}

/**
 * How much one normalisation for the whole team would inflate or damp each agent's gradients.
 *
 * Source: Dr. MAS (langfengQ/DrMAS), derived from the argument of its abstract; unverified. For an agent with mean μ_k and std σ_k, against the
 * team's μ and σ (all ddof 0): (σ_k² + (μ_k − μ)²) / σ². 1 for a well-scaled agent. Null where the team's rewards do not vary, or the agent
 * has none. Steps without a reward are left out.
 * Kept: the ratio of squared scales. Dropped: nothing. Open: ddof, which is 0 here.
 */
export const drmasScaleRatio = method({
  name: 'drmas_scale_ratio',
  kind: 'score',
  source: 'Dr. MAS: langfengQ/DrMAS; derived, unverified',
  version: 1,
  summary: 'For each agent, how far normalising over the whole team misjudges the size of its gradients.',
  teams: 'several agents',
  input: Type.Object({ steps: AgentSteps }),
  run: ({ steps }): Record<string, number | null> => {
    const rewards = known(steps);
    const [centre, deviation] = [mean(rewards), standardDeviation(rewards, 0)];
    const ratioOf = (own: readonly number[]) =>
      own.length === 0 || deviation === 0
        ? null
        : (standardDeviation(own, 0) ** 2 + (mean(own) - centre) ** 2) / deviation ** 2;
    return Object.fromEntries(
      [...groupBy(steps, ({ agent }) => String(agent))].map(([agent, own]) => [agent, ratioOf(known(own))]),
    );
  },
  judged: {
    reads: ['rewards'],
    /**
     * A number for each agent of a group stands in the detail. The value is that of the agent that is furthest above: the one whose
     * gradients the team's own scale would inflate most.
     */
    rows: ({ episodes, steps, rewardOf }, ask) => {
      const own = groupBy(steps, (step) => step.episode_id);
      return [...groupBy(episodes, groupOf)].map(([group, members]) => {
        const rows = members.flatMap(({ episode_id }) =>
          (own.get(episode_id) ?? []).map((step) => ({
            query: group,
            traj: episode_id,
            agent: step.agent ?? '',
            reward: rewardOf(step),
          })),
        );
        if (rows.length === 0) return score(`g/${group}`, null, 'no_steps');
        if (rows.every(({ reward }) => reward === null)) return score(`g/${group}`, null, 'missing_reward');
        const output = ask.answer({ steps: rows });
        if (typeof output === 'string') return score(`g/${group}`, null, output);
        const known = Object.values(output).filter((ratio) => ratio !== null);
        return known.length === 0
          ? score(`g/${group}`, null, 'zero_variance', output)
          : score(`g/${group}`, Math.max(...known), null, output);
      });
    },
  },
});

function known(steps: Immutable<Static<typeof AgentSteps>>): number[] {
  return steps.flatMap(({ reward }) => (reward === null ? [] : [reward]));
}

/**
 * Each agent's steps against the same agent's steps on the same query, with a floor under the std.
 *
 * Source: ours, after Dr. MAS (langfengQ/DrMAS, verl/trainer/ppo/core_algos.py, option group_by_agent_id). It differs in this:
 * - The divisor is max(std, floor) instead of std + eps. With a small group whose rewards nearly agree, Dr. MAS blows a difference
 *   of a hundredth up to a full advantage; with the floor such a group is nearly silent.
 * - std with ddof 0, and a group of one is its own mean, so that its advantage is 0 and not its reward.
 * A null reward has a null advantage and no part in the statistics.
 * Version 2 gives a candidate that the episode did not go on from no credit of the episode.
 */
export const flooredAdvantage = method({
  name: 'floored_advantage',
  kind: 'credit',
  source: 'ours, after Dr. MAS (langfengQ/DrMAS, core_algos.py)',
  version: 2,
  summary: 'Reward minus the mean of its query and agent, divided by the larger of the std and a floor.',
  teams: 'several agents',
  params: { floor: 0.1 },
  limits: { floor: Type.Number({ exclusiveMinimum: 0 }) },
  input: Type.Object({ steps: AgentSteps }),
  run: ({ steps }, { floor }): (number | null)[] => {
    const groups = groupRows(
      steps.map(({ query }) => query),
      steps.map(({ agent }) => agent),
    );
    const rewards = steps.map(({ reward }) => reward);
    const { mean, deviation } = groupStatistics(groups, rewards, 0);
    return rewards.map((reward, step) => {
      const group = groups.numbers[step]!;
      return reward === null ? null : (reward - mean[group]!) / Math.max(deviation[group]!, floor);
    });
  },
  judged: {
    reads: ['rewards'],
    rows: (facts, ask) => creditByAgent(facts, ask.run),
  },
});
