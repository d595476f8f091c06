/** How far a run came: subgoals at each moment, milestones of each agent. */
import { TroupeError } from '../../errors.ts';
import { groupBy } from '../methods/statistics.ts';
import { attempt } from './answers.ts';
import type { Assemble, Assemblers } from './assembler.ts';
import type { ObservationFact } from './episode-facts.ts';
import type { EpisodeFacts } from './facts.ts';
import { score } from './judgement.ts';
import { subgoalsOf } from './subgoals.ts';

/** The value is how far the run had come at its last moment; every moment stands in the detail. */
const bySubgoals: Assemble = (method, params, { episodes, observations }) => {
  const subgoals = subgoalsOf(observations);
  return episodes.map(({ episode_id }) => {
    const key = `e/${episode_id}`;
    const subgoals_done = subgoals.moments(episode_id);
    if (subgoals_done === null) return score(key, null, 'unreadable_progress');
    if (subgoals_done.length === 0) return score(key, null, 'no_progress');
    const output = attempt(method, { subgoals_done, ...params });
    if (output instanceof TroupeError) return score(key, null, output.message);
    const rates = output as number[];
    return score(key, rates.at(-1)!, null, { moments: rates });
  });
};

type Milestone = { readonly name: string; readonly agents: readonly string[] };

/** An observation of kind `milestone`: a name, or an object with `milestone` and the `agents` (or the `agent`) that contributed to it. */
function milestoneOf({ content }: ObservationFact): Milestone[] {
  if (typeof content === 'string') return [{ name: content, agents: [] }];
  const { milestone, agents, agent } = (content ?? {}) as { milestone?: unknown; agents?: unknown; agent?: unknown };
  if (typeof milestone !== 'string') return [];
  const named = Array.isArray(agents) ? agents : [agent];
  return [{ name: milestone, agents: named.filter((one): one is string => typeof one === 'string') }];
}

/** The task's tag `milestones`: how many there are, or their list. */
function announced({ task_tags }: EpisodeFacts): number | null {
  const said = task_tags?.milestones;
  if (Array.isArray(said)) return said.length;
  return Number.isSafeInteger(said) ? (said as number) : null;
}

/**
 * All milestones are those that the task announces; where it does not, those that were reached. Agents are those that took a step or
 * contributed to one.
 */
const byAgent: Assemble = (method, params, { episodes, steps, observations }) => {
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
    const output = attempt(method, { milestones, per_agent, ...params });
    if (output instanceof TroupeError) return score(key, null, output.message);
    const { overall, per_agent: shares } = output as { overall: number; per_agent: number[] };
    const detail = { milestones, per_agent: Object.fromEntries(agents.map((agent, i) => [agent, shares[i]])) };
    return score(key, overall, null, detail);
  });
};

const reads = ['observations'] as const;
export const PROGRESS_ASSEMBLERS: Assemblers = {
  subgoals: { score: { over: bySubgoals, reads } },
  'milestones by agent': { score: { over: byAgent, reads } },
};
