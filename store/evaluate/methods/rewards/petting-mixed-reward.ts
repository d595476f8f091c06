/**
 * AT-GRPO's reward: what the team earned, weighted, plus what the agent earned itself.
 *
 * Source: PettingLLMs, trainer and environment code. The mixture rule is secondary. An agent without a local reward has none.
 * Kept: α 1. Dropped: how team and local rewards are found. Open: the mixture rule.
 */

import { Type } from 'typebox';
import { stepKey } from '../../judging/facts.ts';
import { reward } from '../../judging/judgement.ts';
import { EARNED, numbersOn, ownRewardsOf } from '../../judging/named-feedback.ts';
import { along, overEpisodes } from '../../judging/over-episodes.ts';
import { method } from '../method.ts';
import { Reward } from '../shapes.ts';

export const pettingMixedReward = method({
  name: 'petting_mixed_reward',
  kind: 'reward',
  source: 'AT-GRPO: PettingLLMs; mixture secondary',
  version: 1,
  summary: 'alpha times the team’s reward plus the agent’s own.',
  params: { alpha: 1, ...EARNED },
  input: Type.Object({ team: Type.Number(), local: Type.Array(Reward) }),
  run: ({ team, local }, { alpha }): (number | null)[] =>
    local.map((own) => (own === null ? null : alpha * team + own)),
  judged: {
    reads: ['rewards', 'feedback'],
    writes: ['rewards', 'scores'],
    /** AT-GRPO's mixture: the episode's reward for the team, and the step's own, or the one its agent was given for the whole episode. */
    rows: (facts, ask) => {
      const ownReward = ownRewardsOf(facts, ask.params);
      const ofAgent = numbersOn(facts.feedback, 'agent', ask.params.reward_name);
      return overEpisodes(facts, reward, (episode, steps) => {
        if (episode.reward === null) return 'missing_reward';
        const local = steps.map(
          (step) => ownReward(step) ?? ofAgent.get(stepKey(step.episode_id, step.agent ?? '')) ?? null,
        );
        const values = ask.answer({ team: episode.reward, local });
        return along(steps, steps, values, { none: 'no_local_reward', other: () => 'no_local_reward' });
      });
    },
  },
});
