/**
 * How much further an intervention brought a run, in milestones.
 *
 * Source: DoVer, arXiv 2512.06749. Secondary. Between −1 and 1; entries are 0 or 1, at most a handful of milestones.
 * Kept: after less before, over the number of milestones. Dropped: how milestones are found, at most five. Open: read
 * in a secondary account only.
 */

import { Type } from 'typebox';
import { score } from '../../judging/judgement.ts';
import { runsOf } from '../../judging/replays.ts';
import { subgoalsOf } from '../../judging/subgoals.ts';
import { method } from '../method.ts';
import { milestonesGained } from '../milestones.ts';
import { requireRows } from '../refuse.ts';
import { Bit } from '../shapes.ts';

const Milestones = Type.Array(Bit, { minItems: 1 });

export const doverProgress = method({
  name: 'dover_progress',
  kind: 'blame',
  source: 'DoVer: arXiv 2512.06749; secondary',
  version: 1,
  summary: 'Milestones gained by an intervention, as a share of all.',
  input: Type.Object({ before: Milestones, after: Milestones }),
  run: ({ before, after }): number => {
    requireRows('after', after, before.length, 'the milestones of before');
    return milestonesGained(before, after);
  },
  judged: {
    reads: ['observations'],
    writes: ['scores'],
    scope: () => 'set',
    /** Milestones of the run and of its replay, both from what was observed. The number is about the replay. */
    rows: (facts, ask) => {
      const subgoals = subgoalsOf(facts.observations);
      return runsOf(facts).map((run) => {
        const key = `e/${run.episode.episode_id}`;
        if (run.of === null) return score(key, null, 'not_a_replay');
        const [before, after] = [subgoals.met(run.of), subgoals.met(run.episode.episode_id)];
        if (before === null || after === null) return score(key, null, 'no_subgoals');
        const output = ask.answer({ before, after });
        return typeof output === 'string' ? score(key, null, output) : score(key, output, null);
      });
    },
  },
});
