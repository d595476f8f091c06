/**
 * Whether forgetting the history would have helped: a reward for starting again at the right moment.
 *
 * Source: Dr. MAMR, arXiv 2511.02303. Secondary. The sign of z·Δ, with z = 1 for a right outcome and −1 for a wrong one, and Δ the log
 * probability of the final answer with the history masked minus that with it kept.
 * Kept: the sign only; no difference gives 0. Dropped: the two forward passes. Open: read in a secondary account only.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';

const Input = Type.Object({
  correct: Type.Boolean(),
  logp_without_history: Type.Number(),
  logp_with_history: Type.Number(),
});

export const restartReward: Method<Static<typeof Input>, Record<never, never>, number> = {
  name: 'restart_reward',
  kind: 'credit',
  source: 'Dr. MAMR: arXiv 2511.02303; secondary',
  version: 1,
  needs: 'masked log-probabilities of the answer',
  summary: '1 if masking the history makes a right answer likelier or a wrong one less likely, −1 for the contrary.',
  params: {},
  input: Input,
  run: ({ correct, logp_without_history, logp_with_history }) => {
    const sign = Math.sign(logp_without_history - logp_with_history);
    return correct || sign === 0 ? sign : -sign;
  },
};
