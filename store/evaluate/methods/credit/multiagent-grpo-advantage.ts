/**
 * The baseline that Dr. MAS compares itself with: one advantage for a whole trajectory, whoever acted in it.
 *
 * Source: langfengQ/DrMAS, verl/trainer/ppo/core_algos.py. Verified (code).
 * Kept: a trajectory is worth the average of its steps' rewards; statistics over the trajectories of the query, ddof 1.
 * A null reward has a null advantage and no part in its trajectory's average.
 * Dropped: the spread over tokens. Open: nothing known.
 * Version 2 gives a candidate that was passed over no credit, and flags trajectories; before, a step of an agent that acted once was flagged although its trajectory was compared.
 */

import { type Static, Type } from 'typebox';
import { creditByAgent } from '../../judging/reward-groups.ts';
import type { Given } from '../given.ts';
import { groupFlags } from '../group-flags.ts';
import { VERL_PARAMS, verlAdvantage } from '../group-relative.ts';
import { method } from '../method.ts';
import { AgentSteps } from '../shapes.ts';
import { groupRows, groupStatistics } from '../statistics.ts';

export const multiagentGrpoAdvantage = method({
  name: 'multiagent_grpo_advantage',
  kind: 'credit',
  source: 'Dr. MAS baseline: langfengQ/DrMAS, core_algos.py; verified (code)',
  version: 2,
  summary: 'GRPO over the average step reward of each trajectory; all its steps get the same value.',
  params: VERL_PARAMS,
  limits: { eps: Type.Number({ minimum: 0 }) },
  input: Type.Object({ steps: AgentSteps }),
  run: ({ steps }, params): (number | null)[] => {
    const { of, query, worth } = trajectoriesOf(steps);
    const advantages = verlAdvantage(groupRows(query), worth, params);
    return steps.map(({ reward }, step) => (reward === null ? null : advantages[of[step]!]!));
  },
  judged: {
    reads: ['rewards'],
    rows: (facts, ask) =>
      creditByAgent(facts, ask.run, (steps) => {
        const { of, query, worth } = trajectoriesOf(steps);
        const flags = groupFlags(query, worth);
        return steps.map(({ reward }, step) => (reward === null ? 'missing_reward' : flags[of[step]!]!));
      }),
  },
});

/** The trajectory of each step; the query of each trajectory, and the average of its steps’ rewards, null where none has one. */
function trajectoriesOf(steps: Given<Static<typeof AgentSteps>>) {
  const queries = steps.map(({ query }) => query);
  const trajectories = groupRows(
    queries,
    steps.map(({ traj }) => traj),
  );
  const { size, mean } = groupStatistics(
    trajectories,
    steps.map(({ reward }) => reward),
    1,
  );
  const query: (string | number)[] = new Array(trajectories.count);
  trajectories.numbers.forEach((trajectory, step) => {
    query[trajectory] = queries[step]!;
  });
  const worth = Array.from(mean, (value, trajectory) => (size[trajectory] === 0 ? null : value));
  return { of: trajectories.numbers, query, worth };
}
