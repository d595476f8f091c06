/**
 * Rewards and credit along who launched whom: the episodes of a group form a tree by `parent_episode_id`. Only links inside a group
 * count, so that the rating of an episode depends on its group alone. The rating of an episode is copied to its steps.
 */
import type { Assembled } from './assembled.ts';
import { doubtIn } from './group-doubts.ts';
import type { Judgement, OnStep } from './judgement.ts';
import { type Member, onEpisode, overGroups } from './over-episodes.ts';
import { type Tree, treeOf } from './tree.ts';

export const launches = (members: readonly Member[]): Tree<Member> =>
  treeOf(
    members,
    ({ episode }) => episode.episode_id,
    ({ episode }) => episode.parent_episode_id,
  );

export const rewardOf = ({ episode }: Member) => episode.reward;

export type Rating = { readonly value: number | null; readonly reason: string | null; readonly detail?: unknown };

/** A row for each member; `rate` knows those that the method was asked about. */
export function launchRows(
  row: OnStep,
  members: readonly Member[],
  tree: Tree<Member>,
  rate: (member: Member) => Rating,
): Judgement[] {
  return members.flatMap((member) => {
    const apart = tree.apart.get(member);
    const { value, reason, detail } = apart ? { value: null, reason: apart, detail: undefined } : rate(member);
    return onEpisode(row, member, value, reason, detail);
  });
}

/** Credit in a partial group, or in one of several versions of a policy, has that reason, unless it has a more serious one. */
export const withDoubts = (facts: Assembled) => {
  const doubt = doubtIn(facts);
  return ({ episode_id }: { readonly episode_id: string }, reason: string | null): string | null =>
    reason ?? doubt(episode_id);
};

/** What a designer and its executions got: a row for each design, its executions in the order of their ids. */
type DesignsOutput = {
  readonly designer: readonly (number | null)[];
  readonly executor: readonly (number | null)[] | readonly (readonly (number | null)[])[];
};

/**
 * MetaAgent-X: an episode that launched others is a design, those are its executions. `ask` is asked once for each group that has
 * designs. Credit compares designs that were executed equally often; where they were not, the whole group has that reason.
 */
export function overDesigns(
  facts: Assembled,
  row: OnStep,
  ask: (input: { readonly exec_rewards: readonly (readonly (number | null)[])[] }) => DesignsOutput | string,
  { credited }: { readonly credited: boolean },
): Judgement[] {
  const reasonIn = withDoubts(facts);
  return overGroups(facts, row, (members) => {
    const tree = launches(members);
    const designs = tree.roots.filter((member) => tree.childrenOf(member).length > 0);
    if (designs.length === 0) return launchRows(row, members, tree, () => ({ value: null, reason: 'no_executions' }));
    const executions = designs.map((design) => tree.childrenOf(design));
    if (credited && executions.some((own) => own.length !== executions[0]!.length)) return 'uneven_executions';
    const output = ask({ exec_rewards: executions.map((own) => own.map(rewardOf)) });
    if (typeof output === 'string') return output;
    const values = new Map<Member, number | null>();
    const earned = output.executor.flat();
    for (const [d, design] of designs.entries()) values.set(design, output.designer[d] ?? null);
    for (const [i, execution] of executions.flat().entries()) values.set(execution, earned[i] ?? null);
    return launchRows(row, members, tree, (member) => {
      const value = values.get(member);
      if (value === undefined)
        return { value: null, reason: tree.parentOf(member) ? 'not_an_execution' : 'no_executions' };
      if (value === null) return { value, reason: 'missing_reward' };
      const design = tree.parentOf(member);
      const peers = (design === null ? designs : tree.childrenOf(design)).map((peer) => values.get(peer) ?? null);
      const compared = design === null ? peers : executions.flat().map(rewardOf);
      return { value, reason: credited ? reasonIn(member.episode, silence(peers, compared)) : null };
    });
  });
}

/** Why a credit of 0 is no middling one: nobody to be compared with, or all that is compared with each other is equal. */
function silence(peers: readonly (number | null)[], compared: readonly (number | null)[]) {
  if (compared.filter((one) => one !== null).length === 1) return 'group_of_one';
  return peers.every((one) => one === null || one === 0) ? 'zero_variance' : null;
}
