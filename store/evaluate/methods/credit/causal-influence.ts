/**
 * How much a step changes what comes next, averaged over steps like it.
 *
 * Source: Dr. MAMR, arXiv 2511.02303. Secondary. `delta` is log p(next step | history) − log p(next step | history with the step masked),
 * which needs a model's forward pass; `cluster` is the group of each step.
 * Kept: the mean over the steps of a group. Dropped: the forward passes behind `delta`. Open: whether the group of a
 * step crosses trajectories: here it is given by `cluster`.
 */

import { Type } from 'typebox';
import { influencesOf } from '../../judging/influence.ts';
import { credit } from '../../judging/judgement.ts';
import { method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { Key } from '../shapes.ts';
import { meanByCluster } from '../step-influence.ts';

export const causalInfluence = method({
  name: 'causal_influence',
  kind: 'credit',
  source: 'Dr. MAMR: arXiv 2511.02303; secondary',
  version: 1,
  summary: 'Mean change of the next step’s log-probability over the steps of a group.',
  input: Type.Object({ cluster: Type.Array(Key), delta: Type.Array(Type.Number()) }),
  run: ({ cluster, delta }): number[] => {
    requireRows('delta', delta, cluster.length, 'cluster');
    return meanByCluster(cluster, delta);
  },
  judged: {
    reads: ['passes', 'content'],
    rows: (facts, ask) => {
      const influences = influencesOf(facts);
      const known = influences.flatMap(({ cluster, change }) =>
        typeof change === 'string' ? [] : [{ cluster, delta: change.kept - change.masked }],
      );
      const values = ask.run({ cluster: known.map((one) => one.cluster), delta: known.map((one) => one.delta) });
      let place = 0;
      return facts.steps.map((step, i) => {
        const { change } = influences[i]!;
        return typeof change === 'string' ? credit(step, null, change) : credit(step, values[place++] ?? null, null);
      });
    },
  },
});
