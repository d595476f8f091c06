/** Peer ratings of DyLAN as weights. Source: SALT-NLP/DyLAN, code/demo/LLM_Neuron.py. */
import { sum } from './statistics.ts';

/** Ratings of 1 to 5 as weights that sum to 1; equal ones where not every peer was rated, or all were rated 0. */
export function edgeWeights(ratings: readonly number[], peers: number): number[] {
  const rated = ratings.length === peers ? ratings : [];
  const weights = rated.map((rating) => (rating < 1 ? 0 : Math.min(rating / 5, 1)));
  const total = sum(weights);
  return Array.from({ length: peers }, (_, peer) => (total === 0 ? 1 / peers : weights[peer]! / total));
}
