/**
 * What each node of a search tree is worth, from the roll-outs that passed through it.
 *
 * Source: milad1378yz/MASPRM, src/mcts.py. Verified (code). A roll-out is +1 for a right final answer and −1 otherwise, also when it never
 * ended; q = sum / visits. Building the tree is a model's work and not done here.
 * Kept: ±1 and the mean. Dropped: nothing else of the search; `uct` chooses. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';

const Input = Type.Object({
  rollouts: Type.Array(Type.Object({ path: Type.Array(Type.String()), correct: Type.Boolean() })),
});

type NodeValue = { readonly visits: number; readonly q: number };

export const masprmBackprop: Method<Static<typeof Input>, Record<never, never>, Record<string, NodeValue>> = {
  name: 'masprm_backprop',
  kind: 'process',
  source: 'MASPRM: milad1378yz/MASPRM, src/mcts.py; verified (code)',
  version: 1,
  needs: 'search tree',
  summary: 'Visits and mean outcome of each node of a search tree.',
  params: {},
  input: Input,
  run: ({ rollouts }) => {
    const visits = new Map<string, number>();
    const total = new Map<string, number>();
    for (const { path, correct } of rollouts) {
      for (const node of path) {
        visits.set(node, (visits.get(node) ?? 0) + 1);
        total.set(node, (total.get(node) ?? 0) + (correct ? 1 : -1));
      }
    }
    return Object.fromEntries([...visits].map(([node, n]) => [node, { visits: n, q: total.get(node)! / n }]));
  },
};
