/**
 * MAGRPO with every agent's completions combined with every other's: what one completion is worth over all its combinations.
 *
 * Source: OpenMLRL/CoMLRL, comlrl/trainers/reinforce/magrpo.py. Verified (code).
 * Rewards are in the order of the index tuples with agent 0 slowest. A completion's value is the sum, not the mean, over its tuples.
 * Kept: the sum over tuples, the mean of the agent as baseline. Dropped: nothing. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { refuseInput } from '../refuse.ts';
import { mean } from '../statistics.ts';

const Input = Type.Object({
  k: Type.Integer({ minimum: 1 }),
  agents: Type.Integer({ minimum: 1, maximum: 64 }),
  rewards: Type.Array(Type.Number()),
});

type AgentCredit = { readonly sums: readonly number[]; readonly advantages: readonly number[] };

export const magrpoCross: Method<Static<typeof Input>, Record<never, never>, AgentCredit[]> = {
  name: 'magrpo_cross',
  kind: 'credit',
  source: 'MAGRPO: OpenMLRL/CoMLRL, trainers/reinforce/magrpo.py; verified (code)',
  version: 1,
  needs: 'joint rewards',
  summary: 'Sums joint rewards over all combinations of a completion and subtracts its agent’s mean.',
  params: {},
  input: Input,
  run: ({ k, agents, rewards }) => {
    const tuples = k ** agents;
    if (rewards.length !== tuples)
      refuseInput('rewards', `${tuples} entries, k to the power of agents`, rewards.length);
    return Array.from({ length: agents }, (_, agent) => {
      const stride = k ** (agents - 1 - agent);
      const sums: number[] = new Array(k).fill(0);
      rewards.forEach((reward, tuple) => {
        sums[Math.floor(tuple / stride) % k]! += reward;
      });
      const centre = mean(sums);
      return { sums, advantages: sums.map((value) => value - centre) };
    });
  },
};
