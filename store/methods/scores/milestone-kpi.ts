/**
 * What share of a task's milestones each agent contributed to.
 *
 * Source: MultiAgentBench, MARBLE marble/evaluator/evaluator.py for the counts; the overall mean over agents is unverified.
 * Kept: shares of all milestones. Dropped: finding who contributed. Open: the overall mean.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { refuseInput } from '../refuse.ts';
import { mean } from '../statistics.ts';

const Input = Type.Object({
  milestones: Type.Integer({ minimum: 1 }),
  per_agent: Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1 }),
});

type Kpi = { readonly per_agent: readonly number[]; readonly overall: number };

export const milestoneKpi: Method<Static<typeof Input>, Record<never, never>, Kpi> = {
  name: 'milestone_kpi',
  kind: 'score',
  source: 'MultiAgentBench: MARBLE, marble/evaluator/evaluator.py; overall unverified',
  version: 1,
  needs: 'milestones by agent',
  summary: 'Milestones each agent contributed to, as a share of all, and their mean.',
  params: {},
  input: Input,
  run: ({ milestones, per_agent }) => {
    const over = per_agent.findIndex((count) => count > milestones);
    if (over >= 0)
      refuseInput(`per_agent[${over}]`, `at most ${milestones}, the number of milestones`, per_agent[over]);
    const shares = per_agent.map((count) => count / milestones);
    return { per_agent: shares, overall: mean(shares) };
  },
};
