/**
 * MAGRPO with every agent's completions combined with every other's: what one completion is worth over all its combinations.
 *
 * Source: OpenMLRL/CoMLRL, comlrl/trainers/reinforce/magrpo.py. Verified (code).
 * Rewards are in the order of the index tuples with agent 0 slowest. A completion's value is the sum, not the mean, over its tuples.
 * `mode` and `normalise` compare the sums of one agent's completions (`magrpo.ts`).
 * Kept: the sum over tuples. Dropped: nothing. Open: nothing known.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { stepKey } from '../../judging/facts.ts';
import { credit } from '../../judging/judgement.ts';
import { listsOn } from '../../judging/named-feedback.ts';
import { overEpisodes } from '../../judging/over-episodes.ts';
import { MAGRPO_LIMITS, MAGRPO_PARAMS, magrpoAdvantages } from '../magrpo.ts';
import { method } from '../method.ts';
import { refuseInput } from '../refuse.ts';

type AgentCredit = { readonly sums: readonly number[]; readonly advantages: readonly number[] };

export const magrpoCross = method({
  name: 'magrpo_cross',
  kind: 'credit',
  source: 'MAGRPO: OpenMLRL/CoMLRL, trainers/reinforce/magrpo.py; verified (code)',
  version: 1,
  summary: 'Sums joint rewards over all combinations of a completion and subtracts its agent’s mean.',
  params: MAGRPO_PARAMS,
  limits: MAGRPO_LIMITS,
  input: Type.Object({
    k: Type.Integer({ minimum: 1 }),
    agents: Type.Integer({ minimum: 1, maximum: 64 }),
    rewards: Type.Array(Type.Number()),
  }),
  run: ({ k, agents, rewards }, options): AgentCredit[] => {
    const tuples = k ** agents;
    if (rewards.length !== tuples)
      refuseInput('rewards', `${tuples} entries, k to the power of agents`, rewards.length);
    return Array.from({ length: agents }, (_, agent) => {
      const stride = k ** (agents - 1 - agent);
      const sums: number[] = new Array(k).fill(0);
      rewards.forEach((reward, tuple) => {
        sums[Math.floor(tuple / stride) % k]! += reward;
      });
      return { sums, advantages: magrpoAdvantages(sums, options) };
    });
  },
  judged: {
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    /**
     * MAGRPO's crossed form: each agent has one call with the same number of candidates; `joint_rewards` on the episode has an entry for
     * every combination of them, the first agent being the slowest to change.
     */
    rows: (facts, ask) => {
      const joint = listsOn(facts.feedback, 'episode', 'joint_rewards');
      return overEpisodes(facts, credit, ({ episode_id }, steps) => {
        const rewards = joint.get(stepKey(episode_id, ''));
        if (rewards === undefined) return 'no_joint_rewards';
        const agents = [...groupBy(steps, (step) => step.agent ?? '').values()];
        if (agents.some((own) => own.some((step) => step.call_id !== own[0]!.call_id))) return 'several_calls';
        const k = agents[0]!.length;
        if (agents.some((own) => own.length !== k)) return 'uneven_candidates';
        if (rewards.length !== k ** agents.length) return 'uneven_joint_rewards';
        const output = ask.answer({ k, agents: agents.length, rewards });
        if (typeof output === 'string') return output;
        return agents.flatMap((own, a) =>
          own.map((step, i) => credit(step, output[a]!.advantages[i]!, null, { sum: output[a]!.sums[i]! })),
        );
      });
    },
  },
});
