/**
 * Teams that were rewritten for one query, and whether the rewrite is taken (intra-consistency of MAS-GPT, arXiv 2503.03686; secondary);
 * and what can be learnt from a pool then: query, reasoning, team. The rewrite and its reasoning are a model's work and are recorded;
 * only the decision is made here.
 */
import { mean } from '../methods/statistics.ts';
import type { PlayedEpisode, Pool } from './pool.ts';

/** A row of `traj.teams`, as far as it is looked at. */
export type TeamRow = {
  readonly team_id: string;
  readonly name: string | null;
  readonly tags: Readonly<Record<string, unknown>> | null;
  readonly unmapped: Readonly<Record<string, unknown>> | null;
};

/** An episode that may have failed to run at all. */
export type RanEpisode = PlayedEpisode & { readonly outcome: string | null };

export type RefinedPair = {
  readonly task_id: string;
  readonly base_team_id: string;
  readonly team_id: string;
  /** Mean rewards on the task. */
  readonly base_score: number;
  /** Null where the rewrite was never scored; it is not accepted then. */
  readonly refined_score: number | null;
  /** Some episode of the rewrite on the task ran to an end that is not an error. */
  readonly executable: boolean;
  readonly accepted: boolean;
};

export type Triplet = {
  readonly task_id: string;
  readonly query: string | null;
  /** Why this team fits this query, as it was recorded with the team; null where nobody wrote it. */
  readonly reasoning: string | null;
  readonly team_id: string;
  readonly cluster: string;
  readonly score: number;
  /** The rewrite was taken in place of this team; null where the cluster's own team stands. */
  readonly refined_from: string | null;
};

/** Field of a team's tags, or of its unmapped fields, that names the team it was made from, by id. */
const BASE = 'base_team_id';
const REASONING = 'reasoning';

const field = ({ tags, unmapped }: TeamRow, name: string): string | null => {
  const value = tags?.[name] ?? unmapped?.[name];
  return typeof value === 'string' && value.trim() !== '' ? value : null;
};

/**
 * Each team whose `base_team_id` names another one, on each task that both were played on, the base with a reward. Nothing else makes
 * a pair: the version of a team is a text for people, and a hash has no order, so a later team of the same name is no rewrite.
 */
export function refinedPairs(episodes: readonly RanEpisode[], teams: readonly TeamRow[]): RefinedPair[] {
  const plays = new Map<string, RanEpisode[]>();
  const tasksOf = new Map<string, Set<string>>();
  // In the order of ids, so that a mean does not depend on the order of rows.
  for (const episode of episodes.toSorted((a, b) => order(a.episode_id, b.episode_id))) {
    const { team_id, task_id } = episode;
    if (team_id === null || task_id === null) continue;
    const key = placeOf(team_id, task_id);
    const known = plays.get(key);
    if (known) known.push(episode);
    else plays.set(key, [episode]);
    tasksOf.set(team_id, (tasksOf.get(team_id) ?? new Set()).add(task_id));
  }
  const pairs = teams.flatMap((team): RefinedPair[] => {
    const base = field(team, BASE);
    if (base === null || base === team.team_id) return [];
    return [...(tasksOf.get(team.team_id) ?? [])].flatMap((task): RefinedPair[] => {
      const baseScore = scoreOf(plays.get(placeOf(base, task)) ?? []);
      if (baseScore === null) return [];
      const own = plays.get(placeOf(team.team_id, task))!;
      const refinedScore = scoreOf(own);
      const executable = own.some(({ outcome, reward }) => ran(outcome, reward));
      const decided = { base_score: baseScore, refined_score: refinedScore, executable };
      const accepted = acceptsRewrite(decided);
      return [{ task_id: task, base_team_id: base, team_id: team.team_id, ...decided, accepted }];
    });
  });
  return pairs.sort((a, b) => order(placeOf(a.team_id, a.task_id), placeOf(b.team_id, b.task_id)));
}

/**
 * A triplet for each query that its cluster's team keeps: with that team, or with its accepted rewrite of the highest score on the
 * query, the first id of equals.
 */
export function tripletsOf(pool: Pool, pairs: readonly RefinedPair[], teams: readonly TeamRow[]): Triplet[] {
  const queries = new Map(pool.queries.map((query, row) => [query, row]));
  const rows = new Map(teams.map((team) => [team.team_id, team]));
  const accepted = new Map<string, RefinedPair>();
  for (const pair of pairs) {
    if (!pair.accepted) continue;
    const at = placeOf(pair.base_team_id, pair.task_id);
    const best = accepted.get(at);
    if (!best || pair.refined_score! > best.refined_score!) accepted.set(at, pair);
  }
  return Object.entries(pool.clusters).flatMap(([cluster, { team, kept }]) => {
    if (team === null) return [];
    const column = pool.teams.indexOf(team);
    return kept.map((task): Triplet => {
      const refined = accepted.get(placeOf(team, task)) ?? null;
      const chosen = refined?.team_id ?? team;
      const row = rows.get(chosen);
      const query = queries.get(task)!;
      const cell = pool.cells[query]![column]!;
      return {
        task_id: task,
        query: pool.texts[query]!,
        reasoning: row ? field(row, REASONING) : null,
        team_id: chosen,
        cluster,
        score: refined?.refined_score ?? cell.score,
        refined_from: refined === null ? null : team,
      };
    });
  });
}

const placeOf = (team: string, task: string): string => JSON.stringify([team, task]);
const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** An episode whose end is unknown ran if it was given a reward. */
const ran = (outcome: string | null, reward: number | null): boolean =>
  outcome === null || outcome === 'unknown' ? reward !== null : outcome !== 'error' && outcome !== 'aborted';

function scoreOf(episodes: readonly RanEpisode[]): number | null {
  const rewards = episodes.flatMap(({ reward }) => (reward !== null && Number.isFinite(reward) ? [reward] : []));
  return rewards.length === 0 ? null : mean(rewards);
}

/** A rewrite is taken where it executes and scores no worse than its base. */
export const acceptsRewrite = (rewrite: {
  readonly base_score: number;
  readonly refined_score: number | null;
  readonly executable: boolean;
}): boolean => rewrite.executable && rewrite.refined_score !== null && rewrite.refined_score >= rewrite.base_score;
