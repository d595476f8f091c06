/**
 * How much each peer's message counted for an agent, from the ratings it gave them.
 *
 * Source: SALT-NLP/DyLAN, code/demo/LLM_Neuron.py. Verified (code). 1 to 5 becomes rating/5, more becomes 1, anything else 0; a wrong number of
 * ratings makes all of them 0. The weights are divided by their sum; a sum of 0 weighs all peers the same.
 * Kept: the uniform fallback. Dropped: reading ratings out of a message. Open: nothing known.
 */

import { Type } from 'typebox';
import { credit } from '../../judging/judgement.ts';
import { overEpisodes } from '../../judging/over-episodes.ts';
import { listening, onRounds } from '../../judging/rounds.ts';
import { method } from '../method.ts';
import { edgeWeights } from '../peer-ratings.ts';

export const dylanEdgeWeights = method({
  name: 'dylan_edge_weights',
  kind: 'process',
  source: 'DyLAN: SALT-NLP/DyLAN, code/demo/LLM_Neuron.py; verified (code)',
  version: 1,
  summary:
    'Peer ratings as weights that sum to 1; stored on each message as the mean weight it had, with each listener’s beside it.',
  input: Type.Object({
    ratings: Type.Array(Type.Number()),
    n_peers: Type.Integer({ minimum: 0, maximum: 100_000 }),
  }),
  run: ({ ratings, n_peers }): number[] => edgeWeights(ratings, n_peers),
  judged: {
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    /** The credit of a message is the mean weight that it had in those who listened to it, each of which stands beside it. */
    rows: (facts, ask) => {
      const edgesIn = listening(facts, (input) => ask.answer(input));
      return overEpisodes(facts, credit, ({ episode_id }, steps) => {
        const found = edgesIn(episode_id, steps);
        if (typeof found === 'string') return found;
        return onRounds(steps, found.rounds, (agent, t, step) => {
          const weights = found.edges[t]?.[agent];
          if (weights === undefined) return credit(step, null, 'last_round');
          const all = Object.values(weights);
          return credit(step, all.reduce((sum, one) => sum + one, 0) / all.length, null, { weights });
        });
      });
    },
  },
});
