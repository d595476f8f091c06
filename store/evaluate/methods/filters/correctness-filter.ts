/**
 * Whether each answer is the reference answer.
 *
 * Source: the acceptance test of MAS-TTS (0/1 evaluator score), verified (code); the comparison is ours.
 * Kept: equal as normalised text (case matters), or as plain numbers within 1e-9, or, only with `choices`, the same letter.
 * A null answer is wrong; a null reference is refused, because the verdict is unknown. Dropped: the list of evaluator scores (all ≥ 8),
 * which is a decision about scores and not about an answer, and symbolic equivalence.
 * Open: the normaliser of the paper.
 */

import { Type } from 'typebox';
import { textOfTruth } from '../../judging/facts.ts';
import { verdictOn } from '../../judging/judgement.ts';
import { answersOf, isChoice } from '../../judging/messages.ts';
import { normaliseAnswer, sameAnswer } from '../answer.ts';
import { method } from '../method.ts';
import { nullable } from '../shapes.ts';

export const correctnessFilter = method({
  name: 'correctness_filter',
  kind: 'filter',
  source: 'M500: jincan333/MAS-TTS, acceptance test verified (code); comparison ours',
  version: 1,
  summary: 'For each answer whether it equals the reference as text, as a number, or as a choice.',
  input: Type.Object({
    pairs: Type.Array(
      Type.Object({
        answer: nullable(Type.String()),
        reference: Type.String(),
        choices: Type.Optional(Type.Boolean()),
      }),
    ),
  }),
  run: ({ pairs }): boolean[] =>
    pairs.map(
      ({ answer, reference, choices }) =>
        answer !== null && sameAnswer(normaliseAnswer(answer), normaliseAnswer(reference), choices === true),
    ),
  judged: {
    reads: ['content'],
    rows: (facts, ask) => {
      const answerOf = answersOf(facts);
      return facts.episodes.map((episode) => {
        const reference = textOfTruth(episode.ground_truth);
        if (reference === null) return verdictOn(episode, null, 'no_reference');
        const answer = answerOf(episode);
        const pair = { answer: answer?.text ?? null, reference, ...(isChoice(episode) ? { choices: true } : {}) };
        const [right] = ask.run({ pairs: [pair] });
        const reason = right ? null : answer === null ? 'no_answer' : 'wrong';
        return verdictOn(episode, right ?? null, reason, answer === null ? undefined : { answer_from: answer.from });
      });
    },
  },
});
