/**
 * Rewards and credit along who launched whom: the episodes of a group form a tree by `parent_episode_id`. Only links inside a group
 * count, so that what is said of an episode depends on its group alone. What an episode gets is copied to its steps.
 */
import { groupFlags } from '../methods/group-flags.ts';
import type { Method } from '../methods/method.ts';
import type { Assemble, Assembled, Assemblers } from './assembler.ts';
import type { Judgement } from './judgement.ts';
import { answerTo, type Member, onEpisode, overGroups } from './over-episodes.ts';
import { mixedIn } from './policy-versions.ts';
import { type Tree, treeOf } from './tree.ts';

const launches = (members: readonly Member[]): Tree<Member> =>
  treeOf(
    members,
    ({ episode }) => episode.episode_id,
    ({ episode }) => episode.parent_episode_id,
  );

const rewardOf = ({ episode }: Member) => episode.reward;

type Said = { readonly value: number | null; readonly reason: string | null; readonly detail?: unknown };

/** A row for each member; `say` knows those that the method was asked about. */
function rows(
  method: Method,
  members: readonly Member[],
  tree: Tree<Member>,
  say: (member: Member) => Said,
): Judgement[] {
  return members.flatMap((member) => {
    const apart = tree.apart.get(member);
    const { value, reason, detail } = apart ? { value: null, reason: apart, detail: undefined } : say(member);
    return onEpisode(method, member, value, reason, detail);
  });
}

/** Credit in a group of several versions of a policy says so, where nothing worse is to be said. */
const withPolicies = (facts: Assembled) => {
  const mixed = mixedIn(facts);
  return ({ episode }: Member, reason: string | null) =>
    reason ?? (mixed(episode.episode_id) ? 'mixed_policies' : null);
};

/** What a designer and its executions got: a row for each design, its executions in the order of their ids. */
type DesignsOutput = {
  readonly designer: readonly (number | null)[];
  readonly executor: readonly (number | null)[] | readonly (readonly (number | null)[])[];
};

/**
 * MetaAgent-X: an episode that launched others is a design, those are its executions. Credit compares designs that were executed
 * equally often; where they were not, the whole group says so.
 */
const byDesign: Assemble = (method, params, facts) => {
  const reasonIn = withPolicies(facts);
  return overGroups(method, facts, (members) => {
    const tree = launches(members);
    const designs = tree.roots.filter((member) => tree.childrenOf(member).length > 0);
    if (designs.length === 0) return rows(method, members, tree, () => ({ value: null, reason: 'no_executions' }));
    const executions = designs.map((design) => tree.childrenOf(design));
    const credited = method.kind === 'credit';
    if (credited && executions.some((own) => own.length !== executions[0]!.length)) return 'uneven_executions';
    const exec_rewards = executions.map((own) => own.map(rewardOf));
    const output = answerTo<DesignsOutput>(method, { exec_rewards, ...params });
    if (typeof output === 'string') return output;
    const values = new Map<Member, number | null>();
    const earned = output.executor.flat();
    for (const [d, design] of designs.entries()) values.set(design, output.designer[d] ?? null);
    for (const [i, execution] of executions.flat().entries()) values.set(execution, earned[i] ?? null);
    return rows(method, members, tree, (member) => {
      const value = values.get(member);
      if (value === undefined)
        return { value: null, reason: tree.parentOf(member) ? 'not_an_execution' : 'no_executions' };
      if (value === null) return { value, reason: 'missing_reward' };
      const design = tree.parentOf(member);
      const peers = (design === null ? designs : tree.childrenOf(design)).map((peer) => values.get(peer) ?? null);
      const compared = design === null ? peers : executions.flat().map(rewardOf);
      return { value, reason: credited ? reasonIn(member, silence(peers, compared)) : null };
    });
  });
};

/** Why a credit of 0 is no middling one: nobody to be compared with, or all that is compared with each other is equal. */
function silence(peers: readonly (number | null)[], compared: readonly (number | null)[]) {
  if (compared.filter((one) => one !== null).length === 1) return 'group_of_one';
  return peers.every((one) => one === null || one === 0) ? 'zero_variance' : null;
}

/** MATPO: planners are the episodes that nobody launched; a worker, at whatever depth, shares the fate of its planner. */
const byPlanner: Assemble = (method, params, facts) => {
  const reasonIn = withPolicies(facts);
  return overGroups(method, facts, (members, group) => {
    const tree = launches(members);
    const planners = tree.roots;
    const workers = tree.nodes.filter((member) => tree.parentOf(member) !== null);
    const plannerOf = (member: Member) => tree.pathTo(member)[0]!;
    const main = planners.map((member) => ({ id: member.episode.episode_id, query: group, reward: rewardOf(member) }));
    const output = answerTo<{ main: (number | null)[]; worker: (number | null)[] }>(method, {
      main,
      workers: workers.map((worker) => ({ parent: plannerOf(worker).episode.episode_id })),
      ...params,
    });
    if (typeof output === 'string') return output;
    const values = new Map([
      ...planners.map((planner, i): [Member, number | null] => [planner, output.main[i] ?? null]),
      ...workers.map((worker, i): [Member, number | null] => [worker, output.worker[i] ?? null]),
    ]);
    const flags = groupFlags(
      planners.map(() => group),
      planners.map(rewardOf),
    );
    const flagOf = new Map(planners.map((planner, i) => [planner, flags[i] ?? null]));
    return rows(method, members, tree, (member) => ({
      value: values.get(member) ?? null,
      reason: reasonIn(member, flagOf.get(plannerOf(member)) ?? null),
    }));
  });
};

type Node = { readonly rewards: readonly number[]; readonly children: readonly (Node | null)[] };
/** Deeper trees of joint actions than this are not walked: a method may call itself for each level. */
const DEEPEST = 500;

/**
 * MAGRPO: an episode is a joint action, the group's episodes that nobody launched are those of the root's joint prompt, and the episodes
 * that one launched are those of the prompt it led to. Without such links every group is one node.
 *
 * An action's return is known when its reward is and, where it led on, some return below it is; the others leave their node. The node
 * that an unknown action led to is a root of its own: what is compared there does not depend on what came before.
 */
const byJointAction: Assemble = (method, params, facts) => {
  const reasonIn = withPolicies(facts);
  return overGroups(method, facts, (members) => {
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
    const said = new Map<Member, Said>();
    const starts = [
      tree.roots,
      ...tree.nodes.filter((member) => !known.has(member)).map((member) => tree.childrenOf(member)),
    ];
    for (const family of starts) {
      const root = nodeOf(knownOf(family));
      if (root === null) continue;
      type Returns = { node: string; returns: number[]; advantages: number[] };
      const output = answerTo<Returns[]>(method, { tree: root, ...params });
      if (typeof output === 'string') return output;
      for (const [i, node] of inOrder(root).entries()) {
        const { node: name, returns, advantages } = output[i]!;
        const equal = returns.every((one) => one === returns[0]);
        const flag = returns.length === 1 ? 'group_of_one' : equal ? 'zero_variance' : null;
        for (const [k, member] of families.get(node)!.entries())
          said.set(member, {
            value: advantages[k]!,
            reason: reasonIn(member, flag),
            detail: { node: name, return: returns[k] },
          });
      }
    }
    return rows(method, members, tree, (member) => {
      const reason = rewardOf(member) === null ? 'missing_reward' : 'missing_reward_below';
      return said.get(member) ?? { value: null, reason };
    });
  });
};

/** A node, then its descendants in order: as the method names them. */
const inOrder = (node: Node): Node[] => [
  node,
  ...node.children.flatMap((child) => (child === null ? [] : inOrder(child))),
];

const credited = (over: Assemble) => ({ over, writes: ['credits', 'scores'] as const });
export const LAUNCH_ASSEMBLERS: Assemblers = {
  'designs and executions': { reward: { over: byDesign, writes: ['rewards', 'scores'] }, credit: credited(byDesign) },
  'planner and workers': { credit: credited(byPlanner) },
  'joint actions': { credit: credited(byJointAction) },
};
