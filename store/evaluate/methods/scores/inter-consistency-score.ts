/**
 * How far similar queries were given the same multi-agent system.
 *
 * Source: ours, after MAS-GPT (arXiv 2503.03686); not from the paper. Null without queries.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { stepKey } from '../../judging/facts.ts';
import { score } from '../../judging/judgement.ts';
import { clustersOf, survivors } from '../../judging/played.ts';
import { method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { Key, nullable } from '../shapes.ts';
import { largest } from '../statistics.ts';

/** `embedding_model`: by whose vectors the judge makes the clusters; null for the character n-grams of the queries. */
const params: { embedding_model: string | null } = { embedding_model: null };

export const interConsistencyScore = method({
  name: 'inter_consistency_score',
  kind: 'score',
  source: 'ours, after MAS-GPT (arXiv 2503.03686)',
  version: 1,
  summary: 'Share of queries whose system is the most frequent one of their cluster.',
  params,
  limits: { embedding_model: nullable(Type.String({ minLength: 1 })) },
  input: Type.Object({ cluster: Type.Array(Key), mas: Type.Array(Key) }),
  run: ({ cluster, mas }): number | null => {
    requireRows('mas', mas, cluster.length, 'cluster');
    if (cluster.length === 0) return null;
    let agreeing = 0;
    for (const queries of groupBy([...cluster.keys()], (query) => cluster[query]!).values()) {
      const systems = groupBy(queries, (query) => mas[query]!);
      agreeing += largest([...systems.values()].map(({ length }) => length));
    }
    return agreeing / cluster.length;
  },
  judged: {
    readsWith: ({ embedding_model }) => (embedding_model === null ? [] : ['vectors']),
    scope: () => 'set',
    /** Which team each query was given: those of the episodes that every filter before kept, each pair of task and team once. */
    rows: (facts, ask) => {
      const known = survivors(facts);
      const clusters = clustersOf(facts, ask.params.embedding_model);
      const given = facts.episodes.flatMap(({ episode_id, task_id, team_id }) =>
        known.has(episode_id) && task_id !== null && team_id !== null ? [{ task_id, team_id }] : [],
      );
      const pairs = [...groupBy(given, ({ task_id, team_id }) => stepKey(task_id, team_id)).values()].map(
        ([one]) => one!,
      );
      const detail = { pairs: pairs.length, left_out: facts.episodes.length - given.length };
      if (pairs.length === 0) return [score('s/queries', null, 'no_teams', detail)];
      const value = ask.run({
        cluster: pairs.map(({ task_id }) => clusters.get(task_id)!.cluster),
        mas: pairs.map(({ team_id }) => team_id),
      });
      return [score('s/queries', value, null, detail)];
    },
  },
});
