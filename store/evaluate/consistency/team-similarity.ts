/**
 * How far two teams are the same multi-agent system: the roles they have, and which role sends messages to which. Names of agents do not
 * count, and neither do prompts. Our measure, for the inter-consistency of MAS-GPT (arXiv 2503.03686): similar queries, similar teams.
 */
import { normaliseText } from './shingles.ts';

/** A row of `traj.teams`, as far as it is looked at; null where the source gives nothing. */
export type Team = {
  readonly agents: readonly Readonly<Record<string, unknown>>[] | null;
  /** Who sends messages to whom: [from, to], each the name or id of an agent, or a role. */
  readonly edges: readonly (readonly string[])[] | null;
};

export type TeamSimilarity = {
  /** 0 to 1; null where nothing can be compared, with the reason. */
  readonly score: number | null;
  readonly roles: number | null;
  readonly wiring: number | null;
  readonly reason: string | null;
};

export type TeamWeights = { readonly roles: number; readonly wiring: number };

/**
 * The weighted mean of the multiset Jaccard similarities of roles and of role → role edges. What one of the teams does not give is
 * left out of the mean, and so is the wiring of two teams that have none; the reason is then `no_wiring`. An agent without a role
 * counts by its name, which often is its role. Renaming agents, and their names in the edges, changes nothing where they have roles.
 */
export function teamSimilarity(a: Team, b: Team, weights: TeamWeights = { roles: 1, wiring: 1 }): TeamSimilarity {
  const roles = a.agents === null || b.agents === null ? null : multisetJaccard(rolesOf(a.agents), rolesOf(b.agents));
  if (roles === null) return { score: null, roles, wiring: null, reason: 'no_agents' };
  const bare = a.edges === null || b.edges === null || a.edges.length + b.edges.length === 0;
  const wiring = bare ? null : multisetJaccard(wiresOf(a), wiresOf(b));
  const total = weights.roles + (wiring === null ? 0 : weights.wiring);
  if (total <= 0) return { score: null, roles, wiring, reason: wiring === null ? 'no_wiring' : 'no_weights' };
  const score = (weights.roles * roles + weights.wiring * (wiring ?? 0)) / total;
  return { score, roles, wiring, reason: wiring === null ? 'no_wiring' : null };
}

const text = (value: unknown): string | null =>
  typeof value === 'string' && normaliseText(value) !== '' ? normaliseText(value) : null;

const roleOf = (agent: Readonly<Record<string, unknown>>): string =>
  text(agent.role) ?? text(agent.name) ?? text(agent.agent_id) ?? '';

const rolesOf = (agents: readonly Readonly<Record<string, unknown>>[]): string[] => agents.map(roleOf);

/** Edges between roles. An end that is no agent of the team, such as the user, has a role of its own. */
function wiresOf({ agents, edges }: Team): string[] {
  const roles = new Map<string, string>();
  for (const agent of agents ?? []) {
    for (const known of [agent.agent_id, agent.id, agent.name]) {
      if (typeof known === 'string' && !roles.has(known)) roles.set(known, roleOf(agent));
    }
  }
  const end = (name: string): string => roles.get(name) ?? normaliseText(name);
  return (edges ?? []).map((edge) => JSON.stringify(edge.map(end)));
}

/** Σ min over Σ max of how often each value is there; 1 for two empty lists. */
function multisetJaccard(a: readonly string[], b: readonly string[]): number {
  const counts = new Map<string, [number, number]>();
  for (const [side, values] of [a, b].entries()) {
    for (const value of values) {
      const count = counts.get(value) ?? [0, 0];
      count[side]! += 1;
      counts.set(value, count);
    }
  }
  const [both, either] = [...counts.values()].reduce(
    ([low, high], [x, y]) => [low + Math.min(x, y), high + Math.max(x, y)],
    [0, 0],
  );
  return either === 0 ? 1 : both / either;
}
