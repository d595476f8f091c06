/**
 * Whether a round's answers agree enough to stop: more than two thirds of those who may speak give the same one.
 *
 * Source: SALT-NLP/DyLAN, code/demo/LLMLP.py. Verified (code). n is how many agents may speak in the round, not how many have; so 3 of 4,
 * but all 3 of 3. A null answer agrees with nobody.
 * Kept: floor(2n/3), strictly more. Dropped: who may speak in a round, which the ranker says. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { nullable } from '../shapes.ts';
import { groupBy } from '../statistics.ts';

const Input = Type.Object({ answers: Type.Array(nullable(Type.String())), n: Type.Integer({ minimum: 1 }) });

export const dylanConsensus: Method<Static<typeof Input>, Record<never, never>, boolean> = {
  name: 'dylan_consensus',
  kind: 'process',
  source: 'DyLAN: SALT-NLP/DyLAN, code/demo/LLMLP.py; verified (code)',
  version: 1,
  needs: 'answers by round',
  summary:
    'True iff one answer was given by more than two thirds of the agents; stored as 1 or 0 on each step of the round.',
  params: {},
  input: Input,
  run: ({ answers, n }) => {
    const given = groupBy(
      answers.filter((answer) => answer !== null),
      (answer) => answer,
    );
    return [...given.values()].some((same) => same.length > Math.floor((2 * n) / 3));
  },
};
