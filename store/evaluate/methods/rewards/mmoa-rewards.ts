/**
 * What the rewriter, the selector and the generator of a retrieval team earn: the shared answer score less their own faults.
 *
 * Source: chenyiqun/MMOA-RAG, LLaMA-Factory/…/ppo/trainer_qr_s_g.py. Verified (code).
 * Kept: the rewriter's penalty applies once; the selector's form is exact (no spaces, ids without leading zeros); an empty selection
 * costs nothing. `subquestions` are those the model wrote: the released loop cuts them before it counts, so that its count penalty
 * never fires. Characters are code points.
 * Dropped: the loop that cuts the subquestions. Open: nothing known.
 */

import { Type } from 'typebox';
import { stepKey } from '../../judging/facts.ts';
import { reward } from '../../judging/judgement.ts';
import { numbersOn } from '../../judging/named-feedback.ts';
import { onwardOf, overEpisodes, rewardsByRole } from '../../judging/over-episodes.ts';
import { method } from '../method.ts';

type Rewards = { readonly rewriter: number; readonly selector: number; readonly generator: number };

export const mmoaRewards = method({
  name: 'mmoa_rewards',
  kind: 'reward',
  source: 'MMOA-RAG: chenyiqun/MMOA-RAG, trainer_qr_s_g.py; verified (code)',
  version: 1,
  summary:
    'Shared F1 less a penalty for too many subquestions, a malformed selection, or a long answer; stored on each step of the role.',
  input: Type.Object({
    f1: Type.Number(),
    subquestions: Type.Array(Type.String()),
    selector: Type.String(),
    k: Type.Integer({ minimum: 0 }),
    answer: Type.String(),
  }),
  run: ({ f1, subquestions, selector, k, answer }): Rewards => {
    const characters = subquestions.reduce((total, text) => total + [...text].length, 0);
    const words = answer.split(/\s+/).filter((word) => word !== '').length;
    return {
      rewriter: f1 - (subquestions.length > 4 || characters > 300 ? 0.5 : 0),
      selector: f1 - (selector === '' || selects(selector, k) ? 0 : 1),
      generator: f1 - (words > 30 ? 1 : 0),
    };
  },
  judged: {
    reads: ['content', 'feedback', 'observations'],
    writes: ['rewards', 'scores'],
    /**
     * MMOA-RAG. Subquestions are the lines of the rewriter; `f1` is feedback on the episode; how many documents could be selected is the
     * length of the list that an observation named `documents` holds.
     */
    rows: (facts, ask) => {
      const f1s = numbersOn(facts.feedback, 'episode', 'f1');
      return overEpisodes(facts, reward, (episode, steps) => {
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
        return rewardsByRole(steps, ask.answer(input));
      });
    },
  },
});

function selects(text: string, k: number): boolean {
  const ids = text.split(',').map((part) => /^Document(0|[1-9]\d*)$/.exec(part)?.[1]);
  return ids.every((id) => id !== undefined && Number(id) < k) && new Set(ids).size === ids.length;
}
