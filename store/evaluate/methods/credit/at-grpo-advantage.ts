/**
 * AT-GRPO: candidates are compared only with candidates of the same agent, in the same turn, of the same environment,
 * because only those answered the same prompt.
 *
 * Source: PettingLLMs, pettingllms/trainer/multi_agents_ppo_trainer.py. Verified (code).
 * Kept: verl's GRPO under the key (env, turn, agent). Needs every candidate of the tree, not only the chosen one.
 * Dropped: the mode without tree sampling (key env, last turns only), which is `grpo_advantage` on those rows.
 * Open: the source's own fork of verl gives a group of one the
 * advantage 0 where other groups are larger; here it is verl's, the reward.
 * Version 2 gives a candidate that the episode did not go on from no credit of the episode.
 */

import { Type } from 'typebox';
import { creditByEnvironment } from '../../judging/reward-groups.ts';
import { VERL_PARAMS, verlAdvantage } from '../group-relative.ts';
import { method } from '../method.ts';
import { Key, Reward } from '../shapes.ts';
import { groupRows } from '../statistics.ts';

export const atGrpoAdvantage = method({
  name: 'at_grpo_advantage',
  kind: 'credit',
  source: 'AT-GRPO: PettingLLMs, multi_agents_ppo_trainer.py; verified (code)',
  version: 2,
  summary: 'GRPO within each environment, turn and agent.',
  params: VERL_PARAMS,
  limits: { eps: Type.Number({ minimum: 0 }) },
  input: Type.Object({
    steps: Type.Array(Type.Object({ env: Key, turn: Key, agent: Key, reward: Reward })),
  }),
  run: ({ steps }, params): (number | null)[] =>
    verlAdvantage(
      groupRows(
        steps.map(({ env }) => env),
        steps.map(({ turn }) => turn),
        steps.map(({ agent }) => agent),
      ),
      steps.map(({ reward }) => reward),
      params,
    ),
  judged: {
    reads: ['rewards'],
    rows: (facts, ask) => creditByEnvironment(facts, ask.run),
  },
});
