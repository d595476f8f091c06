/**
 * How far similar queries were given the same multi-agent system.
 *
 * Source: ours, after MAS-GPT (arXiv 2503.03686); not from the paper. Null without queries.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { Key, nullable } from '../shapes.ts';
import { groupBy, largest } from '../statistics.ts';

const Input = Type.Object({ cluster: Type.Array(Key), mas: Type.Array(Key) });
/** `embedding_model`: by whose vectors the judge makes the clusters; null for the character n-grams of the queries. */
const params: { embedding_model: string | null } = { embedding_model: null };

export const interConsistencyScore: Method<Static<typeof Input>, typeof params, number | null> = {
  name: 'inter_consistency_score',
  kind: 'score',
  source: 'ours, after MAS-GPT (arXiv 2503.03686)',
  version: 1,
  needs: 'teams by cluster',
  summary: 'Share of queries whose system is the most frequent one of their cluster.',
  params,
  limits: { embedding_model: nullable(Type.String({ minLength: 1 })) },
  input: Input,
  run: ({ cluster, mas }) => {
    requireRows('mas', mas, cluster.length, 'cluster');
    if (cluster.length === 0) return null;
    let agreeing = 0;
    for (const queries of groupBy([...cluster.keys()], (query) => cluster[query]!).values()) {
      const systems = groupBy(queries, (query) => mas[query]!);
      agreeing += largest([...systems.values()].map(({ length }) => length));
    }
    return agreeing / cluster.length;
  },
};
