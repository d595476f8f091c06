/**
 * How much further an intervention brought a run, in milestones.
 *
 * Source: DoVer, arXiv 2512.06749. Secondary. Between −1 and 1; entries are 0 or 1, at most a handful of milestones.
 * Kept: after less before, over the number of milestones. Dropped: how milestones are found, at most five. Open: read
 * in a secondary account only.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { Bit } from '../shapes.ts';
import { sum } from '../statistics.ts';

const Milestones = Type.Array(Bit, { minItems: 1 });
const Input = Type.Object({ before: Milestones, after: Milestones });

export const doverProgress: Method<Static<typeof Input>, Record<never, never>, number> = {
  name: 'dover_progress',
  kind: 'blame',
  source: 'DoVer: arXiv 2512.06749; secondary',
  version: 1,
  needs: 'subgoals before and after',
  summary: 'Milestones gained by an intervention, as a share of all.',
  params: {},
  input: Input,
  run: ({ before, after }) => {
    requireRows('after', after, before.length, 'the milestones of before');
    return (sum(after) - sum(before)) / before.length;
  },
};
