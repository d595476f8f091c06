/**
 * AT-GRPO's reward: what the team earned, weighted, plus what the agent earned itself.
 *
 * Source: PettingLLMs, trainer and environment code. The mixture rule is secondary. An agent without a local reward has none.
 * Kept: α 1. Dropped: how team and local rewards are found. Open: the mixture rule.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { Reward } from '../shapes.ts';

const Input = Type.Object({ team: Type.Number(), local: Type.Array(Reward) });
const params = { alpha: 1 };

export const pettingMixedReward: Method<Static<typeof Input>, typeof params, (number | null)[]> = {
  name: 'petting_mixed_reward',
  kind: 'reward',
  source: 'AT-GRPO: PettingLLMs; mixture secondary',
  version: 1,
  needs: 'team and local rewards',
  summary: 'alpha times the team’s reward plus the agent’s own.',
  params,
  input: Input,
  run: ({ team, local }, { alpha }) => local.map((own) => (own === null ? null : alpha * team + own)),
};
