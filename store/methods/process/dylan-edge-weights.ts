/**
 * How much each peer's message counted for an agent, from the ratings it gave them.
 *
 * Source: SALT-NLP/DyLAN, code/demo/LLM_Neuron.py. Verified (code). 1 to 5 becomes rating/5, more becomes 1, anything else 0; a wrong number of
 * ratings makes all of them 0. The weights are divided by their sum; a sum of 0 weighs all peers the same.
 * Kept: the uniform fallback. Dropped: reading ratings out of a message. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { sum } from '../statistics.ts';

const Input = Type.Object({
  ratings: Type.Array(Type.Number()),
  n_peers: Type.Integer({ minimum: 0, maximum: 100_000 }),
});

export const dylanEdgeWeights: Method<Static<typeof Input>, Record<never, never>, number[]> = {
  name: 'dylan_edge_weights',
  kind: 'process',
  source: 'DyLAN: SALT-NLP/DyLAN, code/demo/LLM_Neuron.py; verified (code)',
  version: 1,
  needs: 'peer ratings',
  summary:
    'Peer ratings as weights that sum to 1; stored on each message as the mean weight it had, with each listener’s beside it.',
  params: {},
  input: Input,
  run: ({ ratings, n_peers }) => {
    const rated = ratings.length === n_peers ? ratings : [];
    const weights = rated.map((rating) => (rating < 1 ? 0 : Math.min(rating / 5, 1)));
    const total = sum(weights);
    return Array.from({ length: n_peers }, (_, peer) => (total === 0 ? 1 / n_peers : weights[peer]! / total));
  },
};
