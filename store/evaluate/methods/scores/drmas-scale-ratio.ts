/**
 * How much one normalisation for the whole team would inflate or damp each agent's gradients.
 *
 * Source: Dr. MAS (langfengQ/DrMAS), derived from the argument of its abstract; unverified. For an agent with mean μ_k and std σ_k, against the
 * team's μ and σ (all ddof 0): (σ_k² + (μ_k − μ)²) / σ². 1 for a well-scaled agent. Null where the team's rewards do not vary, or the agent
 * has none. Steps without a reward are left out.
 * Kept: the ratio of squared scales. Dropped: nothing. Open: ddof, which is 0 here.
 */

import { type Static, Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { groupOf } from '../../judging/facts.ts';
import { score } from '../../judging/judgement.ts';
import type { Given } from '../given.ts';
import { method } from '../method.ts';
import { AgentSteps } from '../shapes.ts';
import { mean, standardDeviation } from '../statistics.ts';

export const drmasScaleRatio = method({
  name: 'drmas_scale_ratio',
  kind: 'score',
  source: 'Dr. MAS: langfengQ/DrMAS; derived, unverified',
  version: 1,
  summary: 'For each agent, how far normalising over the whole team misjudges the size of its gradients.',
  input: Type.Object({ steps: AgentSteps }),
  run: ({ steps }): Record<string, number | null> => {
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
  judged: {
    reads: ['rewards'],
    /**
     * A number for each agent of a group stands in the detail. The value is that of the agent that is furthest above: the one whose
     * gradients the team's own scale would inflate most.
     */
    rows: ({ episodes, steps, rewardOf }, ask) => {
      const own = groupBy(steps, (step) => step.episode_id);
      return [...groupBy(episodes, groupOf)].map(([group, members]) => {
        const rows = members.flatMap(({ episode_id }) =>
          (own.get(episode_id) ?? []).map((step) => ({
            query: group,
            traj: episode_id,
            agent: step.agent ?? '',
            reward: rewardOf(step),
          })),
        );
        if (rows.length === 0) return score(`g/${group}`, null, 'no_steps');
        if (rows.every(({ reward }) => reward === null)) return score(`g/${group}`, null, 'missing_reward');
        const output = ask.answer({ steps: rows });
        if (typeof output === 'string') return score(`g/${group}`, null, output);
        const known = Object.values(output).filter((ratio) => ratio !== null);
        return known.length === 0
          ? score(`g/${group}`, null, 'zero_variance', output)
          : score(`g/${group}`, Math.max(...known), null, output);
      });
    },
  },
});

function known(steps: Given<Static<typeof AgentSteps>>): number[] {
  return steps.flatMap(({ reward }) => (reward === null ? [] : [reward]));
}
