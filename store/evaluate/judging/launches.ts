/**
 * Rewards and credit along who launched whom: the episodes of a group form a tree by `parent_episode_id`. Only links inside a group
 * count, so that the rating of an episode depends on its group alone. The rating of an episode is copied to its steps.
 */

import { doubtIn } from './group-doubts.ts';
import type { Judgement, OnStep } from './judgement.ts';
import type { MethodFacts } from './method-facts.ts';
import { type GroupMember, onEpisode } from './over-episodes.ts';
import { type Tree, treeOf } from './tree.ts';

export const launches = (members: readonly GroupMember[]): Tree<GroupMember> =>
  treeOf(
    members,
    ({ episode }) => episode.episode_id,
    ({ episode }) => episode.parent_episode_id,
  );

export const rewardOf = ({ episode }: GroupMember) => episode.reward;

export type Rating = { readonly value: number | null; readonly reason: string | null; readonly detail?: unknown };

/** A row for each member; `rate` knows those that the method was asked about. */
export function launchRows(
  row: OnStep,
  members: readonly GroupMember[],
  tree: Tree<GroupMember>,
  rate: (member: GroupMember) => Rating,
): Judgement[] {
  return members.flatMap((member) => {
    const apart = tree.apart.get(member);
    const { value, reason, detail } = apart ? { value: null, reason: apart, detail: undefined } : rate(member);
    return onEpisode(row, member, value, reason, detail);
  });
}

/** Credit in a partial group, or in one of several versions of a policy, has that reason, unless it has a more serious one. */
export const withDoubts = (facts: MethodFacts) => {
  const doubt = doubtIn(facts);
  return ({ episode_id }: { readonly episode_id: string }, reason: string | null): string | null =>
    reason ?? doubt(episode_id);
};
