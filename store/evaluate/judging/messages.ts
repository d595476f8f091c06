/** Messages and answers of episodes, as methods over text read them. */

import { groupBy } from '../../../ingest/events/group-by.ts';
import { DECIMAL } from '../consistency/written-number.ts';
import { lastBox } from '../methods/boxed.ts';
import type { EpisodeFacts, StepFacts } from './facts.ts';
import { type Judgement, score } from './judgement.ts';
import type { MethodFacts } from './method-facts.ts';
import { onwardOf } from './over-episodes.ts';

/** A task whose tags hold `choices` (true, or the list of them) is a multiple choice. */
export const isChoice = ({ task_tags }: EpisodeFacts): boolean =>
  task_tags?.choices === true || (Array.isArray(task_tags?.choices) && task_tags.choices.length > 0);

/** The steps that each episode went on from. */
export const messagesOf = ({ steps }: Pick<MethodFacts, 'steps'>): ReadonlyMap<string, readonly StepFacts[]> =>
  new Map([...groupBy(steps, (step) => step.episode_id)].map(([id, own]) => [id, onwardOf(own)]));

type FinalAnswer = { readonly text: string; readonly from: 'episode' | 'last_message' };

/** The answer that an episode ended with; where it names none, what its last message boxes. */
export function answersOf(facts: MethodFacts): (episode: EpisodeFacts) => FinalAnswer | null {
  const messages = messagesOf(facts);
  return ({ episode_id, answer }) => {
    if (answer !== null) return { text: answer, from: 'episode' };
    const last = messages.get(episode_id)?.at(-1);
    const boxed = last && lastBox(facts.contentOf(last).text ?? '');
    return boxed === undefined || boxed === null ? null : { text: boxed, from: 'last_message' };
  };
}

export const isCritic = ({ role }: StepFacts): boolean => role === 'critic';

/**
 * A text that a method makes of a text: it stands in the detail, and is the value where it is a plain decimal. A text that is no number
 * has none, with that reason.
 */
export const textScore = (episode: EpisodeFacts, text: string, detail?: object): Judgement => {
  const plain = DECIMAL.test(text) && Number.isFinite(Number(text));
  return score(`e/${episode.episode_id}`, plain ? Number(text) : null, plain ? null : 'not_a_number', {
    text,
    ...detail,
  });
};

/** The last message of each episode; null for none. */
export function lastTextOf(facts: MethodFacts): (episode: EpisodeFacts) => string | null {
  const messages = messagesOf(facts);
  return ({ episode_id }) => {
    const last = messages.get(episode_id)?.at(-1);
    return last === undefined ? null : facts.contentOf(last).text;
  };
}
