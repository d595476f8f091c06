/**
 * Rewards a turn for agreeing with, or rising above, how good the chain was before it.
 *
 * Source: TsinghuaC3I/MARTI, marti/verifiers/auto_reward_alloc.py. Verified (code). Q is the mean of the earlier raw rewards; the
 * first turn is unchanged. quality: R + α(Q·R − (1−Q)(1−R)); margin: R + α(R − Q); `_with_outcome` adds β times the last raw reward
 * to all turns. This is the chain form: in a debate the source takes Q over all agents, in a mixture it leaves the first turn alone.
 * Kept: α = β = 0.5, the raw rewards in Q. Dropped: the forms for debates and mixtures. Open: nothing known.
 */

import { Type } from 'typebox';
import { reward } from '../../judging/judgement.ts';
import { EARNED, ownRewardsOf } from '../../judging/named-feedback.ts';
import { along, complete, onwardOf, overEpisodes } from '../../judging/over-episodes.ts';
import { method } from '../method.ts';

type Name = 'quality' | 'margin' | 'quality_with_outcome' | 'margin_with_outcome';
type Params = { name: Name; alpha: number; beta: number; reward_name: string };
const params: Params = { name: 'quality', alpha: 0.5, beta: 0.5, ...EARNED };

export const martiShaping = method({
  name: 'marti_shaping',
  kind: 'reward',
  source: 'MARTI: TsinghuaC3I/MARTI, verifiers/auto_reward_alloc.py; verified (code)',
  version: 1,
  summary: 'Shapes each turn’s reward by the mean reward of the turns before it.',
  params,
  limits: {
    name: Type.Union([
      Type.Literal('quality'),
      Type.Literal('margin'),
      Type.Literal('quality_with_outcome'),
      Type.Literal('margin_with_outcome'),
    ]),
  },
  input: Type.Object({ rewards: Type.Array(Type.Number()) }),
  run: ({ rewards }, { name, alpha, beta }): number[] => {
    const outcome = name.endsWith('_with_outcome') ? beta * (rewards.at(-1) ?? 0) : 0;
    let earlier = 0;
    return rewards.map((reward, turn) => {
      const quality = earlier / turn;
      earlier += reward;
      if (turn === 0) return reward + outcome;
      const shape = name.startsWith('quality') ? quality * reward - (1 - quality) * (1 - reward) : reward - quality;
      return reward + alpha * shape + outcome;
    });
  },
  judged: {
    reads: ['rewards', 'feedback'],
    writes: ['rewards', 'scores'],
    /** MARTI: the steps that the episode went on from are the chain; each must have a reward of its own. */
    rows: (facts, ask) => {
      const ownReward = ownRewardsOf(facts, ask.params);
      return overEpisodes(facts, reward, (_, steps) => {
        const chain = onwardOf(steps);
        const rewards = complete(chain.map(ownReward));
        if (rewards === null) return 'missing_reward';
        const values = ask.answer({ rewards });
        return along(steps, chain, values, { none: 'missing_reward', other: () => 'not_chosen' });
      });
    },
  },
});
