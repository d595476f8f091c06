/**
 * What each node of a search tree is worth, from the roll-outs that passed through it.
 *
 * Source: milad1378yz/MASPRM, src/mcts.py. Verified (code). A roll-out is +1 for a right final answer and −1 otherwise, also when it never
 * ended; q = sum / visits. Building the tree is a model's work and not done here.
 * Kept: ±1 and the mean. Dropped: nothing else of the search; `uct` chooses. Open: nothing known.
 */

import { Type } from 'typebox';
import { credit, score } from '../../judging/judgement.ts';
import { overTrees } from '../../judging/replay-trees.ts';
import { onNodes, ROOT, valued } from '../../judging/search-tree.ts';
import { method } from '../method.ts';
import { backedUp, type NodeValue } from '../search-tree.ts';

export const masprmBackprop = method({
  name: 'masprm_backprop',
  kind: 'process',
  source: 'MASPRM: milad1378yz/MASPRM, src/mcts.py; verified (code)',
  version: 1,
  summary: 'Visits and mean outcome of each node of a search tree.',
  input: Type.Object({
    rollouts: Type.Array(Type.Object({ path: Type.Array(Type.String()), correct: Type.Boolean() })),
  }),
  run: (input): Record<string, NodeValue> => backedUp(input),
  judged: {
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    rows: (facts, ask) => {
      const valuesOf = valued(facts, (input) => ask.answer(input));
      return overTrees(facts, credit, (grown) => {
        const found = valuesOf(grown);
        if (typeof found === 'string') return found;
        const { q, visits } = found.values[ROOT]!;
        return [
          score(`e/${grown.episode.episode_id}`, q, null, { visits }),
          ...onNodes(grown.steps, found.tree, (step) => {
            const value = found.values[step.step_id];
            return value === undefined ? null : credit(step, value.q, null, { visits: value.visits });
          }),
        ];
      });
    },
  },
});
