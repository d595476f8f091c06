/** MARTI (TsinghuaC3I/MARTI): rewards shaped by earlier turns, and MARS² for search trees. */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import type { StepFacts } from '../judging/facts.ts';
import { reward } from '../judging/judgement.ts';
import { EARNED, ownRewardsOf } from '../judging/named-feedback.ts';
import { along, complete, onwardOf } from '../judging/over-episodes.ts';
import { stepTree } from '../judging/search-tree.ts';
import { method } from './method.ts';
import { refuseInput, requireRows } from './refuse.ts';
import { nullable, Reward } from './shapes.ts';
import { mean } from './statistics.ts';

type Name = 'quality' | 'margin' | 'quality_with_outcome' | 'margin_with_outcome';
type Params = { name: Name; alpha: number; beta: number; reward_name: string };
const params: Params = { name: 'quality', alpha: 0.5, beta: 0.5, ...EARNED };

/**
 * Rewards a turn for agreeing with, or rising above, how good the chain was before it.
 *
 * Source: TsinghuaC3I/MARTI, marti/verifiers/auto_reward_alloc.py. Verified (code). Q is the mean of the earlier raw rewards; the
 * first turn is unchanged. quality: R + α(Q·R − (1−Q)(1−R)); margin: R + α(R − Q); `_with_outcome` adds β times the last raw reward
 * to all turns. This is the chain form: in a debate the source takes Q over all agents, in a mixture it leaves the first turn alone.
 * Kept: α = β = 0.5, the raw rewards in Q. Dropped: the forms for debates and mixtures. Open: nothing known.
 */
export const martiShaping = method({
  name: 'marti_shaping',
  kind: 'reward',
  source: 'MARTI: TsinghuaC3I/MARTI, verifiers/auto_reward_alloc.py; verified (code)',
  version: 1,
  summary: 'Shapes each turn’s reward by the mean reward of the turns before it.',
  teams: 'several agents',
  params,
  limits: {
    name: Type.Union([
      Type.Literal('quality'),
      Type.Literal('margin'),
      Type.Literal('quality_with_outcome'),
      Type.Literal('margin_with_outcome'),
    ]),
  },
  input: Type.Object({ rewards: Type.Array(Type.Number()) }),
  run: ({ rewards }, { name, alpha, beta }): number[] => {
    const outcome = name.endsWith('_with_outcome') ? beta * (rewards.at(-1) ?? 0) : 0;
    let earlier = 0;
    return rewards.map((reward, turn) => {
      const quality = earlier / turn;
      earlier += reward;
      if (turn === 0) return reward + outcome;
      const shape = name.startsWith('quality') ? quality * reward - (1 - quality) * (1 - reward) : reward - quality;
      return reward + alpha * shape + outcome;
    });
  },
  judged: {
    over: 'episode',
    reads: ['rewards', 'feedback'],
    writes: ['rewards', 'scores'],
    /** MARTI: the steps that the episode went on from are the chain; each must have a reward of its own. */
    each: (facts, ask) => {
      const ownReward = ownRewardsOf(facts, ask.params);
      return ({ steps }) => {
        const chain = onwardOf(steps);
        const rewards = complete(chain.map(ownReward));
        if (rewards === null) return 'missing_reward';
        return {
          input: { rewards },
          rows: (values) => along(steps, chain, values, { none: 'missing_reward', other: () => 'not_chosen' }),
        };
      };
    },
  },
});

/**
 * Rewards a node of a search tree for rising above its parent and its siblings.
 *
 * Source: MARTI, marti/agent_workflows/ab_mcts_processor.py. Verified (code).
 * Kept: families are processed in the order in which their parents first appear, in place: a child is compared with its parent's
 * shaped reward, while siblings are those of the moment the family starts. The root level has parent −1 and no parent reward; a null
 * parent means no family. A node without a reward keeps none and is nobody's baseline.
 * Dropped: the search that grows the tree. Open: nothing known.
 */
export const mars2TreeShaping = method({
  name: 'mars2_tree_shaping',
  kind: 'reward',
  source: 'MARS²: TsinghuaC3I/MARTI, agent_workflows/ab_mcts_processor.py; verified (code)',
  version: 1,
  summary: 'Adds to each node’s reward a share of what it has over its parent and siblings.',
  teams: 'tree search',
  params: { gamma: 0.5, lam: 0.5, ...EARNED },
  input: Type.Object({ rewards: Type.Array(Reward), parent: Type.Array(nullable(Type.Integer({ minimum: -1 }))) }),
  run: ({ rewards, parent }, { gamma, lam }): (number | null)[] => {
    requireRows('parent', parent, rewards.length, 'rewards');
    const own = parent.findIndex((above, node) => above === node);
    if (own >= 0) refuseInput(`parent[${own}]`, 'another node, −1 or null', own);
    const shaped = [...rewards];
    for (const [above, family] of groupBy([...rewards.keys()], (node) => parent[node]!)) {
      if (above === null) continue;
      if (above >= rewards.length) refuseInput('parent', `−1 to ${rewards.length - 1}`, above);
      const parentReward = above < 0 ? null : shaped[above]!;
      const before = new Map(family.map((node) => [node, shaped[node]!]));
      for (const node of family) {
        const own = before.get(node)!;
        const others = family.filter((other) => other !== node).flatMap((other) => before.get(other) ?? []);
        const baseline = baselineOf(parentReward, others, lam);
        if (own !== null && baseline !== null) shaped[node] = own + gamma * (own - baseline);
      }
    }
    return shaped;
  },
  judged: {
    over: 'replay',
    reads: ['rewards', 'feedback'],
    writes: ['rewards', 'scores'],
    /**
     * MARS²: the step's own reward is that of its node; in a tree that grew by replays, else the mean of the episodes that went through it. A
     * node that hangs from nothing belongs to no family.
     */
    each: (facts, ask) => {
      const ownReward = ownRewardsOf(facts, ask.params);
      return ({ steps, rewardThrough }) => {
        const rewardOf = (step: StepFacts) => ownReward(step) ?? rewardThrough(step);
        const tree = stepTree(steps);
        if (!tree.grown) return 'no_tree';
        const places = new Map(tree.nodes.map((node, i) => [node, i]));
        const parent = tree.nodes.map((node) => places.get(tree.parentOf(node) as StepFacts) ?? -1);
        return {
          input: { rewards: tree.nodes.map(rewardOf), parent },
          rows: (values) =>
            steps.map((step) => {
              const place = places.get(step);
              if (place === undefined) return reward(step, null, tree.apart.get(step) ?? null);
              const value = values[place] ?? null;
              return reward(step, value, value === null ? 'missing_reward' : null);
            }),
        };
      };
    },
  },
});

function baselineOf(parent: number | null, siblings: readonly number[], lam: number): number | null {
  if (siblings.length === 0) return parent;
  return parent === null ? mean(siblings) : (1 - lam) * parent + lam * mean(siblings);
}
