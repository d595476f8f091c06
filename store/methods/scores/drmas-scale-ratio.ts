/**
 * How much one normalisation for the whole team would inflate or damp each agent's gradients.
 *
 * Source: Dr. MAS (langfengQ/DrMAS), derived from the argument of its abstract; unverified. For an agent with mean μ_k and std σ_k, against the
 * team's μ and σ (all ddof 0): (σ_k² + (μ_k − μ)²) / σ². 1 for a well-scaled agent. Null where the team's rewards do not vary, or the agent
 * has none. Steps without a reward are left out.
 * Kept: the ratio of squared scales. Dropped: nothing. Open: ddof, which is 0 here.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { AgentSteps } from '../shapes.ts';
import { groupBy, mean, standardDeviation } from '../statistics.ts';

const Input = Type.Object({ steps: AgentSteps });

export const drmasScaleRatio: Method<Static<typeof Input>, Record<never, never>, Record<string, number | null>> = {
  name: 'drmas_scale_ratio',
  kind: 'score',
  source: 'Dr. MAS: langfengQ/DrMAS; derived, unverified',
  version: 1,
  needs: 'rewards by group and agent',
  summary: 'For each agent, how far normalising over the whole team misjudges the size of its gradients.',
  params: {},
  input: Input,
  run: ({ steps }) => {
    const rewards = known(steps);
    const [centre, deviation] = [mean(rewards), standardDeviation(rewards, 0)];
    const ratioOf = (own: readonly number[]) =>
      own.length === 0 || deviation === 0
        ? null
        : (standardDeviation(own, 0) ** 2 + (mean(own) - centre) ** 2) / deviation ** 2;
    return Object.fromEntries(
      [...groupBy(steps, ({ agent }) => String(agent))].map(([agent, own]) => [agent, ratioOf(known(own))]),
    );
  },
};

function known(steps: Static<typeof AgentSteps>): number[] {
  return steps.flatMap(({ reward }) => (reward === null ? [] : [reward]));
}
