/**
 * DAPO's soft penalty for answers that come near the length limit.
 *
 * Source: verl, verl/workers/reward_manager/dapo.py. Verified (code). 0 up to max_len − buffer, then falling by `factor` over the
 * buffer and on beyond it: verl does not stop it there (MARTI does).
 * Kept: no floor. Dropped: MARTI’s floor at the buffer. Open: nothing known.
 */

import { Type } from 'typebox';
import { reward } from '../judging/judgement.ts';
import { method } from './method.ts';

export const dapoOverlong = method({
  name: 'dapo_overlong',
  kind: 'reward',
  source: 'DAPO: verl/workers/reward_manager/dapo.py; verified (code)',
  version: 1,
  summary: 'A penalty that grows with the tokens beyond max_len − buffer.',
  params: { max_len: 20480, buffer: 4096, factor: 1 },
  limits: { max_len: Type.Number({ minimum: 0 }), buffer: Type.Number({ exclusiveMinimum: 0 }) },
  input: Type.Object({ length: Type.Number({ minimum: 0 }) }),
  run: ({ length }, { max_len, buffer, factor }): number => {
    const excess = length - (max_len - buffer);
    return excess <= 0 ? 0 : Math.min((-excess / buffer) * factor, 0);
  },
  judged: {
    over: 'episode',
    reads: ['content'],
    writes: ['rewards', 'scores'],
    /** Length in tokens: the token ids of the step, else the usage recorded for its call. */
    each:
      (facts, ask) =>
      ({ steps }) =>
        steps.map((step) => {
          const length = facts.contentOf(step).length ?? null;
          if (length === null) return reward(step, null, 'no_length');
          const value = ask.answer({ length });
          return typeof value === 'string' ? reward(step, null, value) : reward(step, value, null);
        }),
  },
});
