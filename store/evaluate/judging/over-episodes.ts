/** What methods do that look at one episode, or at one group, at a time. */
import { groupBy } from '../../../ingest/events/group-by.ts';
import type { Assembled } from './assembled.ts';
import { type EpisodeFacts, groupOf, type StepFacts, stepKey } from './facts.ts';
import { type Judgement, type OnStep, reward, score } from './judgement.ts';

/** What an episode without steps has: its reason, in a score. */
export const noSteps = ({ episode_id }: EpisodeFacts, reason = 'no_steps'): Judgement =>
  score(`e/${episode_id}`, null, reason);

/** One reason for all of these steps. */
const without = (row: OnStep, steps: readonly StepFacts[], reason: string): Judgement[] =>
  steps.map((step) => row(step, null, reason));

/**
 * Judges each episode by itself; `row` is `reward` or `credit`. A text is the reason why none of its steps has a value. An episode without steps has
 * its reason in a score.
 */
export function overEpisodes(
  facts: Assembled,
  row: OnStep,
  judge: (episode: EpisodeFacts, steps: readonly StepFacts[]) => readonly Judgement[] | string,
): Judgement[] {
  const steps = groupBy(facts.steps, (step) => step.episode_id);
  return facts.episodes.flatMap((episode) => {
    const own = steps.get(episode.episode_id);
    if (own === undefined) return [noSteps(episode, facts.ownRewards ? 'missing_reward' : 'no_steps')];
    const result = judge(episode, own);
    return typeof result === 'string' ? without(row, own, result) : result;
  });
}

export type Member = { readonly episode: EpisodeFacts; readonly steps: readonly StepFacts[] };

/** Judges each group by itself; its episodes with their steps, which may be none. */
export function overGroups(
  facts: Pick<Assembled, 'episodes' | 'steps'>,
  row: OnStep,
  judge: (members: readonly Member[], group: string) => readonly Judgement[] | string,
): Judgement[] {
  const steps = groupBy(facts.steps, (step) => step.episode_id);
  return [...groupBy(facts.episodes, groupOf)].flatMap(([group, episodes]) => {
    const members = episodes.map((episode) => ({ episode, steps: steps.get(episode.episode_id) ?? [] }));
    const result = judge(members, group);
    return typeof result === 'string' ? members.flatMap((member) => onEpisode(row, member, null, result)) : result;
  });
}

/** A value of an episode is copied to its steps; of one without steps it stands in a score. */
export const onEpisode = (
  row: OnStep,
  { episode, steps }: Member,
  value: number | null,
  reason: string | null,
  detail?: unknown,
): Judgement[] =>
  steps.length === 0
    ? [noSteps(episode, value === null && reason !== null ? reason : 'no_steps')]
    : steps.map((step) => row(step, value, reason, detail));

/** The steps that an episode went on from: the chosen candidate of each call, or its only one. */
export function onwardOf(steps: readonly StepFacts[]): StepFacts[] {
  const candidates = groupBy(steps, (step) => step.call_id);
  return steps.filter(({ chosen, call_id }) => chosen ?? candidates.get(call_id)?.length === 1);
}

/** The steps that an episode did not go on from: those that were marked so, and those of a call of which another candidate was chosen. */
export function passedOver(steps: readonly StepFacts[]): ReadonlySet<StepFacts> {
  const callOf = ({ episode_id, call_id }: StepFacts): string => stepKey(episode_id, call_id);
  const decided = new Set(steps.filter(({ chosen }) => chosen === true).map(callOf));
  const isOver = (step: StepFacts) => step.chosen === false || (step.chosen === null && decided.has(callOf(step)));
  return new Set(decided.size === 0 ? steps.filter(({ chosen }) => chosen === false) : steps.filter(isOver));
}

/** A row for every step: those whose role earned something have it, the others have the reason. */
export function rewardsByRole(
  steps: readonly StepFacts[],
  rewards: Readonly<Record<string, number>> | string,
): Judgement[] {
  const onward = new Set(onwardOf(steps));
  return steps.map((step) => {
    if (typeof rewards === 'string') return reward(step, null, rewards);
    if (step.role === null || !Object.hasOwn(rewards, step.role)) return reward(step, null, 'other_role');
    return onward.has(step) ? reward(step, rewards[step.role] ?? null, null) : reward(step, null, 'not_chosen');
  });
}

/** The rewards of these steps in their order, and a reason for each other step of the episode. */
export function along(
  steps: readonly StepFacts[],
  chain: readonly StepFacts[],
  values: readonly (number | null)[] | string,
  reasons: { readonly none: string; readonly other: (step: StepFacts) => string },
): Judgement[] {
  if (typeof values === 'string') return steps.map((step) => reward(step, null, values));
  const places = new Map(chain.map((step, i) => [step, i]));
  return steps.map((step) => {
    const place = places.get(step);
    if (place === undefined) return reward(step, null, reasons.other(step));
    const value = values[place] ?? null;
    return reward(step, value, value === null ? reasons.none : null);
  });
}

/** The values, or null where one of them is missing. */
export function complete<T>(values: readonly (T | null | undefined)[]): T[] | null {
  const known = values.filter((value) => value !== null && value !== undefined);
  return known.length === values.length ? known : null;
}
