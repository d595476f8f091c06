/**
 * How good a path looks to a process reward model: the product of its nodes' values, each brought to 0 … 1.
 *
 * Source: milad1378yz/MASPRM, src/experiments/core.py. Verified (code). No factor is below 1e-6, so that one bad node cannot hide the rest.
 * Kept: the floor of each factor. Dropped: the search that asks for it. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';

const Input = Type.Object({ values: Type.Array(Type.Number({ minimum: -1, maximum: 1 })) });

export const masprmPathScore: Method<Static<typeof Input>, Record<never, never>, number> = {
  name: 'masprm_path_score',
  kind: 'process',
  source: 'MASPRM: milad1378yz/MASPRM, src/experiments/core.py; verified (code)',
  version: 1,
  needs: 'values along a path',
  summary: 'Product of (v + 1)/2 over the nodes of a path.',
  params: {},
  input: Input,
  run: ({ values }) => values.reduce((product, value) => product * Math.max(1e-6, (value + 1) / 2), 1),
};
