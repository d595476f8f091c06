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

import { Type } from 'typebox';
import { creditByAgent } from '../../judging/reward-groups.ts';
import { method } from '../method.ts';
import { AgentSteps } from '../shapes.ts';
import { groupRows, groupStatistics } from '../statistics.ts';

export const flooredAdvantage = method({
  name: 'floored_advantage',
  kind: 'credit',
  source: 'ours, after Dr. MAS (langfengQ/DrMAS, core_algos.py)',
  version: 2,
  summary: 'Reward minus the mean of its query and agent, divided by the larger of the std and a floor.',
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
