/**
 * How much a step changes what comes next, averaged over steps like it.
 *
 * Source: Dr. MAMR, arXiv 2511.02303. Secondary. `delta` is log p(next step | history) − log p(next step | history with the step masked),
 * which needs a model's forward pass; `cluster` is the group of each step.
 * Kept: the mean over the steps of a group. Dropped: the forward passes behind `delta`. Open: whether the group of a
 * step crosses trajectories: here it is what `cluster` says.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { Key } from '../shapes.ts';
import { groupRows, groupStatistics } from '../statistics.ts';

const Input = Type.Object({ cluster: Type.Array(Key), delta: Type.Array(Type.Number()) });

export const causalInfluence: Method<Static<typeof Input>, Record<never, never>, number[]> = {
  name: 'causal_influence',
  kind: 'credit',
  source: 'Dr. MAMR: arXiv 2511.02303; secondary',
  version: 1,
  needs: 'masked log-probabilities',
  summary: 'Mean change of the next step’s log-probability over the steps of a group.',
  params: {},
  input: Input,
  run: ({ cluster, delta }) => {
    requireRows('delta', delta, cluster.length, 'cluster');
    const groups = groupRows(cluster);
    const { mean } = groupStatistics(groups, delta, 0);
    return Array.from(groups.numbers, (group) => mean[group]!);
  },
};
