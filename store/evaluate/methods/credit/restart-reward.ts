/**
 * Whether forgetting the history would have helped: a reward for starting again at the right moment.
 *
 * Source: Dr. MAMR, arXiv 2511.02303. Secondary. The sign of z·Δ, with z = 1 for a right outcome and −1 for a wrong one, and Δ the log
 * probability of the final answer with the history masked minus that with it kept.
 * Kept: the sign only; no difference gives 0. Dropped: the two forward passes. Open: read in a secondary account only.
 */

import { Type } from 'typebox';
import { answerChangesOf, rightOf } from '../../judging/influence.ts';
import { credit } from '../../judging/judgement.ts';
import { overEpisodes } from '../../judging/over-episodes.ts';
import { method } from '../method.ts';
import { restartSign } from '../step-influence.ts';

export const restartReward = method({
  name: 'restart_reward',
  kind: 'credit',
  source: 'Dr. MAMR: arXiv 2511.02303; secondary',
  version: 1,
  summary: '1 if masking the history makes a right answer likelier or a wrong one less likely, −1 for the contrary.',
  input: Type.Object({
    correct: Type.Boolean(),
    logp_without_history: Type.Number(),
    logp_with_history: Type.Number(),
  }),
  run: ({ correct, logp_without_history, logp_with_history }): number =>
    restartSign(correct, logp_without_history, logp_with_history),
  judged: {
    reads: ['passes'],
    writes: ['credits', 'scores'],
    rows: (facts, ask) => {
      const changeOf = answerChangesOf(facts);
      return overEpisodes(facts, credit, (episode, own) => {
        const correct = rightOf(episode);
        if (correct === null) return 'unknown_outcome';
        return own.map((step) => {
          const change = changeOf(step);
          if (typeof change === 'string') return credit(step, null, change);
          const { masked: logp_without_history, kept: logp_with_history } = change;
          const value = ask.answer({ correct, logp_without_history, logp_with_history });
          return typeof value === 'string' ? credit(step, null, value) : credit(step, value, null);
        });
      });
    },
  },
});
