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

import { Type } from 'typebox';
import type { StepFacts } from '../../judging/facts.ts';
import { agentRewardsOf, EARNED } from '../../judging/named-feedback.ts';
import { creditByAgent } from '../../judging/reward-groups.ts';
import { VERL_PARAMS, verlAdvantage } from '../group-relative.ts';
import { method } from '../method.ts';
import { AgentSteps } from '../shapes.ts';
import { groupRows } from '../statistics.ts';

type RewardTaken = 'own' | 'team' | 'mixed';
/** `reward`: what the judge takes as the reward of a step. */
const params: typeof VERL_PARAMS & typeof EARNED & { reward: RewardTaken } = {
  ...VERL_PARAMS,
  reward: 'own',
  ...EARNED,
};

export const drmasAdvantage = method({
  name: 'drmas_advantage',
  kind: 'credit',
  source: 'Dr. MAS: langfengQ/DrMAS, core_algos.py and ray_trainer.py; verified (code)',
  version: 3,
  summary: 'GRPO within each query and agent; every step of the agent is one sample.',
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
