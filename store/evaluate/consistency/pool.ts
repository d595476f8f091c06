/**
 * A pool of teams over a pool of queries, as the data of MAS-GPT (arXiv 2503.03686) are made: which team did how well on which query,
 * the one team that each cluster of similar queries gets, and the pairs of query and team that can be learnt from. Secondary: the paper's
 * text; its pipeline is not published. Filling the matrix is work of the teams: a cell nobody played is null and never 0.
 */

import { groupBy } from '../../../ingest/events/group-by.ts';
import { requireFinite } from '../methods/run.ts';
import { largest, mean } from '../methods/statistics.ts';
import type { Placement } from './clusters.ts';

/** An episode, as far as the pool looks at it. */
export type PlayedEpisode = {
  readonly episode_id: string;
  readonly task_id: string | null;
  readonly task_text: string | null;
  readonly team_id: string | null;
  readonly reward: number | null;
};

export type Pool = {
  /** Ids of tasks, ascending: the rows. */
  readonly queries: readonly string[];
  /** The text of each query; null where no episode gives it. */
  readonly texts: readonly (string | null)[];
  /** Ids of teams, ascending: the columns, and with it the order in which the first of equals is chosen. */
  readonly teams: readonly string[];
  /** `cells[query][team]`; null where no episode with a reward was played. */
  readonly cells: readonly (readonly (Cell | null)[])[];
  readonly clusters: Readonly<Record<string, ClusterChoice>>;
  /** Episodes that count nowhere, by reason: `no_task`, `no_team`, `no_reward`. */
  readonly left_out: Readonly<Record<string, readonly string[]>>;
};

type Cell = {
  /** Mean reward of the episodes. */
  readonly score: number;
  readonly episodes: readonly string[];
};

type ClusterChoice = {
  readonly queries: readonly string[];
  /** Teams that were played on every query of the cluster; only they compete. */
  readonly competing: readonly string[];
  /** The others, each with the queries it was not played on. */
  readonly unplayed: Readonly<Record<string, readonly string[]>>;
  /** The competing team of the highest total, the first of equals; null where none competes. */
  readonly team: string | null;
  readonly total: number | null;
  /** Queries on which that team reaches `min_score`. */
  readonly kept: readonly string[];
  /** `no_team_on_all_queries`, or null. */
  readonly reason: string | null;
};

export type PoolParams = {
  /** Least score of a query that is kept with its team; null keeps all. */
  readonly min_score: number | null;
};

/**
 * The pool of these episodes. A query that is not in `clusters` is a cluster of its own. The order of the episodes changes nothing.
 * @throws TroupeError `method_input` for rewards so large that a total is not finite.
 */
export function poolOf(
  episodes: readonly PlayedEpisode[],
  clusters: ReadonlyMap<string, Pick<Placement, 'cluster'>>,
  { min_score }: PoolParams = { min_score: 1 },
): Pool {
  const played = episodes.toSorted((a, b) => order(a.episode_id, b.episode_id));
  const left = groupBy(
    played.filter((one) => outside(one) !== null),
    (one) => outside(one) as string,
  );
  const inside = played.filter((one) => outside(one) === null);
  const ids = (of: (one: PlayedEpisode) => string | null) => [...new Set(inside.map((one) => of(one)!))].sort(order);
  const queries = ids((one) => one.task_id);
  const teams = ids((one) => one.team_id);
  const byQuery = groupBy(inside, (one) => one.task_id!);
  const cells = queries.map((query) => {
    const byTeam = groupBy(byQuery.get(query)!, (one) => one.team_id!);
    return teams.map((team) => cellOf(byTeam.get(team) ?? []));
  });
  const rows = groupBy([...queries.keys()], (row) => clusters.get(queries[row]!)?.cluster ?? queries[row]!);
  const choices = [...rows].sort(([a], [b]) => order(a, b));
  return {
    queries,
    texts: queries.map((query) => byQuery.get(query)!.find((one) => one.task_text !== null)?.task_text ?? null),
    teams,
    cells,
    clusters: Object.fromEntries(choices.map(([name, of]) => [name, choose({ queries, teams, cells }, of, min_score)])),
    left_out: Object.fromEntries([...left].map(([reason, of]) => [reason, of.map((one) => one.episode_id)])),
  };
}

const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function outside({ task_id, team_id, reward }: PlayedEpisode): string | null {
  if (task_id === null) return 'no_task';
  if (team_id === null) return 'no_team';
  return reward === null || !Number.isFinite(reward) ? 'no_reward' : null;
}

const cellOf = (episodes: readonly PlayedEpisode[]): Cell | null =>
  episodes.length === 0
    ? null
    : { score: mean(episodes.map((one) => one.reward!)), episodes: episodes.map((one) => one.episode_id) };

function choose(
  { queries, teams, cells }: Pick<Pool, 'queries' | 'teams' | 'cells'>,
  rows: readonly number[],
  minScore: number | null,
): ClusterChoice {
  const missing = teams.map((_, team) => rows.filter((row) => cells[row]![team] === null));
  // A team that no query of the cluster knows is not one of its teams.
  const known = [...teams.keys()].filter((team) => missing[team]!.length < rows.length);
  const competing = known.filter((team) => missing[team]!.length === 0);
  const unplayed = known
    .filter((team) => missing[team]!.length > 0)
    .map((team) => [teams[team]!, missing[team]!.map((row) => queries[row]!)] as const);
  const about = {
    queries: rows.map((row) => queries[row]!),
    competing: competing.map((team) => teams[team]!),
    unplayed: Object.fromEntries(unplayed),
  };
  if (competing.length === 0) return { ...about, team: null, total: null, kept: [], reason: 'no_team_on_all_queries' };
  const scores = rows.map((row) => competing.map((team) => cells[row]![team]!.score));
  const { mas, total, kept } = selectSystem([...rows.keys()], scores, minScore);
  requireFinite(total, 'total');
  return { ...about, team: teams[competing[mas]!]!, total, kept: kept.map((i) => queries[rows[i]!]!), reason: null };
}

export type Selection = {
  /** Column of the system that the cluster gets. */
  readonly mas: number;
  readonly total: number;
  /** Queries that are kept with it. */
  readonly kept: readonly number[];
};

/** The system of the highest total over the queries of a cluster, the first of equals. `rows[i]` are the scores of `queries[i]`. */
export function selectSystem(
  queries: readonly number[],
  rows: readonly (readonly number[])[],
  minScore: number | null,
): Selection {
  const totals = rows[0]!.map((_, m) => rows.reduce((total, row) => total + row[m]!, 0));
  const total = largest(totals);
  const mas = totals.indexOf(total);
  return { mas, total, kept: queries.filter((_, i) => minScore === null || rows[i]![mas]! >= minScore) };
}
