/**
 * mRAG self-training: the best trajectory of each query, if it is good enough.
 *
 * Source: arXiv 2506.10844. Secondary; whether the best of a query, all above a threshold, or both is unverified: both here.
 * The first wins a tie. The threshold 0.5 is ours. A trajectory without a reward cannot be best.
 * Kept: one trajectory a query. Dropped: the reward model and the training of each agent. Open: best, threshold or
 * both.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { Key, Reward } from '../shapes.ts';
import { groupBy } from '../statistics.ts';

const Input = Type.Object({ trajectories: Type.Array(Type.Object({ id: Key, query: Key, reward: Reward })) });
const params = { threshold: 0.5 };

export const mragSelect: Method<Static<typeof Input>, typeof params, (string | number)[]> = {
  name: 'mrag_select',
  kind: 'filter',
  source: 'mRAG: arXiv 2506.10844; secondary',
  version: 1,
  needs: 'judge scores by query',
  summary: 'Keeps the highest-rewarded trajectory of each query, if its reward reaches the threshold.',
  params,
  input: Input,
  run: ({ trajectories }, { threshold }) =>
    [...groupBy(trajectories, ({ query }) => query).values()].flatMap((runs) => {
      const rewarded = runs.filter(({ reward }) => reward !== null);
      const best = rewarded.find(({ reward }) => rewarded.every((other) => other.reward! <= reward!));
      return best !== undefined && best.reward! >= threshold ? [best.id] : [];
    }),
};
