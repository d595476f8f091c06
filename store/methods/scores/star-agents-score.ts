/**
 * Which of several generated samples is worth most: hard for a small model, easy for a large one, and better than its base.
 *
 * Source: Star-Agents, arXiv 2411.14497. Verified (text). The gap between the models' difficulties is divided by the batch's largest;
 * that all are 0 when the largest gap is not positive is our edge rule. The first wins a tie; without samples nothing is picked.
 * Kept: 0, 0.5 and 1 of the referee. Dropped: the referee and the two models. Open: a batch without a positive gap.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { largest } from '../statistics.ts';

const REFEREE = { base: 0, tie: 0.5, generated: 1 } as const;
const Input = Type.Object({
  ifd_small: Type.Array(Type.Number()),
  ifd_large: Type.Array(Type.Number()),
  referee: Type.Array(Type.Union([Type.Literal('base'), Type.Literal('tie'), Type.Literal('generated')])),
});

type Picked = { readonly dual: readonly number[]; readonly score: readonly number[]; readonly pick: number | null };

export const starAgentsScore: Method<Static<typeof Input>, Record<never, never>, Picked> = {
  name: 'star_agents_score',
  kind: 'score',
  source: 'Star-Agents: arXiv 2411.14497; verified (text)',
  version: 1,
  needs: 'difficulties and referee',
  summary: 'Scores samples by the gap between two models’ difficulties and the referee, and picks the best.',
  params: {},
  input: Input,
  run: ({ ifd_small, ifd_large, referee }) => {
    requireRows('ifd_large', ifd_large, ifd_small.length, 'ifd_small');
    requireRows('referee', referee, ifd_small.length, 'ifd_small');
    const gaps = ifd_small.map((small, i) => small - ifd_large[i]!);
    const widest = largest(gaps);
    const dual = gaps.map((gap) => (widest > 0 ? gap / widest : 0));
    const score = dual.map((value, i) => value * REFEREE[referee[i]!]);
    return { dual, score, pick: score.length === 0 ? null : score.indexOf(largest(score)) };
  },
};
