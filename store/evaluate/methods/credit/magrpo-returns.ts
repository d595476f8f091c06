/**
 * MAGRPO: what a joint action is worth in a tree of joint prompts, compared with the other joint actions of its node.
 *
 * Source: OpenMLRL/CoMLRL, comlrl/trainers/reinforce/magrpo.py. Verified (code).
 * return = reward + γ · mean return of the child node; the same advantage goes to every agent. `mode` and `normalise` compare within a node
 * (`magrpo.ts`). A node is named by its path: child k of node p is p.k.
 * Dropped: ending a branch by its mean reward, which happens while the tree grows. The package comlrl discounts so at 1.3.6; at 1.4.3 it does
 * not discount, which is γ = 1 here.
 * Kept: γ 0.9. Open: nothing known.
 */

import { Type } from 'typebox';
import { jointActions } from '../../judging/joint-actions.ts';
import { credit } from '../../judging/judgement.ts';
import { launches, launchRows, type Rating, rewardOf, withDoubts } from '../../judging/launches.ts';
import { EARNED, ownRewardsOf } from '../../judging/named-feedback.ts';
import { overGroups } from '../../judging/over-episodes.ts';
import { familiesOf, isGrown, overTrees } from '../../judging/replay-trees.ts';
import type { Tree as TreeOf } from '../../judging/tree.ts';
import { MAGRPO_LIMITS, MAGRPO_PARAMS, type MagrpoParams, magrpoAdvantages } from '../magrpo.ts';
import { method } from '../method.ts';
import { refuseInput } from '../refuse.ts';
import { mean } from '../statistics.ts';

type Node = { readonly rewards: readonly number[]; readonly children?: readonly (Node | null)[] };

const Tree = Type.Cyclic(
  {
    Node: Type.Object({
      rewards: Type.Array(Type.Number(), { minItems: 1 }),
      children: Type.Optional(Type.Array(Type.Union([Type.Ref('Node'), Type.Null()]))),
    }),
  },
  'Node',
);
type Options = MagrpoParams & { readonly gamma: number; readonly reward_name: string };
const params: Options = { gamma: 0.9, ...MAGRPO_PARAMS, ...EARNED };

type NodeReturns = {
  readonly node: string;
  readonly returns: readonly number[];
  readonly advantages: readonly number[];
};

export const magrpoReturns = method({
  name: 'magrpo_returns',
  kind: 'credit',
  source: 'MAGRPO: OpenMLRL/CoMLRL, trainers/reinforce/magrpo.py; verified (code)',
  version: 2,
  summary:
    'Discounted returns of joint actions in a tree, minus the mean of their node; stored on each step of the episode.',
  params,
  limits: { gamma: Type.Number({ minimum: 0, maximum: 1 }), ...MAGRPO_LIMITS },
  input: Type.Object({ tree: Tree }),
  run: ({ tree }, options): NodeReturns[] => visit(tree, '0', options),
  judged: {
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    /**
     * MAGRPO: in a tree that replays grew, a joint action is what the agents did in one turn. Elsewhere an episode is one: the group's episodes
     * that nobody launched are those of the root's joint prompt, and the episodes that one launched are those of the prompt it led to. Without
     * such links every group is one node.
     */
    rows: (facts, ask) => {
      const reasonIn = withDoubts(facts);
      const grown = new Set(familiesOf(facts).flatMap((one) => (isGrown(one) ? [...one.members, ...one.changed] : [])));
      const ids = new Set([...grown].map(({ episode_id }) => episode_id));
      const part = (inTrees: boolean) => ({
        episodes: facts.episodes.filter((episode) => grown.has(episode) === inTrees),
        steps: facts.steps.filter(({ episode_id }) => ids.has(episode_id) === inTrees),
        ownRewards: facts.ownRewards,
      });
      const earned = ownRewardsOf(facts, ask.params);
      const byReplay = overTrees(part(true), credit, (one) => {
        const { tree, without } = jointActions(one, earned);
        const ratings = ratingsIn(tree, ({ reward }) => reward, ask);
        if (typeof ratings === 'string') return ratings;
        return [
          ...[...without].map(([step, reason]) => credit(step, null, reason)),
          ...[...tree.apart].flatMap(([{ steps }, reason]) => steps.map((step) => credit(step, null, reason))),
          ...tree.nodes.flatMap((action) => {
            const { value, reason, detail } = ratings.get(action)!;
            return action.steps.map((step) => credit(step, value, reasonIn(step, reason), detail));
          }),
        ];
      });
      const byLaunch = overGroups(part(false), credit, (members) => {
        const tree = launches(members);
        const ratings = ratingsIn(tree, rewardOf, ask);
        if (typeof ratings === 'string') return ratings;
        return launchRows(credit, members, tree, (member) => {
          const rating = ratings.get(member)!;
          return { ...rating, reason: reasonIn(member.episode, rating.reason) };
        });
      });
      return [...byReplay, ...byLaunch];
    },
  },
});

/** The node, then its descendants in order. */
function visit(node: Node, name: string, options: Options): [NodeReturns, ...NodeReturns[]] {
  const children = node.children ?? [];
  if (children.length > node.rewards.length) {
    refuseInput(`node ${name}`, `at most ${node.rewards.length} children, one for each joint action`, children.length);
  }
  const below = node.rewards.map((_, k) => {
    const child = children[k] ?? null;
    return child === null ? [] : visit(child, `${name}.${k}`, options);
  });
  const returns = node.rewards.map((reward, k) => {
    const next = below[k]![0];
    return next === undefined ? reward : reward + options.gamma * mean(next.returns);
  });
  return [{ node: name, returns, advantages: magrpoAdvantages(returns, options) }, ...below.flat()];
}

/** Deeper trees of joint actions than this are not walked: a method may call itself for each level. */
const DEEPEST = 500;

/** A node, then its descendants in order: as the method names them. */
const inOrder = (node: Node): Node[] => [
  node,
  ...(node.children ?? []).flatMap((child) => (child === null ? [] : inOrder(child))),
];

/**
 * Of each joint action in a tree its advantage. Its return is known when its reward is and, where it led on, some return below it is; the others
 * leave their node. The node that an unknown action led to is a root of its own: what is compared there does not depend on what came before.
 */
function ratingsIn<T>(
  tree: TreeOf<T>,
  rewardOf: (action: T) => number | null,
  ask: { answer(input: { readonly tree: Node }): readonly NodeReturns[] | string },
): ReadonlyMap<T, Rating> | string {
  if (tree.nodes.some((action) => tree.pathTo(action).length > DEEPEST)) return 'too_deep';
  const known = new Set<T>();
  const knownOf = (family: readonly T[]) => family.filter((action) => known.has(action));
  // Children before their parents.
  for (const action of [...tree.nodes].sort((a, b) => tree.pathTo(b).length - tree.pathTo(a).length)) {
    const below = tree.childrenOf(action);
    if (rewardOf(action) !== null && (below.length === 0 || knownOf(below).length > 0)) known.add(action);
  }
  const families = new Map<Node, readonly T[]>();
  const nodeOf = (family: readonly T[]): Node | null => {
    if (family.length === 0) return null;
    const node = {
      rewards: family.map((action) => rewardOf(action)!),
      children: family.map((action) => nodeOf(knownOf(tree.childrenOf(action)))),
    };
    families.set(node, family);
    return node;
  };
  const ratings = new Map<T, Rating>();
  const starts = [
    tree.roots,
    ...tree.nodes.filter((action) => !known.has(action)).map((action) => tree.childrenOf(action)),
  ];
  for (const family of starts) {
    const root = nodeOf(knownOf(family));
    if (root === null) continue;
    const output = ask.answer({ tree: root });
    if (typeof output === 'string') return output;
    for (const [i, node] of inOrder(root).entries()) {
      const { node: name, returns, advantages } = output[i]!;
      const equal = returns.every((one) => one === returns[0]);
      const flag = returns.length === 1 ? 'group_of_one' : equal ? 'zero_variance' : null;
      for (const [k, action] of families.get(node)!.entries())
        ratings.set(action, { value: advantages[k]!, reason: flag, detail: { node: name, return: returns[k] } });
    }
  }
  for (const action of tree.nodes)
    if (!ratings.has(action))
      ratings.set(action, {
        value: null,
        reason: rewardOf(action) === null ? 'missing_reward' : 'missing_reward_below',
      });
  return ratings;
}
