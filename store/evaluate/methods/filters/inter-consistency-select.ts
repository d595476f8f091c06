/**
 * Gives all similar queries one multi-agent system: the one that does best on them together.
 *
 * Source: MAS-GPT, arXiv 2503.03686. Secondary; clustering, tie rule (lowest index) and `min_score` are unverified.
 * `scores` has a row for each query and a column for each system. `min_score: null` keeps every query of the cluster.
 * Kept: one system a cluster, by the sum of its scores. Dropped: filling the matrix, more than forty systems. Open:
 * clustering, tie rule and `min_score`.
 */

import { Type } from 'typebox';
import { poolOf } from '../../consistency/pool.ts';
import { verdictOn } from '../../judging/judgement.ts';
import { clustersOf, played } from '../../judging/played.ts';
import { type Selection, selectSystem } from '../mas-gpt.ts';
import { method } from '../method.ts';
import { refuseInput, requireRectangle } from '../refuse.ts';
import { nullable } from '../shapes.ts';

/** `embedding_model`: by whose vectors the judge makes the clusters; null for the character n-grams of the queries. */
const params: { min_score: number | null; embedding_model: string | null } = { min_score: 1, embedding_model: null };

export const interConsistencySelect = method({
  name: 'inter_consistency_select',
  kind: 'filter',
  source: 'MAS-GPT: arXiv 2503.03686; secondary',
  version: 1,
  summary: 'Pairs each cluster of queries with the system of the highest total score on it.',
  params,
  limits: { min_score: nullable(Type.Number()), embedding_model: nullable(Type.String({ minLength: 1 })) },
  input: Type.Object({
    scores: Type.Array(Type.Array(Type.Number())),
    clusters: Type.Record(Type.String(), Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1 })),
  }),
  run: ({ scores, clusters }, { min_score }): Record<string, Selection> => {
    const systems = requireRectangle('scores', scores);
    if (systems === 0) refuseInput('scores', 'at least one query and one system', scores);
    const rowOf = (name: string, query: number) =>
      scores[query] ?? refuseInput(`clusters.${name}`, `rows of scores, 0 to ${scores.length - 1}`, query);
    return Object.fromEntries(
      Object.entries(clusters).map(([name, queries]) => [
        name,
        selectSystem(
          queries,
          queries.map((query) => rowOf(name, query)),
          min_score,
        ),
      ]),
    );
  },
  judged: {
    readsWith: ({ embedding_model }) => (embedding_model === null ? [] : ['vectors']),
    scope: () => 'set',
    /**
     * A system is a team, a query a task, the score of a team on a task the mean reward of its episodes, a cluster the tasks
     * that are alike. Only teams that were played on every task of a cluster compete: a score that is not there is not 0. An episode is kept if its team is the one that its cluster gets and its task is kept with it. Over the set: clusters are.
     */
    rows: (facts, ask) => {
      const { episodes } = facts;
      const pool = poolOf(episodes.map(played), clustersOf(facts, ask.params.embedding_model), ask.params);
      const choices = new Map(
        Object.entries(pool.clusters).flatMap(([cluster, choice]) =>
          choice.queries.map((task) => [task, { cluster, ...choice }] as const),
        ),
      );
      return episodes.map((episode) => {
        const { task_id, team_id, reward } = episode;
        if (task_id === null || team_id === null || reward === null) {
          return verdictOn(
            episode,
            null,
            task_id === null ? 'no_task' : team_id === null ? 'no_team' : 'missing_reward',
          );
        }
        const { cluster, team, total, competing, kept, reason } = choices.get(task_id)!;
        const detail = { cluster, team_id: team, total };
        if (team === null) return verdictOn(episode, null, reason, detail);
        if (!competing.includes(team_id)) return verdictOn(episode, null, 'not_played_on_all_queries', detail);
        if (team_id !== team) return verdictOn(episode, false, 'other_team', detail);
        return verdictOn(episode, kept.includes(task_id), kept.includes(task_id) ? null : 'below_min_score', detail);
      });
    },
  },
});
