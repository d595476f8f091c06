/**
 * Picks traces so that no category takes more than its turn.
 *
 * Source: the M500 text names diversity as a criterion and publishes no algorithm; this one is ours. Unverified.
 * Each category is sorted by score, best first (stable), then the categories are visited in ascending name order, one item a visit.
 * Kept: the criterion. Dropped: nothing. Open: the algorithm.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { Key } from '../shapes.ts';
import { groupBy, stableOrder } from '../statistics.ts';

const Input = Type.Object({
  items: Type.Array(Type.Object({ id: Key, category: Type.String(), score: Type.Number() })),
});
const params = { n: 500 };

export const diversitySelect: Method<Static<typeof Input>, typeof params, (string | number)[]> = {
  name: 'diversity_select',
  kind: 'filter',
  source: 'ours, for the diversity criterion of M500 (MAS-TTS); unverified',
  version: 1,
  needs: 'categories and scores',
  summary: 'Takes the best of each category in turn until n are taken.',
  params,
  limits: { n: Type.Integer({ minimum: 0 }) },
  input: Input,
  run: ({ items }, { n }) => {
    const byCategory = groupBy(items, ({ category }) => category);
    const queues = [...byCategory.keys()].sort(byCodeUnits).map((category) => {
      const members = byCategory.get(category)!;
      return stableOrder(members, ({ score }) => score, 'descending').map((i) => members[i]!.id);
    });
    const longest = queues.reduce((most, queue) => Math.max(most, queue.length), 0);
    const rounds = Array.from({ length: longest }, (_, round) =>
      queues.flatMap((queue) => queue.slice(round, round + 1)),
    );
    return rounds.flat().slice(0, n);
  },
};

function byCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
