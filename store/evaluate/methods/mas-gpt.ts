/** The two selections of MAS-GPT (arXiv 2503.03686; secondary). */
import { largest } from './statistics.ts';

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

/** A rewrite is taken where it executes and scores no worse than its base. */
export const acceptsRewrite = (rewrite: {
  readonly base_score: number;
  readonly refined_score: number | null;
  readonly executable: boolean;
}): boolean => rewrite.executable && rewrite.refined_score !== null && rewrite.refined_score >= rewrite.base_score;
