/** MASPRM (milad1378yz/MASPRM): values of a search tree, and the process rewards made of them. */

import { Type } from 'typebox';
import { stepKey } from '../judging/facts.ts';
import { credit, score, verdictOn } from '../judging/judgement.ts';
import { numbersOn } from '../judging/named-feedback.ts';
import { complete, onwardOf } from '../judging/over-episodes.ts';
import { familiesOf } from '../judging/replay-trees.ts';
import { type NodeValue, onEachNode, onNodes, ROOT, type Rollout, stepTree, valued } from '../judging/search-tree.ts';
import { method } from './method.ts';

/** Visits of each node, and the mean of 1 for a right and −1 for a wrong roll-out through it. */
function backedUp({ rollouts }: { readonly rollouts: readonly Rollout[] }): Record<string, NodeValue> {
  const visits = new Map<string, number>();
  const total = new Map<string, number>();
  for (const { path, correct } of rollouts) {
    for (const node of path) {
      visits.set(node, (visits.get(node) ?? 0) + 1);
      total.set(node, (total.get(node) ?? 0) + (correct ? 1 : -1));
    }
  }
  return Object.fromEntries([...visits].map(([node, n]) => [node, { visits: n, q: total.get(node)! / n }]));
}

/**
 * What each node of a search tree is worth, from the roll-outs that passed through it.
 *
 * Source: milad1378yz/MASPRM, src/mcts.py. Verified (code). A roll-out is +1 for a right final answer and −1 otherwise, also when it never
 * ended; q = sum / visits. Building the tree is a model's work and not done here.
 * Kept: ±1 and the mean. Dropped: nothing else of the search; `uct` chooses. Open: nothing known.
 */
export const masprmBackprop = method({
  name: 'masprm_backprop',
  kind: 'process',
  source: 'MASPRM: milad1378yz/MASPRM, src/mcts.py; verified (code)',
  version: 1,
  summary: 'Visits and mean outcome of each node of a search tree.',
  teams: 'tree search',
  input: Type.Object({
    rollouts: Type.Array(Type.Object({ path: Type.Array(Type.String()), correct: Type.Boolean() })),
  }),
  run: (input): Record<string, NodeValue> => backedUp(input),
  judged: {
    over: 'replay',
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    each: (facts, ask) => {
      const valuesOf = valued(facts, (input) => ask.answer(input));
      return (grown) => {
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
      };
    },
  },
});

const Visits = Type.Integer({ minimum: 0 });

/**
 * Which child of a search tree to visit next: its value, and a bonus for having been visited seldom.
 *
 * Source: milad1378yz/MASPRM, src/mcts.py. Verified (code). Visits count as at least 1; c is 2.
 * Kept: c 2. Dropped: choosing the child, which is the caller’s. Open: nothing known.
 */
export const uct = method({
  name: 'uct',
  kind: 'process',
  source: 'MASPRM: milad1378yz/MASPRM, src/mcts.py; verified (code)',
  version: 1,
  summary: 'q plus c times the root of ln(parent visits) over child visits.',
  teams: 'tree search',
  params: { c: 2 },
  input: Type.Object({ q: Type.Number(), parent_visits: Visits, child_visits: Visits }),
  run: ({ q, parent_visits, child_visits }, { c }): number =>
    q + c * Math.sqrt(Math.log(Math.max(parent_visits, 1)) / Math.max(child_visits, 1)),
  judged: {
    over: 'replay',
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    each: (facts, ask) =>
      onEachNode(facts, backedUp, ({ q, visits: child_visits }, { visits: parent_visits }) =>
        ask.answer({ q, parent_visits, child_visits }),
      ),
  },
});

/**
 * The training target of a process reward model for a node: its value on an unbounded scale.
 *
 * Source: milad1378yz/MASPRM, src/train/trainer.py. Verified (code). q is clamped so that a certain node has a finite target. This is the
 * target of the regression losses; the source's default is a binary cross-entropy.
 * Kept: the clamp 0.95. Dropped: the losses, see `trainer/model/losses/value-regression.ts`. Open: nothing known.
 */
export const masprmTarget = method({
  name: 'masprm_target',
  kind: 'process',
  source: 'MASPRM: milad1378yz/MASPRM, src/train/trainer.py; verified (code)',
  version: 1,
  summary: 'atanh of q clamped to ±0.95.',
  teams: 'tree search',
  params: { clamp: 0.95 },
  limits: { clamp: Type.Number({ exclusiveMinimum: 0, exclusiveMaximum: 1 }) },
  input: Type.Object({ q: Type.Number({ minimum: -1, maximum: 1 }) }),
  run: ({ q }, { clamp }): number => Math.atanh(Math.min(Math.max(q, -clamp), clamp)),
  judged: {
    over: 'replay',
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    each: (facts, ask) => onEachNode(facts, backedUp, ({ q }) => ask.answer({ q })),
  },
});

/**
 * Whether a search tree is worth training on: its root is neither always right nor always wrong, and its ends are decided.
 *
 * Source: milad1378yz/MASPRM, src/train/preprocess_data.py. Verified (code). Both limits are included. `leaf_q` holds the values of the
 * terminal leaves, each of which must be exactly −1 or 1; without it only the root is asked.
 * Kept: ±0.7. Dropped: nothing. Open: nothing known.
 */
export const masprmTreeKeep = method({
  name: 'masprm_tree_keep',
  kind: 'process',
  source: 'MASPRM: milad1378yz/MASPRM, src/train/preprocess_data.py; verified (code)',
  version: 1,
  summary: 'Keeps a tree whose root value is within ±0.7 and whose leaves are decided.',
  teams: 'tree search',
  params: { limit: 0.7 },
  limits: { limit: Type.Number({ minimum: 0 }) },
  input: Type.Object({ root_q: Type.Number(), leaf_q: Type.Optional(Type.Array(Type.Number())) }),
  run: ({ root_q, leaf_q }, { limit }): boolean =>
    Math.abs(root_q) <= limit && (leaf_q ?? []).every((q) => Math.abs(q) === 1),
  judged: {
    reads: ['feedback'],
    writes: ['verdicts'],
    /** Whether an episode's tree is worth training on: a verdict, so that a recipe can require it. */
    rows: (facts, ask) => {
      const valuesOf = valued(facts, backedUp);
      return familiesOf(facts).flatMap(({ members, changed, grown }) => {
        const all = (keep: boolean | null, reason: string | null, detail?: unknown) => [
          ...members.map((episode) => verdictOn(episode, keep, reason, detail)),
          ...changed.map((episode) => verdictOn(episode, null, 'intervened')),
        ];
        const found = grown === null ? 'no_tree' : valuesOf(grown);
        if (typeof found === 'string') return all(null, found);
        const leaves = new Set(found.rollouts.map(({ path }) => path.at(-1)!));
        const root_q = found.values[ROOT]!.q;
        const leaf_q = [...leaves].map((id) => found.values[id]!.q);
        const keep = ask.answer({ root_q, leaf_q });
        return typeof keep === 'string' ? all(null, keep) : all(keep, keep ? null : 'root_decided', { root_q });
      });
    },
  },
});

/**
 * How good a path looks to a process reward model: the product of its nodes' values, each brought to 0 … 1.
 *
 * Source: milad1378yz/MASPRM, src/experiments/core.py. Verified (code). No factor is below 1e-6, so that one bad node cannot hide the rest.
 * Kept: the floor of each factor. Dropped: the search that asks for it. Open: nothing known.
 */
export const masprmPathScore = method({
  name: 'masprm_path_score',
  kind: 'process',
  source: 'MASPRM: milad1378yz/MASPRM, src/experiments/core.py; verified (code)',
  version: 1,
  summary: 'Product of (v + 1)/2 over the nodes of a path.',
  teams: 'tree search',
  input: Type.Object({ values: Type.Array(Type.Number({ minimum: -1, maximum: 1 })) }),
  run: ({ values }): number => values.reduce((product, value) => product * Math.max(1e-6, (value + 1) / 2), 1),
  judged: {
    over: 'episode',
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    /**
     * A process reward model's `value` of each step on the way to a step, the step included. Where no tree was recorded the way is that
     * which the episode went.
     */
    each: (facts, ask) => {
      const values = numbersOn(facts.feedback, 'step', 'value');
      return ({ steps }) => {
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
      };
    },
  },
});
