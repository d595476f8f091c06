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
import type { Method } from '../method.ts';
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

export const magrpoReturns: Method<{ readonly tree: Node }, typeof params, NodeReturns[]> = {
  name: 'magrpo_returns',
  kind: 'credit',
  source: 'MAGRPO: OpenMLRL/CoMLRL, trainers/reinforce/magrpo.py; verified (code)',
  version: 1,
  needs: 'joint actions',
  summary:
    'Discounted returns of joint actions in a tree, minus the mean of their node; stored on each step of the episode.',
  params,
  limits: {
    gamma: Type.Number({ minimum: 0, maximum: 1 }),
    mode: Type.Union([Type.Literal('mean'), Type.Literal('raw'), Type.Literal('max'), Type.Literal('rloo')]),
  },
  input: Input,
  run: ({ tree }, { gamma, mode }) => visit(tree, '0', gamma, mode),
};

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
