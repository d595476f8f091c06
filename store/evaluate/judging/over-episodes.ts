/** What methods that look at the steps of an episode have in common. */
import { groupBy } from '../../../ingest/events/group-by.ts';
import { type EpisodeFacts, type StepFacts, stepKey } from './facts.ts';
import { type Judgement, type OnStep, reward, score } from './judgement.ts';

/** What an episode without steps has: its reason, in a score. */
export const noSteps = ({ episode_id }: EpisodeFacts, reason = 'no_steps'): Judgement =>
  score(`e/${episode_id}`, null, reason);

export type GroupMember = { readonly episode: EpisodeFacts; readonly steps: readonly StepFacts[] };

/** A value of an episode is copied to its steps; of one without steps it stands in a score. */
export const onEpisode = (
  row: OnStep,
  { episode, steps }: GroupMember,
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
export function rewardsByRole(steps: readonly StepFacts[], rewards: Readonly<Record<string, number>>): Judgement[] {
  const onward = new Set(onwardOf(steps));
  return steps.map((step) => {
    if (step.role === null || !Object.hasOwn(rewards, step.role)) return reward(step, null, 'other_role');
    return onward.has(step) ? reward(step, rewards[step.role] ?? null, null) : reward(step, null, 'not_chosen');
  });
}

/** The rewards of these steps in their order, and a reason for each other step of the episode. */
export function along(
  steps: readonly StepFacts[],
  chain: readonly StepFacts[],
  values: readonly (number | null)[],
  reasons: { readonly none: string; readonly other: (step: StepFacts) => string },
): Judgement[] {
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
