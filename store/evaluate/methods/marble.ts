/**
 * What share of a task's milestones each agent contributed to.
 *
 * Source: MultiAgentBench, MARBLE marble/evaluator/evaluator.py for the counts; the overall mean over agents is unverified.
 * Kept: shares of all milestones. Dropped: finding who contributed. Open: the overall mean.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import type { ObservationFact } from '../judging/episode-facts.ts';
import type { EpisodeFacts } from '../judging/facts.ts';
import { score } from '../judging/judgement.ts';
import { method } from './method.ts';
import { refuseInput } from './refuse.ts';
import { mean } from './statistics.ts';

export const milestoneKpi = method({
  name: 'milestone_kpi',
  kind: 'score',
  source: 'MultiAgentBench: MARBLE, marble/evaluator/evaluator.py; overall unverified',
  version: 1,
  summary: 'Milestones each agent contributed to, as a share of all, and their mean.',
  teams: 'several agents',
  input: Type.Object({
    milestones: Type.Integer({ minimum: 1 }),
    per_agent: Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1 }),
  }),
  run: ({ milestones, per_agent }): { readonly per_agent: readonly number[]; readonly overall: number } => {
    const over = per_agent.findIndex((count) => count > milestones);
    if (over >= 0)
      refuseInput(`per_agent[${over}]`, `at most ${milestones}, the number of milestones`, per_agent[over]);
    const shares = per_agent.map((count) => count / milestones);
    return { per_agent: shares, overall: mean(shares) };
  },
  judged: {
    reads: ['observations'],
    /**
     * All milestones are those that the task announces; where it does not, those that were reached. Agents are those that took a step or
     * contributed to one.
     */
    rows: ({ episodes, steps, observations }, ask) => {
      const own = groupBy(steps, (step) => step.episode_id);
      return episodes.map((episode) => {
        const key = `e/${episode.episode_id}`;
        const seen = (observations.get(episode.episode_id) ?? [])
          .filter(({ kind }) => kind === 'milestone')
          .flatMap(milestoneOf);
        const reached = new Set(seen.map(({ name }) => name)).size;
        const milestones = announced(episode) ?? reached;
        if (milestones === 0) return score(key, null, 'no_milestones');
        if (reached > milestones) return score(key, null, 'more_milestones_than_announced', { milestones, reached });
        const acted = (own.get(episode.episode_id) ?? []).flatMap(({ agent }) => agent ?? []);
        const agents = [...new Set([...acted, ...seen.flatMap((one) => one.agents)])].sort();
        if (agents.length === 0) return score(key, null, 'no_agents');
        const per_agent = agents.map(
          (agent) => new Set(seen.filter((one) => one.agents.includes(agent)).map(({ name }) => name)).size,
        );
        const output = ask.answer({ milestones, per_agent });
        if (typeof output === 'string') return score(key, null, output);
        const { overall, per_agent: shares } = output;
        const detail = { milestones, per_agent: Object.fromEntries(agents.map((agent, i) => [agent, shares[i]])) };
        return score(key, overall, null, detail);
      });
    },
  },
});

/** An observation of kind `milestone`: a name, or an object with `milestone` and the `agents` (or the `agent`) that contributed to it. */
function milestoneOf({ content }: ObservationFact): { readonly name: string; readonly agents: readonly string[] }[] {
  if (typeof content === 'string') return [{ name: content, agents: [] }];
  const { milestone, agents, agent } = (content ?? {}) as { milestone?: unknown; agents?: unknown; agent?: unknown };
  if (typeof milestone !== 'string') return [];
  const named = Array.isArray(agents) ? agents : [agent];
  return [{ name: milestone, agents: named.filter((one): one is string => typeof one === 'string') }];
}

/** The task's tag `milestones`: how many there are, or their list. */
function announced({ task_tags }: EpisodeFacts): number | null {
  const milestones = task_tags?.milestones;
  if (Array.isArray(milestones)) return milestones.length;
  return Number.isSafeInteger(milestones) ? (milestones as number) : null;
}
