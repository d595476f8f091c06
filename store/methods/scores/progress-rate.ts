/**
 * How much of a task had been reached by each step, at its best moment so far.
 *
 * Source: AgentBoard; the formula is unverified, from general knowledge. Subgoals met at different steps do not add up: each step
 * counts those it meets itself. (The released ALFWorld environment lets them add up, and has one slot more.)
 * Kept: the best step so far. Dropped: the release’s adding up and its extra slot. Open: the formula.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { Bit } from '../shapes.ts';
import { mean } from '../statistics.ts';

const Input = Type.Object({ subgoals_done: Type.Array(Type.Array(Bit, { minItems: 1 })) });

export const progressRate: Method<Static<typeof Input>, Record<never, never>, number[]> = {
  name: 'progress_rate',
  kind: 'score',
  source: 'AgentBoard; formula unverified',
  version: 1,
  needs: 'subgoals',
  summary: 'For each step the largest share of subgoals met at any step so far.',
  params: {},
  input: Input,
  run: ({ subgoals_done }) => {
    let best = 0;
    return subgoals_done.map((met) => {
      best = Math.max(best, mean(met));
      return best;
    });
  },
};
