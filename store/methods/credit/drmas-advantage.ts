/**
 * Dr. MAS: each agent's steps are compared with the same agent's steps on the same query, so that agents with other reward scales
 * do not drown each other.
 *
 * Source: langfengQ/DrMAS, verl/trainer/ppo/core_algos.py and ray_trainer.py, option group_by_agent_id. Verified (code).
 * Kept: every step of an agent is a sample, so one that acts more often weighs more in its own statistics; ddof 1; a group of one
 * as in verl's GRPO. A null reward has a null advantage.
 * Dropped: the spread over tokens. Open: nothing known.
 */

import { Type } from 'typebox';
import { creditByAgent } from '../../judging/reward-groups.ts';
import { VERL_PARAMS, verlAdvantage } from '../group-relative.ts';
import { method } from '../method.ts';
import { AgentSteps } from '../shapes.ts';
import { groupRows } from '../statistics.ts';

const Input = Type.Object({ steps: AgentSteps });

export const drmasAdvantage = method({
  name: 'drmas_advantage',
  kind: 'credit',
  source: 'Dr. MAS: langfengQ/DrMAS, core_algos.py and ray_trainer.py; verified (code)',
  version: 1,
  summary: 'GRPO within each query and agent; every step of the agent is one sample.',
  params: VERL_PARAMS,
  limits: { eps: Type.Number({ minimum: 0 }) },
  input: Input,
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
    reads: ['rewards'],
    rows: (facts, ask) => creditByAgent(facts, ask.run),
  },
});
