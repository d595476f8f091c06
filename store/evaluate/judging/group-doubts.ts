/**
 * Why credit that compares the members of a group must be read with care although it has a value: members are missing, or they were
 * sampled from several versions of a policy.
 */

import { type EpisodeFacts, groupOf, type StepFacts } from './facts.ts';
import type { MethodFacts } from './method-facts.ts';
import { mixedPolicies } from './policy-versions.ts';

export type GroupDoubt = 'partial_group' | 'mixed_policies';

/** Missing members weigh more: what is compared is not what was to be compared. */
export const doubtOf = (partial: boolean, mixed: boolean): GroupDoubt | null =>
  partial ? 'partial_group' : mixed ? 'mixed_policies' : null;

/** Groups of which fewer members are closed than were announced, by `groupOf`. They are judged once nobody adds to them any more. */
export function partialGroups(episodes: readonly EpisodeFacts[]): ReadonlySet<string> {
  const announced = new Map<string, number>();
  const ended = new Map<string, number>();
  for (const { group_id, group_size, closed } of episodes) {
    if (group_id === null) continue;
    announced.set(group_id, Math.max(announced.get(group_id) ?? 0, group_size ?? 0));
    if (closed) ended.set(group_id, (ended.get(group_id) ?? 0) + 1);
  }
  return new Set([...announced].filter(([group, size]) => (ended.get(group) ?? 0) < size).map(([group]) => group));
}

/** The doubt about the group of an episode. */
export function doubtIn({ episodes, steps }: MethodFacts): (episodeId: string) => GroupDoubt | null {
  const groups = new Map(episodes.map((episode) => [episode.episode_id, groupOf(episode)]));
  const groupOfEpisode = (episodeId: string) => groups.get(episodeId) as string;
  const partial = partialGroups(episodes);
  const mixed = mixedPolicies(steps, (i) => groupOfEpisode((steps[i] as StepFacts).episode_id));
  return (episodeId) => {
    const group = groupOfEpisode(episodeId);
    return doubtOf(partial.has(group), mixed.has(group));
  };
}
