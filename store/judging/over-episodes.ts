/** What assemblers do that look at one episode, or at one group, at a time. */
import { TroupeError } from '../../errors.ts';
import type { Method } from '../methods/method.ts';
import { groupBy } from '../methods/statistics.ts';
import { attempt } from './answers.ts';
import type { Assembled } from './assembler.ts';
import { type EpisodeFacts, groupOf, type StepFacts } from './facts.ts';
import { credit, type Judgement, reward, score } from './judgement.ts';

/** What a method says of a step, in the table of its kind. */
export const onStep = (
  method: Method,
  step: StepFacts,
  value: number | null,
  reason: string | null,
  detail?: unknown,
): Judgement => (method.kind === 'reward' ? reward : credit)(step, value, reason, detail);

/** What an episode without steps has: its reason, in a score. */
export const noSteps = ({ episode_id }: EpisodeFacts, reason = 'no_steps'): Judgement =>
  score(`e/${episode_id}`, null, reason);

/** One reason for all of these steps. */
export const unsaid = (method: Method, steps: readonly StepFacts[], reason: string): Judgement[] =>
  steps.map((step) => onStep(method, step, null, reason));

/**
 * Judges each episode by itself. A text is the reason why nothing can be said of any of its steps. An episode without steps has
 * its reason in a score.
 */
export function overEpisodes(
  method: Method,
  facts: Assembled,
  say: (episode: EpisodeFacts, steps: readonly StepFacts[]) => readonly Judgement[] | string,
): Judgement[] {
  const steps = groupBy(facts.steps, (step) => step.episode_id);
  return facts.episodes.flatMap((episode) => {
    const own = steps.get(episode.episode_id);
    if (own === undefined) return [noSteps(episode, facts.ownRewards ? 'missing_reward' : 'no_steps')];
    const said = say(episode, own);
    return typeof said === 'string' ? unsaid(method, own, said) : said;
  });
}

export type Member = { readonly episode: EpisodeFacts; readonly steps: readonly StepFacts[] };

/** Judges each group by itself; its episodes with their steps, which may be none. */
export function overGroups(
  method: Method,
  facts: Assembled,
  say: (members: readonly Member[], group: string) => readonly Judgement[] | string,
): Judgement[] {
  const steps = groupBy(facts.steps, (step) => step.episode_id);
  return [...groupBy(facts.episodes, groupOf)].flatMap(([group, episodes]) => {
    const members = episodes.map((episode) => ({ episode, steps: steps.get(episode.episode_id) ?? [] }));
    const said = say(members, group);
    return typeof said === 'string' ? members.flatMap((member) => onEpisode(method, member, null, said)) : said;
  });
}

/** A value of an episode is copied to its steps; of one without steps it stands in a score. */
export const onEpisode = (
  method: Method,
  { episode, steps }: Member,
  value: number | null,
  reason: string | null,
  detail?: unknown,
): Judgement[] =>
  steps.length === 0
    ? [noSteps(episode, value === null && reason !== null ? reason : 'no_steps')]
    : steps.map((step) => onStep(method, step, value, reason, detail));

/** The method's answer, or in a text why it refused the input. */
export function answerTo<T extends object | number | boolean | null>(method: Method, input: unknown): T | string {
  const output = attempt(method, input);
  return output instanceof TroupeError ? output.message : (output as T);
}

/** The steps that an episode went on from: the chosen candidate of each call, or its only one. */
export function onwardOf(steps: readonly StepFacts[]): StepFacts[] {
  const candidates = groupBy(steps, (step) => step.call_id);
  return steps.filter(({ chosen, call_id }) => chosen ?? candidates.get(call_id)?.length === 1);
}
