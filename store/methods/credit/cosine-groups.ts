/**
 * Puts steps that say nearly the same thing into one group, so that a step's influence can be averaged over its like.
 *
 * Source: Dr. MAMR, arXiv 2511.02303. Secondary. A step joins the first group whose first member is at least as near as the threshold;
 * otherwise it opens a group. A vector of zeros is near to nothing.
 * Kept: the first group that is near enough, against its first member. Dropped: the embeddings. Open: the threshold 0.9
 * is read in a secondary account.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { requireRectangle } from '../refuse.ts';

const Input = Type.Object({ embeddings: Type.Array(Type.Array(Type.Number())) });
const params = { threshold: 0.9 };

export const cosineGroups: Method<Static<typeof Input>, typeof params, number[]> = {
  name: 'cosine_groups',
  kind: 'credit',
  source: 'Dr. MAMR: arXiv 2511.02303; secondary',
  version: 1,
  needs: 'embeddings',
  summary: 'Groups steps by the cosine of their embeddings with each group’s first member.',
  params,
  limits: { threshold: Type.Number({ minimum: -1, maximum: 1 }) },
  input: Input,
  run: ({ embeddings }, { threshold }) => {
    requireRectangle('embeddings', embeddings);
    const first: (readonly number[])[] = [];
    return embeddings.map((embedding) => {
      const near = first.findIndex((other) => cosine(embedding, other) >= threshold);
      return near >= 0 ? near : first.push(embedding) - 1;
    });
  },
};

function cosine(a: readonly number[], b: readonly number[]): number {
  const length = Math.sqrt(product(a, a)) * Math.sqrt(product(b, b));
  return length === 0 ? Number.NEGATIVE_INFINITY : product(a, b) / length;
}

function product(a: readonly number[], b: readonly number[]): number {
  return a.reduce((total, value, i) => total + value * b[i]!, 0);
}
