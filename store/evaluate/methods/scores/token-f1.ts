/**
 * Overlap of two answers as bags of words.
 *
 * Source: chenyiqun/MMOA-RAG, LLaMA-Factory/…/ppo/trainer_qr_s_g.py. Verified (code). Takes texts that are already normalised (lower
 * case, no punctuation, no articles) and splits them at spaces. 0 when a side is empty or nothing is shared.
 * Kept: bags of words. Dropped: the normalisation of the texts. Open: nothing known.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { textOfTruth } from '../../judging/facts.ts';
import { score } from '../../judging/judgement.ts';
import { answersOf } from '../../judging/messages.ts';
import { method } from '../method.ts';

export const tokenF1 = method({
  name: 'token_f1',
  kind: 'score',
  source: 'MMOA-RAG: chenyiqun/MMOA-RAG, trainer_qr_s_g.py; verified (code)',
  version: 1,
  summary: 'Harmonic mean of precision and recall over words.',
  input: Type.Object({ pred: Type.String(), gold: Type.String() }),
  run: ({ pred, gold }): number => {
    const [predicted, wanted] = [words(pred), words(gold)];
    const left = groupBy(wanted, (word) => word);
    const shared = predicted.filter((word) => left.get(word)?.pop() !== undefined).length;
    return shared === 0 ? 0 : (2 * shared) / (predicted.length + wanted.length);
  },
  judged: {
    reads: ['content'],
    rows: (facts, ask) => {
      const answerOf = answersOf(facts);
      return facts.episodes.map((episode) => {
        const key = `e/${episode.episode_id}`;
        const reference = textOfTruth(episode.ground_truth);
        if (reference === null) return score(key, null, 'no_reference');
        const answer = answerOf(episode);
        if (answer === null) return score(key, null, 'no_answer');
        const value = ask.run({ pred: asWords(answer.text), gold: asWords(reference) });
        return score(key, value, null, { answer_from: answer.from });
      });
    },
  },
});

function words(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== '');
}

/** As the overlap of words is measured: lower case, without punctuation and articles. */
const asWords = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[\p{P}\p{S}]/gu, '')
    .replace(/\b(?:a|an|the)\b/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();
