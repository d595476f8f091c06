/**
 * DAPO's soft penalty for answers that come near the length limit.
 *
 * Source: verl, verl/workers/reward_manager/dapo.py. Verified (code). 0 up to max_len − buffer, then falling by `factor` over the
 * buffer and on beyond it: verl does not stop it there (MARTI does).
 * Kept: no floor. Dropped: MARTI’s floor at the buffer. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';

const Input = Type.Object({ length: Type.Number({ minimum: 0 }) });
const params = { max_len: 20480, buffer: 4096, factor: 1 };

export const dapoOverlong: Method<Static<typeof Input>, typeof params, number> = {
  name: 'dapo_overlong',
  kind: 'reward',
  source: 'DAPO: verl/workers/reward_manager/dapo.py; verified (code)',
  version: 1,
  needs: 'lengths',
  summary: 'A penalty that grows with the tokens beyond max_len − buffer.',
  params,
  limits: { max_len: Type.Number({ minimum: 0 }), buffer: Type.Number({ exclusiveMinimum: 0 }) },
  input: Input,
  run: ({ length }, { max_len, buffer, factor }) => {
    const excess = length - (max_len - buffer);
    return excess <= 0 ? 0 : Math.min((-excess / buffer) * factor, 0);
  },
};
