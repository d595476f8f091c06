/**
 * Gives all similar queries one multi-agent system: the one that does best on them together.
 *
 * Source: MAS-GPT, arXiv 2503.03686. Secondary; clustering, tie rule (lowest index) and `min_score` are unverified.
 * `scores` has a row for each query and a column for each system. `min_score: null` keeps every query of the cluster.
 * Kept: one system a cluster, by the sum of its scores. Dropped: filling the matrix, more than forty systems. Open:
 * clustering, tie rule and `min_score`.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { refuseInput, requireRectangle } from '../refuse.ts';
import { nullable } from '../shapes.ts';
import { largest } from '../statistics.ts';

const Input = Type.Object({
  scores: Type.Array(Type.Array(Type.Number())),
  clusters: Type.Record(Type.String(), Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1 })),
});
/** `embedding_model`: by whose vectors the judge makes the clusters; null for the character n-grams of the queries. */
const params: { min_score: number | null; embedding_model: string | null } = { min_score: 1, embedding_model: null };

type Selection = {
  /** Column of the system that the cluster gets. */
  readonly mas: number;
  readonly total: number;
  /** Rows of the queries that are kept with it. */
  readonly kept: readonly number[];
};

export const interConsistencySelect: Method<Static<typeof Input>, typeof params, Record<string, Selection>> = {
  name: 'inter_consistency_select',
  kind: 'filter',
  source: 'MAS-GPT: arXiv 2503.03686; secondary',
  version: 1,
  needs: 'team scores by query',
  summary: 'Pairs each cluster of queries with the system of the highest total score on it.',
  params,
  limits: { min_score: nullable(Type.Number()), embedding_model: nullable(Type.String({ minLength: 1 })) },
  input: Input,
  run: ({ scores, clusters }, { min_score }) => {
    const systems = requireRectangle('scores', scores);
    if (systems === 0) refuseInput('scores', 'at least one query and one system', scores);
    const select = (name: string, queries: readonly number[]): Selection => {
      const rows = queries.map(
        (query) => scores[query] ?? refuseInput(`clusters.${name}`, `rows of scores, 0 to ${scores.length - 1}`, query),
      );
      const totals = Array.from({ length: systems }, (_, m) => rows.reduce((total, row) => total + row[m]!, 0));
      const total = largest(totals);
      const mas = totals.indexOf(total);
      return { mas, total, kept: queries.filter((_, i) => min_score === null || rows[i]![mas]! >= min_score) };
    };
    return Object.fromEntries(Object.entries(clusters).map(([name, queries]) => [name, select(name, queries)]));
  },
};
