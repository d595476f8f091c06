/**
 * SiriuS: each agent's library of good steps, from runs that succeeded and from failures that were repaired.
 *
 * Source: zou-group/sirius. Verified (code). A reward above `epsilon` is a success; a failed run counts only through its regenerated
 * steps, and only if those were graded correct. A run without a reward is neither. Regenerating is a model's work and not done here.
 * Kept: one library an agent; a repair counts only when it is right. Dropped: feedback, regeneration and rephrasing.
 * Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { Key, Reward } from '../shapes.ts';
import { groupBy } from '../statistics.ts';

const Steps = Type.Array(Type.Object({ agent: Type.String(), id: Key }));
const Input = Type.Object({
  trajectories: Type.Array(
    Type.Object({
      id: Key,
      reward: Reward,
      steps: Steps,
      regenerated: Type.Optional(Type.Object({ correct: Type.Boolean(), steps: Steps })),
    }),
  ),
});
const params = { epsilon: 0 };

type Library = {
  /** Step ids for each agent, in the order of the trajectories. */
  readonly library: Readonly<Record<string, readonly (string | number)[]>>;
  /** Trajectories that came in through their repair. */
  readonly augmented: readonly (string | number)[];
};

export const siriusLibrary: Method<Static<typeof Input>, typeof params, Library> = {
  name: 'sirius_library',
  kind: 'filter',
  source: 'SiriuS: zou-group/sirius; verified (code)',
  version: 1,
  needs: 'runs and regenerations',
  summary: 'Collects, for each agent, the steps of successful runs and of repaired failures.',
  params,
  input: Input,
  run: ({ trajectories }, { epsilon }) => {
    const graded = trajectories.filter(({ reward }) => reward !== null);
    const repaired = graded.filter(({ reward, regenerated }) => reward! <= epsilon && regenerated?.correct === true);
    const steps = graded.flatMap((run) => {
      if (run.reward! > epsilon) return run.steps;
      return run.regenerated?.correct === true ? run.regenerated.steps : [];
    });
    const byAgent = [...groupBy(steps, ({ agent }) => agent)].map(([agent, own]) => [agent, own.map(({ id }) => id)]);
    return { library: Object.fromEntries(byAgent), augmented: repaired.map(({ id }) => id) };
  },
};
