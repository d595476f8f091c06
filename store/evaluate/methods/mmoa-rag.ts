/** MMOA-RAG (chenyiqun/MMOA-RAG): the agents of a retrieval pipeline share the F1 of the answer. */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { stepKey, textOfTruth } from '../judging/facts.ts';
import { score } from '../judging/judgement.ts';
import { answersOf } from '../judging/messages.ts';
import { numbersOn } from '../judging/named-feedback.ts';
import { onwardOf, rewardsByRole } from '../judging/over-episodes.ts';
import { method } from './method.ts';

/**
 * Overlap of two answers as bags of words.
 *
 * Source: chenyiqun/MMOA-RAG, LLaMA-Factory/…/ppo/trainer_qr_s_g.py. Verified (code). Takes texts that are already normalised (lower
 * case, no punctuation, no articles) and splits them at spaces. 0 when a side is empty or nothing is shared.
 * Kept: bags of words. Dropped: the normalisation of the texts. Open: nothing known.
 */
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

/**
 * What the rewriter, the selector and the generator of a retrieval team earn: the shared answer score less their own faults.
 *
 * Source: chenyiqun/MMOA-RAG, LLaMA-Factory/…/ppo/trainer_qr_s_g.py. Verified (code).
 * Kept: the rewriter's penalty applies once; the selector's form is exact (no spaces, ids without leading zeros); an empty selection
 * costs nothing. `subquestions` are those the model wrote: the released loop cuts them before it counts, so that its count penalty
 * never fires. Characters are code points.
 * Dropped: the loop that cuts the subquestions. Open: nothing known.
 */
export const mmoaRewards = method({
  name: 'mmoa_rewards',
  kind: 'reward',
  source: 'MMOA-RAG: chenyiqun/MMOA-RAG, trainer_qr_s_g.py; verified (code)',
  version: 1,
  summary:
    'Shared F1 less a penalty for too many subquestions, a malformed selection, or a long answer; stored on each step of the role.',
  teams: 'retrieval pipeline',
  input: Type.Object({
    f1: Type.Number(),
    subquestions: Type.Array(Type.String()),
    selector: Type.String(),
    k: Type.Integer({ minimum: 0 }),
    answer: Type.String(),
  }),
  run: ({ f1, subquestions, selector, k, answer }) => {
    const characters = subquestions.reduce((total, text) => total + [...text].length, 0);
    const words = answer.split(/\s+/).filter((word) => word !== '').length;
    return {
      rewriter: f1 - (subquestions.length > 4 || characters > 300 ? 0.5 : 0),
      selector: f1 - (selector === '' || selects(selector, k) ? 0 : 1),
      generator: f1 - (words > 30 ? 1 : 0),
    };
  },
  judged: {
    over: 'episode',
    reads: ['content', 'feedback', 'observations'],
    writes: ['rewards', 'scores'],
    /**
     * MMOA-RAG. Subquestions are the lines of the rewriter; `f1` is feedback on the episode; how many documents could be selected is the
     * length of the list that an observation named `documents` holds.
     */
    each: (facts) => {
      const f1s = numbersOn(facts.feedback, 'episode', 'f1');
      return ({ episode, steps }) => {
        const outputOf = (role: string) => {
          const last = onwardOf(steps).findLast((step) => step.role === role);
          return last === undefined ? null : facts.contentOf(last).text;
        };
        const [rewriter, selector, generator] = [outputOf('rewriter'), outputOf('selector'), outputOf('generator')];
        const documents = facts.observations
          .get(episode.episode_id)
          ?.findLast(({ kind, content }) => kind === 'documents' && Array.isArray(content))?.content as
          | unknown[]
          | undefined;
        const f1 = f1s.get(stepKey(episode.episode_id, ''));
        if (f1 === undefined) return 'no_f1';
        if (rewriter === null) return 'no_rewriter';
        if (selector === null) return 'no_selector';
        if (generator === null) return 'no_generator';
        if (documents === undefined) return 'no_documents';
        const lines = rewriter.split('\n').map((line) => line.trim());
        const subquestions = lines.filter((line) => line !== '');
        const input = { f1, subquestions, selector: selector.trim(), k: documents.length, answer: generator };
        return { input, rows: (rewards) => rewardsByRole(steps, rewards) };
      };
    },
  },
});

function selects(text: string, k: number): boolean {
  const ids = text.split(',').map((part) => /^Document(0|[1-9]\d*)$/.exec(part)?.[1]);
  return ids.every((id) => id !== undefined && Number(id) < k) && new Set(ids).size === ids.length;
}
