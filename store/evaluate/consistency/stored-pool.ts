/** The pool of teams over queries as it is stored, and what can be learnt from it; and which teams are alike. */
import { TroupeError } from '../../../errors.ts';
import type { Db } from '../../db/pool.ts';
import { facts, query, rowsOf } from '../../db/query.ts';
import { poolOf } from './pool.ts';
import { type RanEpisode, refinedPairs, type TeamRow, tripletsOf } from './refined-teams.ts';
import { taskClusters } from './task-clusters.ts';
import { taskVectors } from './task-embeddings.ts';
import { type TeamSimilarity, teamSimilarity } from './team-similarity.ts';

export type StoredPoolOptions = {
  /** By whose vectors queries are alike; null for the character n-grams of their texts. */
  readonly embeddingModel: string | null;
  /** Least score of a query that is kept with its team; null keeps all. */
  readonly minScore: number | null;
};

/**
 * Over all closed episodes, read in one snapshot.
 * @throws TroupeError `not_found` for an embedding model that gave no task a vector.
 */
export const storedPool = (db: Db, { embeddingModel, minScore }: StoredPoolOptions) =>
  db.transaction(
    async (tx) => {
      await tx.query('set local search_path = facts, pg_catalog');
      const episodes: RanEpisode[] = await rowsOf(
        tx,
        facts
          .selectFrom('episodes as e')
          .leftJoin('tasks as t', 't.task_id', 'e.task_id')
          .select(['e.episode_id', 'e.task_id', 't.query as task_text', 'e.team_id', 'e.reward', 'e.outcome'])
          .where('e.closed', '=', true),
      );
      const teams: TeamRow[] = await rowsOf(
        tx,
        facts.selectFrom('teams').select(['team_id', 'name', 'tags', 'unmapped']),
      );
      const texts = new Map(
        episodes.flatMap(({ task_id, task_text }) => (task_id === null ? [] : [[task_id, task_text]])),
      );
      const tasks = [...texts].map(([id, text]) => ({ id, text }));
      const vectors = embeddingModel === null ? null : await taskVectors(tx, [...texts.keys()]);
      if (embeddingModel !== null && !vectors?.has(embeddingModel))
        throw noVectors(embeddingModel, [...vectors!.keys()].sort());
      const clusters = taskClusters(tasks, vectors && { vectors, model: embeddingModel! });
      const pool = poolOf(episodes, clusters, { min_score: minScore });
      const refinements = refinedPairs(episodes, teams);
      return { pool, refinements, triplets: tripletsOf(pool, refinements, teams) };
    },
    { isolation: 'repeatable read', readOnly: true },
  );

const noVectors = (model: string, known: readonly string[]): TroupeError =>
  new TroupeError(
    'not_found',
    `No task has a vector of ${model}; there are vectors of ${known.length === 0 ? 'no model' : known.join(', ')}.`,
    { hint: '`troupe passes embed --model DIR` records them and prints the name.' },
  );

export type LikeTeam = TeamSimilarity & { readonly team_id: string; readonly name: string | null };

/** Every other team, the most alike first; those that cannot be compared come last, with the reason. */
export async function teamsLike(db: Db, teamId: string): Promise<LikeTeam[]> {
  const rows = await rowsOf(
    db,
    query.selectFrom('facts.teams').select(['team_id', 'name', 'agents', 'edges']).orderBy('team_id'),
  );
  const own = rows.find(({ team_id }) => team_id === teamId);
  if (!own) {
    throw new TroupeError('not_found', `There is no team ${JSON.stringify(teamId)}.`, {
      hint: 'troupe teams lists them.',
    });
  }
  return rows
    .filter((team) => team !== own)
    .map((team) => ({ team_id: team.team_id, name: team.name, ...teamSimilarity(own, team) }))
    .sort((a, b) => (b.score ?? -1) - (a.score ?? -1));
}
