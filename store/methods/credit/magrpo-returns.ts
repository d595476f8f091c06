/**
 * MAGRPO: what a joint action is worth in a tree of joint prompts, compared with the other joint actions of its node.
 *
 * Source: OpenMLRL/CoMLRL, comlrl/trainers/reinforce/magrpo.py. Verified (code).
 * return = reward + γ · mean return of the child node; the same advantage goes to every agent. `mode` is the baseline: the node's mean
 * (aligned mode), none, the node's maximum, or the mean of the others. A node is named by its path: child k of node p is p.k.
 * Dropped: ending a branch by its mean reward, which happens while the tree grows. A node with one joint action has advantage 0, with
 * `rloo` too, unlike verl's RLOO. The package comlrl discounts so at 1.3.6; at 1.4.3 it does not discount, which is γ = 1 here.
 * Kept: γ 0.9, no std. Open: the baseline of one joint action with `rloo`.
 */

import { Type } from 'typebox';
import { credit } from '../../judging/judgement.ts';
import { launches, launchRows, type Rating, rewardOf, withDoubts } from '../../judging/launches.ts';
import { type Member, overGroups } from '../../judging/over-episodes.ts';
import { method } from '../method.ts';
import { refuseInput } from '../refuse.ts';
import { largest, mean } from '../statistics.ts';

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
const Input = Type.Object({ tree: Tree });
type Mode = 'mean' | 'raw' | 'max' | 'rloo';
const params: { gamma: number; mode: Mode } = { gamma: 0.9, mode: 'mean' };

type NodeReturns = {
  readonly node: string;
  readonly returns: readonly number[];
  readonly advantages: readonly number[];
};

export const magrpoReturns = method({
  name: 'magrpo_returns',
  kind: 'credit',
  source: 'MAGRPO: OpenMLRL/CoMLRL, trainers/reinforce/magrpo.py; verified (code)',
  version: 1,
  summary:
    'Discounted returns of joint actions in a tree, minus the mean of their node; stored on each step of the episode.',
  params,
  limits: {
    gamma: Type.Number({ minimum: 0, maximum: 1 }),
    mode: Type.Union([Type.Literal('mean'), Type.Literal('raw'), Type.Literal('max'), Type.Literal('rloo')]),
  },
  input: Input,
  run: ({ tree }, { gamma, mode }): NodeReturns[] => visit(tree, '0', gamma, mode),
  judged: {
    writes: ['credits', 'scores'],
    /**
     * MAGRPO: an episode is a joint action, the group's episodes that nobody launched are those of the root's joint prompt, and the episodes
     * that one launched are those of the prompt it led to. Without such links every group is one node.
     *
     * An action's return is known when its reward is and, where it led on, some return below it is; the others leave their node. The node
     * that an unknown action led to is a root of its own: what is compared there does not depend on what came before.
     */
    rows: (facts, ask) => {
      const reasonIn = withDoubts(facts);
      return overGroups(facts, credit, (members) => {
        const tree = launches(members);
        if (tree.nodes.some((member) => tree.pathTo(member).length > DEEPEST)) return 'too_deep';
        const known = new Set<Member>();
        const knownOf = (family: readonly Member[]) => family.filter((member) => known.has(member));
        // Children before their parents.
        for (const member of [...tree.nodes].sort((a, b) => tree.pathTo(b).length - tree.pathTo(a).length)) {
          const below = tree.childrenOf(member);
          if (rewardOf(member) !== null && (below.length === 0 || knownOf(below).length > 0)) known.add(member);
        }
        const families = new Map<Node, readonly Member[]>();
        const nodeOf = (family: readonly Member[]): Node | null => {
          if (family.length === 0) return null;
          const node = {
            rewards: family.map((member) => rewardOf(member)!),
            children: family.map((member) => nodeOf(knownOf(tree.childrenOf(member)))),
          };
          families.set(node, family);
          return node;
        };
        const ratings = new Map<Member, Rating>();
        const starts = [
          tree.roots,
          ...tree.nodes.filter((member) => !known.has(member)).map((member) => tree.childrenOf(member)),
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
            for (const [k, member] of families.get(node)!.entries())
              ratings.set(member, {
                value: advantages[k]!,
                reason: reasonIn(member, flag),
                detail: { node: name, return: returns[k] },
              });
          }
        }
        return launchRows(credit, members, tree, (member) => {
          const reason = rewardOf(member) === null ? 'missing_reward' : 'missing_reward_below';
          return ratings.get(member) ?? { value: null, reason };
        });
      });
    },
  },
});

/** The node, then its descendants in order. */
function visit(node: Node, name: string, gamma: number, mode: Mode): [NodeReturns, ...NodeReturns[]] {
  const children = node.children ?? [];
  if (children.length > node.rewards.length) {
    refuseInput(`node ${name}`, `at most ${node.rewards.length} children, one for each joint action`, children.length);
  }
  const below = node.rewards.map((_, k) => {
    const child = children[k] ?? null;
    return child === null ? [] : visit(child, `${name}.${k}`, gamma, mode);
  });
  const returns = node.rewards.map((reward, k) => {
    const next = below[k]![0];
    return next === undefined ? reward : reward + gamma * mean(next.returns);
  });
  return [{ node: name, returns, advantages: advantagesOf(returns, mode) }, ...below.flat()];
}

function advantagesOf(returns: readonly number[], mode: Mode): number[] {
  const n = returns.length;
  const centre = mean(returns);
  const best = largest(returns);
  switch (mode) {
    case 'mean':
      return returns.map((value) => value - centre);
    case 'raw':
      return [...returns];
    case 'max':
      return returns.map((value) => value - best);
    case 'rloo':
      return returns.map((value) => (n === 1 ? 0 : ((value - centre) * n) / (n - 1)));
  }
}

/** Deeper trees of joint actions than this are not walked: a method may call itself for each level. */
const DEEPEST = 500;

/** A node, then its descendants in order: as the method names them. */
const inOrder = (node: Node): Node[] => [
  node,
  ...(node.children ?? []).flatMap((child) => (child === null ? [] : inOrder(child))),
];
