/**
 * How good a path looks to a process reward model: the product of its nodes' values, each brought to 0 … 1.
 *
 * Source: milad1378yz/MASPRM, src/experiments/core.py. Verified (code). No factor is below 1e-6, so that one bad node cannot hide the rest.
 * Kept: the floor of each factor. Dropped: the search that asks for it. Open: nothing known.
 */

import { Type } from 'typebox';
import { stepKey } from '../../judging/facts.ts';
import { credit } from '../../judging/judgement.ts';
import { numbersOn } from '../../judging/named-feedback.ts';
import { complete, onwardOf, overEpisodes } from '../../judging/over-episodes.ts';
import { stepTree } from '../../judging/search-tree.ts';
import { method } from '../method.ts';

export const masprmPathScore = method({
  name: 'masprm_path_score',
  kind: 'process',
  source: 'MASPRM: milad1378yz/MASPRM, src/experiments/core.py; verified (code)',
  version: 1,
  summary: 'Product of (v + 1)/2 over the nodes of a path.',
  input: Type.Object({ values: Type.Array(Type.Number({ minimum: -1, maximum: 1 })) }),
  run: ({ values }): number => values.reduce((product, value) => product * Math.max(1e-6, (value + 1) / 2), 1),
  judged: {
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    /**
     * A process reward model's `value` of each step on the way to a step, the step included. Where no tree was recorded the way is that
     * which the episode went.
     */
    rows: (facts, ask) => {
      const values = numbersOn(facts.feedback, 'step', 'value');
      return overEpisodes(facts, credit, (_, steps) => {
        const tree = stepTree(steps);
        const onward = onwardOf(steps);
        return steps.map((step) => {
          if (tree.apart.has(step)) return credit(step, null, tree.apart.get(step)!);
          if (!tree.grown && !onward.includes(step)) return credit(step, null, 'not_chosen');
          const path = tree.grown ? tree.pathTo(step) : onward.slice(0, onward.indexOf(step) + 1);
          const onPath = complete(path.map(({ episode_id, step_id }) => values.get(stepKey(episode_id, step_id))));
          if (onPath === null) return credit(step, null, 'no_values');
          const value = ask.answer({ values: onPath });
          return typeof value === 'string' ? credit(step, null, value) : credit(step, value, null);
        });
      });
    },
  },
});
