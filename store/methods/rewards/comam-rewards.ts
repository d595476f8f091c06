/**
 * CoMAM: an agent whose own rewards rank the trajectories as the team's outcome does gets more of that outcome.
 *
 * Source: arXiv 2603.12631. Secondary; gain, discount and mixing are unverified. Discounted gain of the outcome in the order of the
 * agent's rewards, over that of the best order, is the agent's agreement; agreements sum to the weights. Reward = own + weight · outcome.
 * No agreement at all weighs everybody the same.
 * Kept: ranking agreement as weight. Dropped: GRPO by agent, which follows. Open: gain, discount, mixing.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { stableOrder, sum } from '../statistics.ts';

const Input = Type.Object({
  global: Type.Array(Type.Number()),
  local: Type.Record(Type.String(), Type.Array(Type.Number())),
});

type Rewards = {
  readonly ndcg: Readonly<Record<string, number>>;
  readonly weight: Readonly<Record<string, number>>;
  readonly reward: Readonly<Record<string, readonly number[]>>;
};

export const comamRewards: Method<Static<typeof Input>, Record<never, never>, Rewards> = {
  name: 'comam_rewards',
  kind: 'reward',
  source: 'CoMAM: arXiv 2603.12631; secondary',
  version: 1,
  needs: 'team and local rewards by group',
  summary:
    'Adds to each agent’s reward the team’s outcome, weighted by how well the agent’s ranking agrees with it; stored on each of its steps.',
  params: {},
  input: Input,
  run: ({ global, local }) => {
    const agents = Object.entries(local);
    for (const [agent, own] of agents) requireRows(`local.${agent}`, own, global.length, 'global');
    const ideal = discountedGain(global, global);
    const ndcg = agents.map(([, own]) => (ideal === 0 ? 0 : discountedGain(global, own) / ideal));
    const total = sum(ndcg);
    const weight = ndcg.map((value) => (total === 0 ? 1 / agents.length : value / total));
    const named = <T>(values: readonly T[]) => Object.fromEntries(agents.map(([agent], i) => [agent, values[i]!]));
    return {
      ndcg: named(ndcg),
      weight: named(weight),
      reward: named(agents.map(([, own], i) => own.map((one, row) => one + weight[i]! * global[row]!))),
    };
  },
};

function discountedGain(gains: readonly number[], ranking: readonly number[]): number {
  const order = stableOrder(ranking, (value) => value, 'descending');
  return sum(order.map((row, place) => gains[row]! / Math.log2(place + 2)));
}
