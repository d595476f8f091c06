/** From what was said and answered to filters of episodes and of messages, and to scores. */
import { canonicalAnswer } from '../consistency/canonical-answer.ts';
import { criticAgrees } from '../methods/filters/critic-agrees.ts';
import { runMethod } from '../methods/run.ts';
import { boxedAnswer } from '../methods/scores/boxed-answer.ts';
import { groupBy } from '../methods/statistics.ts';
import { textOfTruth } from './answers.ts';
import type { Assemble, Assembled, Assemblers } from './assembler.ts';
import { type EpisodeFacts, groupOf, type StepFacts } from './facts.ts';
import { type Judgement, score, verdictOn } from './judgement.ts';
import { onwardOf } from './over-episodes.ts';

/** A task whose tags say `choices` (true, or the list of them) is a multiple choice. */
const isChoice = ({ task_tags }: EpisodeFacts): boolean =>
  task_tags?.choices === true || (Array.isArray(task_tags?.choices) && task_tags.choices.length > 0);

/** Two spellings of one answer are one answer, so that they can be counted together. */
const byAnswers: Assemble = (method, params, { episodes }) =>
  [...groupBy(episodes, groupOf)].map(([group, members]) => {
    const answers = members.map((member) =>
      member.answer === null ? null : canonicalAnswer(member.answer, { choices: isChoice(member) }),
    );
    const output = runMethod(method, { answers, ...params }) as { score: number };
    return answers.every((answer) => answer === null)
      ? score(`g/${group}`, null, 'no_answers', output)
      : score(`g/${group}`, output.score, null, output);
  });

/** The steps that each episode went on from. */
const messagesOf = (steps: readonly StepFacts[]): ReadonlyMap<string, readonly StepFacts[]> =>
  new Map([...groupBy(steps, (step) => step.episode_id)].map(([id, own]) => [id, onwardOf(own)]));

type Answer = { readonly text: string; readonly from: 'episode' | 'last_message' };

/** The answer that an episode ended with; where it names none, what its last message boxes. */
function answersOf({ steps, contentOf }: Assembled): (episode: EpisodeFacts) => Answer | null {
  const messages = messagesOf(steps);
  return ({ episode_id, answer }) => {
    if (answer !== null) return { text: answer, from: 'episode' };
    const last = messages.get(episode_id)?.at(-1);
    const boxed = last && runMethod(boxedAnswer, { text: contentOf(last).text ?? '' });
    return boxed === undefined || boxed === null ? null : { text: boxed, from: 'last_message' };
  };
}

const byReference: Assemble = (method, params, facts) => {
  const answerOf = answersOf(facts);
  return facts.episodes.map((episode) => {
    const reference = textOfTruth(episode.ground_truth);
    if (reference === null) return verdictOn(episode, null, 'no_reference');
    const answer = answerOf(episode);
    const pair = { answer: answer?.text ?? null, reference, ...(isChoice(episode) ? { choices: true } : {}) };
    const [right] = runMethod(method, { pairs: [pair], ...params }) as boolean[];
    const reason = right ? null : answer === null ? 'no_answer' : 'wrong';
    return verdictOn(episode, right ?? null, reason, answer === null ? undefined : { answer_from: answer.from });
  });
};

/** As the overlap of words is measured: lower case, without punctuation and articles. */
const asWords = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[\p{P}\p{S}]/gu, '')
    .replace(/\b(?:a|an|the)\b/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();

const byOverlap: Assemble = (method, params, facts) => {
  const answerOf = answersOf(facts);
  return facts.episodes.map((episode) => {
    const key = `e/${episode.episode_id}`;
    const reference = textOfTruth(episode.ground_truth);
    if (reference === null) return score(key, null, 'no_reference');
    const answer = answerOf(episode);
    if (answer === null) return score(key, null, 'no_answer');
    const value = runMethod(method, { pred: asWords(answer.text), gold: asWords(reference), ...params }) as number;
    return score(key, value, null, { answer_from: answer.from });
  });
};

/** The last message must box its answer. */
const byMessages: Assemble = (method, params, { episodes, steps, contentOf }) => {
  const messages = messagesOf(steps);
  return episodes.map((episode) => {
    const texts = (messages.get(episode.episode_id) ?? []).map((step) => contentOf(step).text ?? '');
    if (texts.length === 0) return verdictOn(episode, null, 'no_messages');
    const marked = texts.map((text, i) => ({ text, needs_box: i === texts.length - 1 }));
    const output = runMethod(method, { messages: marked, ...params }) as { pass: boolean; bad: number[] };
    return verdictOn(episode, output.pass, output.pass ? null : 'bad_format', output);
  });
};

const isCritic = ({ role }: StepFacts): boolean => role === 'critic';

/**
 * Critics are the messages of role critic. A round is a turn; in an episode that does not number all of them, the n-th message of each
 * critic belongs to round n.
 */
const byCriticRounds: Assemble = (method, params, { episodes, steps, contentOf }) => {
  const messages = messagesOf(steps);
  return episodes.map((episode) => {
    const critics = (messages.get(episode.episode_id) ?? []).filter(isCritic);
    if (critics.length === 0) return verdictOn(episode, null, 'no_critics');
    const rounds = roundsOf(critics).map((round) =>
      round.map((step) => {
        const content = contentOf(step).text ?? '';
        return { agree: runMethod(criticAgrees, { text: content }), content };
      }),
    );
    const output = runMethod(method, { rounds, ...params }) as { pass: boolean; round: number | null };
    return verdictOn(episode, output.pass, output.pass ? null : 'no_consensus', output);
  });
};

function roundsOf(critics: readonly StepFacts[]): StepFacts[][] {
  const numbered = critics.every((step) => step.turn !== null);
  const spoken = new Map<string, number>();
  const roundOf = (step: StepFacts): number => {
    if (numbered) return step.turn!;
    const nth = spoken.get(step.agent ?? '') ?? 0;
    spoken.set(step.agent ?? '', nth + 1);
    return nth;
  };
  return [...groupBy(critics, roundOf)].sort(([a], [b]) => a - b).map(([, round]) => round);
}

/** A verdict on each critic's message; an episode without critics has its reason. */
const byCriticMessage: Assemble = (method, params, { episodes, steps, contentOf }) => {
  const critics = groupBy(steps.filter(isCritic), (step) => step.episode_id);
  return episodes.flatMap((episode): Judgement[] => {
    const own = critics.get(episode.episode_id);
    if (own === undefined) return [verdictOn(episode, null, 'no_critics')];
    return own.map((step) => {
      const { text } = contentOf(step);
      if (text === null) return verdictOn(step, null, 'no_text');
      const agrees = runMethod(method, { text, ...params }) as boolean;
      return verdictOn(step, agrees, agrees ? null : 'disagrees');
    });
  });
};

/**
 * A text that a method makes of a text: it stands in the detail, and is the value where it is a plain decimal. A text that is no number
 * has none, and says so.
 */
const textScore = (episode: EpisodeFacts, text: string, detail?: object): Judgement => {
  const plain = /^[+-]?(\d+\.?\d*|\.\d+)$/.test(text) && Number.isFinite(Number(text));
  return score(`e/${episode.episode_id}`, plain ? Number(text) : null, plain ? null : 'not_a_number', {
    text,
    ...detail,
  });
};

const byLastMessage: Assemble = (method, params, { episodes, steps, contentOf }) => {
  const messages = messagesOf(steps);
  return episodes.map((episode) => {
    const key = `e/${episode.episode_id}`;
    const last = messages.get(episode.episode_id)?.at(-1);
    if (last === undefined) return score(key, null, 'no_messages');
    const { text } = contentOf(last);
    if (text === null) return score(key, null, 'no_text');
    const found = runMethod(method, { text, ...params }) as string | null;
    return found === null
      ? score(key, null, 'no_boxed_answer', { step_id: last.step_id })
      : textScore(episode, found, { step_id: last.step_id });
  });
};

const byFinalAnswer: Assemble = (method, params, facts) => {
  const answerOf = answersOf(facts);
  return facts.episodes.map((episode) => {
    const answer = answerOf(episode);
    if (answer === null) return score(`e/${episode.episode_id}`, null, 'no_answer');
    const text = runMethod(method, { text: answer.text, ...params }) as string;
    return textScore(episode, text, { answer_from: answer.from });
  });
};

const reads = ['content'] as const;
export const TEXT_ASSEMBLERS: Assemblers = {
  answers: { score: { over: byAnswers } },
  'answer and reference': { filter: { over: byReference, reads }, score: { over: byOverlap, reads } },
  messages: { filter: { over: byMessages, reads } },
  'critic rounds': { filter: { over: byCriticRounds, reads } },
  'critic messages': { filter: { over: byCriticMessage, reads } },
  'last message': { score: { over: byLastMessage, reads } },
  'final answer': { score: { over: byFinalAnswer, reads } },
};
