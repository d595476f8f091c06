/**
 * One training set a role, from successful trajectories only.
 *
 * Source: SWE-Dev and most SFT baselines; unverified beyond an essay. Steps keep their order.
 * Kept: success first, then roles. Dropped: the mask, which trains a role on its own tokens only. Open: read in an
 * essay only.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { collected, idOf, runsWithSteps } from '../judging/collected.ts';
import { succeeded } from '../judging/replays.ts';
import { method } from './method.ts';
import { Key } from './shapes.ts';

export const rolewiseSftSelect = method({
  name: 'rolewise_sft_select',
  kind: 'filter',
  source: 'SWE-Dev and most SFT baselines; unverified',
  version: 1,
  summary: 'Groups the steps of successful trajectories by role.',
  teams: 'several agents',
  input: Type.Object({
    trajectories: Type.Array(
      Type.Object({ success: Type.Boolean(), steps: Type.Array(Type.Object({ role: Type.String(), id: Key })) }),
    ),
  }),
  run: ({ trajectories }): Record<string, (string | number)[]> => {
    const steps = trajectories.filter(({ success }) => success).flatMap((run) => run.steps);
    return Object.fromEntries(
      [...groupBy(steps, ({ role }) => role)].map(([role, own]) => [role, own.map(({ id }) => id)]),
    );
  },
  judged: {
    /** The outcome of the episode decides whether it was successful. */
    rows: (facts, ask) =>
      runsWithSteps(facts).flatMap((row) => {
        const success = succeeded(row.episode);
        const steps = [...row.onward].flatMap((step) =>
          step.role === null ? [] : [{ role: step.role, id: idOf(step) }],
        );
        const trajectories = success === null ? [] : [{ success, steps }];
        const output = ask.run({ trajectories });
        const reason = success === null ? 'outcome_unknown' : success ? null : 'not_a_success';
        return collected(row, 'role', new Set(Object.values(output).flat()), reason);
      }),
  },
});
