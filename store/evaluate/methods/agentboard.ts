/**
 * How much of a task had been reached by each step, at its best moment so far.
 *
 * Source: AgentBoard; the formula is unverified, from general knowledge. Subgoals met at different steps do not add up: each step
 * counts those it meets itself. (The released ALFWorld environment lets them add up, and has one slot more.)
 * Kept: the best step so far. Dropped: the release’s adding up and its extra slot. Open: the formula.
 */

import { Type } from 'typebox';
import { score } from '../judging/judgement.ts';
import { subgoalsOf } from '../judging/subgoals.ts';
import { method } from './method.ts';
import { Bit } from './shapes.ts';
import { mean } from './statistics.ts';

export const progressRate = method({
  name: 'progress_rate',
  kind: 'score',
  source: 'AgentBoard; formula unverified',
  version: 1,
  summary: 'For each step the largest share of subgoals met at any step so far.',
  input: Type.Object({ subgoals_done: Type.Array(Type.Array(Bit, { minItems: 1 })) }),
  run: ({ subgoals_done }): number[] => {
    let best = 0;
    return subgoals_done.map((met) => {
      best = Math.max(best, mean(met));
      return best;
    });
  },
  judged: {
    reads: ['observations'],
    /** The value is how far the run had come at its last moment; every moment stands in the detail. */
    rows: ({ episodes, observations }, ask) => {
      const subgoals = subgoalsOf(observations);
      return episodes.map(({ episode_id }) => {
        const key = `e/${episode_id}`;
        const subgoals_done = subgoals.moments(episode_id);
        if (subgoals_done === null) return score(key, null, 'unreadable_progress');
        if (subgoals_done.length === 0) return score(key, null, 'no_progress');
        const output = ask.answer({ subgoals_done });
        if (typeof output === 'string') return score(key, null, output);
        return score(key, output.at(-1)!, null, { moments: output });
      });
    },
  },
});
