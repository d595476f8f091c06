/**
 * CoMAM: an agent whose own rewards rank the trajectories as the team's outcome does gets more of that outcome.
 *
 * Source: arXiv 2603.12631. Secondary; gain, discount and mixing are unverified. Discounted gain of the outcome in the order of the
 * agent's rewards, over that of the best order, is the agent's agreement; agreements sum to the weights. Reward = own + weight · outcome.
 * No agreement at all weighs everybody the same.
 * Kept: ranking agreement as weight. Dropped: GRPO by agent, which follows. Open: gain, discount, mixing.
 */

import { Type } from 'typebox';
import { type StepFacts, stepKey } from '../judging/facts.ts';
import { type Judgement, reward } from '../judging/judgement.ts';
import { EARNED, numbersOn, ownRewardsOf } from '../judging/named-feedback.ts';
import { complete, noSteps } from '../judging/over-episodes.ts';
import { method } from './method.ts';
import { requireRows } from './refuse.ts';
import { stableOrder, sum } from './statistics.ts';

export const comamRewards = method({
  name: 'comam_rewards',
  kind: 'reward',
  source: 'CoMAM: arXiv 2603.12631; secondary',
  version: 1,
  summary:
    'Adds to each agent’s reward the team’s outcome, weighted by how well the agent’s ranking agrees with it; stored on each of its steps.',
  teams: 'several agents',
  params: EARNED,
  input: Type.Object({
    global: Type.Array(Type.Number()),
    local: Type.Record(Type.String(), Type.Array(Type.Number())),
  }),
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
  judged: {
    over: 'group',
    reads: ['rewards', 'feedback'],
    writes: ['rewards', 'scores'],
    /**
     * CoMAM: the trajectories are the episodes of a group. An agent's own reward in one is feedback on the agent, else the mean of what its
     * steps earned. A trajectory that lacks one of them leaves the ranking. The agent's reward is copied to its steps; its agreement
     * and weight stand beside it.
     */
    each: (facts, ask) => {
      const { reward_name } = ask.params;
      const ownReward = ownRewardsOf(facts, ask.params);
      const ofAgent = facts.ownRewards ? new Map<string, number>() : numbersOn(facts.feedback, 'agent', reward_name);
      const local = (episode: string, agent: string, steps: readonly StepFacts[]) => {
        const own = ofAgent.get(stepKey(episode, agent));
        if (own !== undefined) return own;
        const known = steps.filter((step) => (step.agent ?? '') === agent).flatMap((step) => ownReward(step) ?? []);
        return known.length === 0 ? null : known.reduce((sum, one) => sum + one, 0) / known.length;
      };
      return ({ members }) => {
        const agents = [...new Set(members.flatMap(({ steps }) => steps.map(({ agent }) => agent ?? '')))].sort();
        const rows = members.map((member) => ({
          ...member,
          own: agents.map((agent) => local(member.episode.episode_id, agent, member.steps)),
        }));
        const known = rows.flatMap((row) => {
          const [global, local] = [row.episode.reward, complete(row.own)];
          return global === null || local === null ? [] : [{ row, global, local }];
        });
        return {
          input: {
            global: known.map((one) => one.global),
            local: Object.fromEntries(agents.map((agent, a) => [agent, known.map((one) => one.local[a]!)])),
          },
          rows: (output) =>
            rows.flatMap((row): Judgement[] => {
              const at = known.findIndex((one) => one.row === row);
              const reason = row.episode.reward === null ? 'missing_reward' : 'no_local_reward';
              if (row.steps.length === 0) return [noSteps(row.episode)];
              return row.steps.map((step) => {
                const agent = step.agent ?? '';
                return at < 0
                  ? reward(step, null, reason)
                  : reward(step, output.reward[agent]![at]!, null, {
                      ndcg: output.ndcg[agent],
                      weight: output.weight[agent],
                    });
              });
            }),
        };
      };
    },
  },
});

function discountedGain(gains: readonly number[], ranking: readonly number[]): number {
  const order = stableOrder(ranking, (value) => value, 'descending');
  return sum(order.map((row, place) => gains[row]! / Math.log2(place + 2)));
}
