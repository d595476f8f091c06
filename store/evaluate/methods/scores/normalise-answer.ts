/**
 * An answer as it is compared: without surrounding white space, one final full stop, one dollar sign at either end, doubled spaces.
 *
 * Source: ours, for the correctness test of MAS-TTS; each step is done once, in this order, and the dollar signs need not be a pair.
 */

import { Type } from 'typebox';
import { score } from '../../judging/judgement.ts';
import { answersOf, textScore } from '../../judging/messages.ts';
import { normaliseAnswer as normalise } from '../answer.ts';
import { method } from '../method.ts';

export const normaliseAnswer = method({
  name: 'normalise_answer',
  kind: 'score',
  source: 'ours',
  version: 1,
  summary: 'The answer without surrounding space, final full stop, dollar signs and doubled spaces.',
  input: Type.Object({ text: Type.String() }),
  run: ({ text }): string => normalise(text),
  judged: {
    reads: ['content'],
    rows: (facts, ask) => {
      const answerOf = answersOf(facts);
      return facts.episodes.map((episode) => {
        const answer = answerOf(episode);
        if (answer === null) return score(`e/${episode.episode_id}`, null, 'no_answer');
        const text = ask.run({ text: answer.text });
        return textScore(episode, text, { answer_from: answer.from });
      });
    },
  },
});
