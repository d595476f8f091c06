/**
 * Trees that grew by replays. Episodes that were played again from places of each other share the steps before the place: together with the
 * group in which the first of them was played they are one tree of steps, whose root is the task. A copied step is its source; the step at a
 * place hangs from the one before it, and every later step from the one before it in its episode. What was changed at its place is no sample,
 * so such an episode is no branch.
 */
import { groupBy } from '../../../ingest/events/group-by.ts';
import { type EpisodeFacts, groupOf, type StepFacts, stepKey } from './facts.ts';
import { rightOf } from './influence.ts';
import type { MethodFacts } from './method-facts.ts';
import { onwardOf } from './over-episodes.ts';
import { tagged } from './replays.ts';

/** Steps that form one tree, and what is known of them. */
export type ReplayTree = {
  /** The episode that the tree stands with: the first of the group that it grew from, or the only one. */
  readonly episode: EpisodeFacts;
  /** All that are part of it. */
  readonly episodes: readonly EpisodeFacts[];
  /** Each with the step that it hangs from. */
  readonly steps: readonly StepFacts[];
  /** Whether the episode that ended with a step came out right; undefined for other steps, and where nobody knows. */
  readonly rightAt: (step: StepFacts) => boolean | undefined;
  /** The mean reward of the episodes that went through a step; null where one of them has none. */
  readonly rewardThrough: (step: StepFacts) => number | null;
};

const isChanged = ({ tags }: EpisodeFacts): boolean => tags?.intervention != null;

/** Episodes that are one tree; `grown` is null where none of them has a step. */
export type Family = {
  readonly members: readonly EpisodeFacts[];
  /** Replays of them in which something was changed: they are no branches. */
  readonly changed: readonly EpisodeFacts[];
  readonly grown: ReplayTree | null;
};

/** The judged episodes by the tree that they belong to; one that nothing was played from is a tree of its own. */
export function familiesOf({ episodes, steps }: Pick<MethodFacts, 'episodes' | 'steps'>): Family[] {
  const own = groupBy(steps, (step) => step.episode_id);
  const known = new Map(episodes.map((episode) => [episode.episode_id, episode]));
  const rootOf = (episode: EpisodeFacts): EpisodeFacts => {
    const seen = new Set<EpisodeFacts>();
    let at = episode;
    for (;;) {
      const source = known.get(tagged(at, 'replay_of') ?? '');
      if (source === undefined || seen.has(source)) return at;
      seen.add(at);
      at = source;
    }
  };
  const roots = new Map(episodes.map((episode) => [episode, rootOf(episode)]));
  const grown = new Set(
    episodes.flatMap((episode) => {
      const root = roots.get(episode)!;
      return root === episode || isChanged(episode) ? [] : [groupOf(root)];
    }),
  );
  const nameOf = (episode: EpisodeFacts): string => {
    const group = groupOf(roots.get(episode)!);
    return grown.has(group) ? `g/${group}` : `e/${episode.episode_id}`;
  };
  return [...groupBy(episodes, nameOf)].map(([name, family]) => {
    if (name.startsWith('e/')) {
      const [episode] = family as [EpisodeFacts];
      const taken = own.get(episode.episode_id);
      return {
        members: family,
        changed: [],
        grown: taken ? { ...ALONE, episode, episodes: family, steps: taken } : null,
      };
    }
    const members = family.filter((episode) => !isChanged(episode)).sort((a, b) => depth(a) - depth(b));
    const empty = members.every(({ episode_id }) => !own.has(episode_id));
    return { members, changed: family.filter(isChanged), grown: empty ? null : grownFrom(members, own) };
  });
}

/** Of a tree within one episode only labels say what came of its leaves. */
const ALONE = { rightAt: () => undefined, rewardThrough: () => null };

/** Whether episodes were played from places of each other. */
export const isGrown = ({ members }: Family): boolean => members.some((one) => tagged(one, 'replay_of') !== null);

/** Those that replay nothing come first. */
const depth = (episode: EpisodeFacts): 0 | 1 => (tagged(episode, 'replay_of') === null ? 0 : 1);

function grownFrom(members: readonly EpisodeFacts[], own: ReadonlyMap<string, readonly StepFacts[]>): ReplayTree {
  const through = new Map<string, (number | null)[]>();
  const right = new Map<string, boolean>();
  const nodes: StepFacts[] = [];
  for (const episode of members) {
    const steps = own.get(episode.episode_id) ?? [];
    const onward = onwardOf(steps);
    for (const { step_id } of onward) through.set(step_id, [...(through.get(step_id) ?? []), episode.reward]);
    const before = new Map(onward.map(({ call_id }, i) => [call_id, onward[i - 1]?.step_id ?? null]));
    nodes.push(
      ...steps
        .filter(({ copied }) => !copied)
        .map((step) => ({ ...step, parent_step_id: step.parent_step_id ?? before.get(step.call_id) ?? null })),
    );
    const last = onward.at(-1);
    const outcome = rightOf(episode);
    if (last !== undefined && !last.copied && outcome !== null)
      right.set(stepKey(last.episode_id, last.step_id), outcome);
  }
  return {
    episode: members[0]!,
    episodes: members,
    steps: nodes,
    rightAt: ({ episode_id, step_id }) => right.get(stepKey(episode_id, step_id)),
    rewardThrough: ({ step_id }) => {
      const rewards = through.get(step_id) ?? [];
      if (rewards.length === 0 || rewards.includes(null)) return null;
      return (rewards as number[]).reduce((sum, reward) => sum + reward, 0) / rewards.length;
    },
  };
}
