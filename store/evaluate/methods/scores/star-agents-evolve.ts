/**
 * Moves the probability of choosing a pair of agents by how good its last sample was.
 *
 * Source: Star-Agents, arXiv 2411.14497. Verified (text). `beta` 0.5 is ours; the result is divided by its sum.
 * Kept: the chosen pair grows, then all are divided. Dropped: nothing. Open: β.
 * Run by hand: its input is the probabilities that the last round left, and a judging keeps no state.
 */

import { Type } from 'typebox';
import { method } from '../method.ts';
import { refuseInput } from '../refuse.ts';
import { sum } from '../statistics.ts';

export const starAgentsEvolve = method({
  name: 'star_agents_evolve',
  kind: 'score',
  source: 'Star-Agents: arXiv 2411.14497; verified (text)',
  version: 1,
  summary: 'Adds beta times the score to the chosen pair’s probability and normalises.',
  params: { beta: 0.5 },
  input: Type.Object({
    p: Type.Array(Type.Number({ minimum: 0 })),
    pair: Type.Integer({ minimum: 0 }),
    score: Type.Number(),
  }),
  run: ({ p, pair, score }, { beta }): number[] => {
    if (pair >= p.length) refuseInput('pair', `a position in p, 0 to ${p.length - 1}`, pair);
    const moved = p.map((value, i) => (i === pair ? value + beta * score : value));
    const total = sum(moved);
    if (moved[pair]! < 0 || total <= 0) refuseInput('score', 'one that leaves probabilities', score);
    return moved.map((value) => value / total);
  },
});
