/**
 * Whether a multi-agent system rewritten for one query replaces the one it came from.
 *
 * Source: MAS-GPT, arXiv 2503.03686. Secondary. The rewrite itself is a model's work; only the decision is made here.
 * A rewrite that was never scored is not accepted.
 * Kept: a rewrite that scores no worse replaces its base. Dropped: the rewrite and the reasoning that links it to the
 * query. Open: read in a secondary account only.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { nullable } from '../shapes.ts';

const Input = Type.Object({
  base_score: Type.Number(),
  refined_score: nullable(Type.Number()),
  executable: Type.Boolean(),
});

export const intraConsistencyAccept: Method<Static<typeof Input>, Record<never, never>, boolean> = {
  name: 'intra_consistency_accept',
  kind: 'filter',
  source: 'MAS-GPT: arXiv 2503.03686; secondary',
  version: 1,
  needs: 'base and refinement',
  summary: 'Accepts a rewrite that executes and scores no worse than its base.',
  params: {},
  input: Input,
  run: ({ base_score, refined_score, executable }) =>
    executable && refined_score !== null && refined_score >= base_score,
};
