/**
 * One training set a role, from successful trajectories only.
 *
 * Source: SWE-Dev and most SFT baselines; unverified beyond an essay. Steps keep their order.
 * Kept: success first, then roles. Dropped: the mask, which trains a role on its own tokens only. Open: read in an
 * essay only.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { Key } from '../shapes.ts';
import { groupBy } from '../statistics.ts';

const Input = Type.Object({
  trajectories: Type.Array(
    Type.Object({ success: Type.Boolean(), steps: Type.Array(Type.Object({ role: Type.String(), id: Key })) }),
  ),
});

export const rolewiseSftSelect: Method<
  Static<typeof Input>,
  Record<never, never>,
  Record<string, (string | number)[]>
> = {
  name: 'rolewise_sft_select',
  kind: 'filter',
  source: 'SWE-Dev and most SFT baselines; unverified',
  version: 1,
  needs: 'outcomes and roles',
  summary: 'Groups the steps of successful trajectories by role.',
  params: {},
  input: Input,
  run: ({ trajectories }) => {
    const steps = trajectories.filter(({ success }) => success).flatMap((run) => run.steps);
    return Object.fromEntries(
      [...groupBy(steps, ({ role }) => role)].map(([role, own]) => [role, own.map(({ id }) => id)]),
    );
  },
};
