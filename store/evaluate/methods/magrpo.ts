/**
 * MAGRPO (OpenMLRL/CoMLRL): returns of the joint actions of a team, and their advantages.
 *
 * What MAGRPO makes of the returns that are compared with each other: those of a node's joint actions, or the sums of one agent's completions.
 *
 * Source: OpenMLRL/CoMLRL, comlrl/trainers/reinforce/magrpo.py (_compute_advantages and what follows it). Verified (code).
 * `mode` is the baseline: the mean, none, the largest, or the mean of the others. `normalise` is the step that follows in the source, where it
 * is on by default: (A − mean)/max(std ddof 0, 1e-6). A value alone has advantage 0 with `rloo` too, unlike verl's RLOO, and is not normalised.
 *
 * Joint actions in a tree that replays grew: what the agents of a team did in one turn, after what all of them did in the turns before. A replay
 * that goes on from the first step of a turn is another joint action of the same node.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { type StepFacts, stepKey } from '../judging/facts.ts';
import { credit } from '../judging/judgement.ts';
import { launches, launchRows, type Rating, rewardOf, withDoubts } from '../judging/launches.ts';
import { EARNED, listsOn, ownRewardsOf } from '../judging/named-feedback.ts';
import { noSteps } from '../judging/over-episodes.ts';
import { familiesOf, isGrown, type ReplayTree } from '../judging/replay-trees.ts';
import { type Tree as TreeOf, treeOf } from '../judging/tree.ts';
import { walk } from '../judging/walk.ts';
import { method } from './method.ts';
import { refuseInput } from './refuse.ts';
import { largest, mean, standardDeviation } from './statistics.ts';

type Mode = 'mean' | 'raw' | 'max' | 'rloo';
type MagrpoParams = { readonly mode: Mode; readonly normalise: boolean };

const MAGRPO_PARAMS: MagrpoParams = { mode: 'mean', normalise: false };

const MAGRPO_LIMITS = {
  mode: Type.Union([Type.Literal('mean'), Type.Literal('raw'), Type.Literal('max'), Type.Literal('rloo')]),
};

/** One advantage for each return. */
function magrpoAdvantages(returns: readonly number[], { mode, normalise }: MagrpoParams): readonly number[] {
  const advantages = lessBaseline(returns, mode);
  if (!normalise || advantages.length < 2) return advantages;
  const [centre, deviation] = [mean(advantages), Math.max(standardDeviation(advantages, 0), 1e-6)];
  return advantages.map((value) => (value - centre) / deviation);
}

function lessBaseline(returns: readonly number[], mode: Mode): number[] {
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

type JointAction = {
  /** Of an episode and its turn. */
  readonly id: string;
  readonly parent_id: string | null;
  readonly steps: readonly StepFacts[];
  /** Null where nobody knows. */
  readonly reward: number | null;
};

/**
 * @param grown a tree of steps; a step is not in the record of two episodes
 * @param earnedBy what a step earned by itself. Where any step of the tree has such a reward, a joint action earns the sum of those of its steps;
 * where none has, the last one of an episode earns the reward of the episode, and the others nothing of their own.
 * @returns the tree, and the steps that belong to no joint action, with the reason
 */
function jointActions(
  grown: Pick<ReplayTree, 'episodes' | 'steps'>,
  earnedBy: (step: StepFacts) => number | null,
): { readonly tree: TreeOf<JointAction>; readonly without: ReadonlyMap<StepFacts, string> } {
  const byId = new Map(grown.steps.map((step) => [step.step_id, step]));
  const without = new Map<StepFacts, string>();
  const actions: JointAction[] = [];
  const idOf = ({ episode_id, turn }: StepFacts) => stepKey(episode_id, String(turn));
  const rewards = new Map(grown.episodes.map(({ episode_id, reward }) => [episode_id, reward]));
  const isEarned = grown.steps.some((step) => earnedBy(step) !== null);
  for (const [episode_id, own] of groupBy(grown.steps, (step) => step.episode_id)) {
    const last = own.findLast(({ turn }) => turn !== null)?.turn;
    for (const [turn, steps] of groupBy(own, (step) => step.turn)) {
      const before = byId.get(steps[0]!.parent_step_id ?? '');
      // Of an action that others began, its episode has a part only.
      const why = turn === null ? 'no_turn' : before?.turn === turn ? 'within_turn' : null;
      if (why !== null) {
        for (const step of steps) without.set(step, why);
        continue;
      }
      const earned = steps.flatMap((step) => earnedBy(step) ?? []);
      const ofTurn = earned.length === 0 ? null : earned.reduce((sum, one) => sum + one, 0);
      const reward = isEarned ? ofTurn : turn === last ? (rewards.get(episode_id) ?? null) : 0;
      actions.push({ id: idOf(steps[0]!), parent_id: before === undefined ? null : idOf(before), steps, reward });
    }
  }
  return {
    tree: treeOf(
      actions,
      ({ id }) => id,
      ({ parent_id }) => parent_id,
    ),
    without,
  };
}

type TreeNode = { readonly rewards: readonly number[]; readonly children?: readonly (TreeNode | null)[] };

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

const BLANKS = { step: credit, episode: noSteps };

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
export const magrpoReturns = method({
  name: 'magrpo_returns',
  kind: 'credit',
  source: 'MAGRPO: OpenMLRL/CoMLRL, trainers/reinforce/magrpo.py; verified (code)',
  version: 2,
  summary:
    'Discounted returns of joint actions in a tree, minus the mean of their node; stored on each step of the episode.',
  teams: 'agents that act together in turns',
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
      const byReplay = walk('replay', part(true), BLANKS, (one) => {
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
      const byLaunch = walk('group', part(false), BLANKS, ({ members }) => {
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
function visit(node: TreeNode, name: string, options: Options): [NodeReturns, ...NodeReturns[]] {
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
const inOrder = (node: TreeNode): TreeNode[] => [
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
  ask: { answer(input: { readonly tree: TreeNode }): readonly NodeReturns[] | string },
): ReadonlyMap<T, Rating> | string {
  if (tree.nodes.some((action) => tree.pathTo(action).length > DEEPEST)) return 'too_deep';
  const known = new Set<T>();
  const knownOf = (family: readonly T[]) => family.filter((action) => known.has(action));
  // Children before their parents.
  for (const action of [...tree.nodes].sort((a, b) => tree.pathTo(b).length - tree.pathTo(a).length)) {
    const below = tree.childrenOf(action);
    if (rewardOf(action) !== null && (below.length === 0 || knownOf(below).length > 0)) known.add(action);
  }
  const families = new Map<TreeNode, readonly T[]>();
  const nodeOf = (family: readonly T[]): TreeNode | null => {
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

type AgentCredit = { readonly sums: readonly number[]; readonly advantages: readonly number[] };

/**
 * MAGRPO with every agent's completions combined with every other's: what one completion is worth over all its combinations.
 *
 * Source: OpenMLRL/CoMLRL, comlrl/trainers/reinforce/magrpo.py. Verified (code).
 * Rewards are in the order of the index tuples with agent 0 slowest. A completion's value is the sum, not the mean, over its tuples.
 * `mode` and `normalise` compare the sums of one agent's completions (`magrpo.ts`).
 * Kept: the sum over tuples. Dropped: nothing. Open: nothing known.
 */
export const magrpoCross = method({
  name: 'magrpo_cross',
  kind: 'credit',
  source: 'MAGRPO: OpenMLRL/CoMLRL, trainers/reinforce/magrpo.py; verified (code)',
  version: 1,
  summary: 'Sums joint rewards over all combinations of a completion and subtracts its agent’s mean.',
  teams: 'agents that act together in turns',
  params: MAGRPO_PARAMS,
  limits: MAGRPO_LIMITS,
  input: Type.Object({
    k: Type.Integer({ minimum: 1 }),
    agents: Type.Integer({ minimum: 1, maximum: 64 }),
    rewards: Type.Array(Type.Number()),
  }),
  run: ({ k, agents, rewards }, options): AgentCredit[] => {
    const tuples = k ** agents;
    if (rewards.length !== tuples)
      refuseInput('rewards', `${tuples} entries, k to the power of agents`, rewards.length);
    return Array.from({ length: agents }, (_, agent) => {
      const stride = k ** (agents - 1 - agent);
      const sums: number[] = new Array(k).fill(0);
      rewards.forEach((reward, tuple) => {
        sums[Math.floor(tuple / stride) % k]! += reward;
      });
      return { sums, advantages: magrpoAdvantages(sums, options) };
    });
  },
  judged: {
    over: 'episode',
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    /**
     * MAGRPO's crossed form: each agent has one call with the same number of candidates; `joint_rewards` on the episode has an entry for
     * every combination of them, the first agent being the slowest to change.
     */
    each: (facts) => {
      const joint = listsOn(facts.feedback, 'episode', 'joint_rewards');
      return ({ episode: { episode_id }, steps }) => {
        const rewards = joint.get(stepKey(episode_id, ''));
        if (rewards === undefined) return 'no_joint_rewards';
        const agents = [...groupBy(steps, (step) => step.agent ?? '').values()];
        if (agents.some((own) => own.some((step) => step.call_id !== own[0]!.call_id))) return 'several_calls';
        const k = agents[0]!.length;
        if (agents.some((own) => own.length !== k)) return 'uneven_candidates';
        if (rewards.length !== k ** agents.length) return 'uneven_joint_rewards';
        return {
          input: { k, agents: agents.length, rewards },
          rows: (output) =>
            agents.flatMap((own, a) =>
              own.map((step, i) => credit(step, output[a]!.advantages[i]!, null, { sum: output[a]!.sums[i]! })),
            ),
        };
      };
    },
  },
});
