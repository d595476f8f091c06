/**
 * Whether replays with an intervention bear out the failure hypothesis behind it.
 *
 * Source: DoVer, arXiv 2512.06749. Secondary. Two successes validate it; otherwise only runs that carried the intervention out count: two with
 * enough progress validate it partially, two without refute it, and anything else says nothing.
 * Kept: three replays of which two decide, progress from 0.2. Dropped: cutting the log into trials, writing and
 * carrying out interventions. Open: read in a secondary account only.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';

const Input = Type.Object({
  runs: Type.Array(Type.Object({ success: Type.Boolean(), fulfilled: Type.Boolean(), progress: Type.Number() })),
});
const params = { min_progress: 0.2, min_runs: 2 };

type Verdict = 'validated' | 'partially_validated' | 'refuted' | 'inconclusive';

export const doverVerdict: Method<Static<typeof Input>, typeof params, Verdict> = {
  name: 'dover_verdict',
  kind: 'blame',
  source: 'DoVer: arXiv 2512.06749; secondary',
  version: 1,
  needs: 'replays of an intervention',
  summary: 'Validated, partially validated, refuted or inconclusive, from the replays of an intervention.',
  params,
  limits: { min_runs: Type.Integer({ minimum: 1 }) },
  input: Input,
  run: ({ runs }, { min_progress, min_runs }) => {
    if (runs.filter(({ success }) => success).length >= min_runs) return 'validated';
    const faithful = runs.filter(({ fulfilled }) => fulfilled);
    const further = faithful.filter(({ progress }) => progress >= min_progress).length;
    if (further >= min_runs) return 'partially_validated';
    return faithful.length - further >= min_runs ? 'refuted' : 'inconclusive';
  },
};
