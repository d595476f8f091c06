/**
 * MetaAgent-X: the designer of a team is worth the mean of what its executions earn.
 *
 * Source: PettingLLMs repository, multi_agents_execution_engine_autoevol.py and gen_agent.py. Verified (code).
 * A row is a design, a column one of its executions. Dropped: the executors' length penalty, which the release sets to 0.
 * Executions without a reward leave the mean; a design without any has none.
 * Kept: the mean over executions. Open: nothing known.
 */

import { Type } from 'typebox';
import { reward } from '../../judging/judgement.ts';
import { overDesigns } from '../../judging/launches.ts';
import { method } from '../method.ts';
import { Reward } from '../shapes.ts';
import { mean } from '../statistics.ts';

type Rewards = {
  readonly designer: readonly (number | null)[];
  readonly executor: readonly (readonly (number | null)[])[];
};

export const metaagentxRewards = method({
  name: 'metaagentx_rewards',
  kind: 'reward',
  source: 'MetaAgent-X: PettingLLMs, multi_agents_execution_engine_autoevol.py; verified (code)',
  version: 1,
  summary:
    'Executors keep their reward; a designer gets the mean over its executions; stored on each step of the episode.',
  input: Type.Object({ exec_rewards: Type.Array(Type.Array(Reward)) }),
  run: ({ exec_rewards }): Rewards => ({
    designer: exec_rewards.map((row) => {
      const known = row.filter((reward) => reward !== null);
      return known.length === 0 ? null : mean(known);
    }),
    executor: exec_rewards,
  }),
  judged: {
    writes: ['rewards', 'scores'],
    rows: (facts, ask) => overDesigns(facts, reward, ask.answer, { credited: false }),
  },
});
