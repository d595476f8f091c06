/**
 * Keeps the queries that are neither too easy nor too hard.
 *
 * Source: ours; the general form of dropping groups without a signal, for outcomes of 0 and 1.
 * The solve rate of a query is the mean outcome of its samples. Without bounds, every query is kept that is sometimes solved and
 * sometimes not; with them, lo ≤ rate ≤ hi, a bound that is null being open. Samples without an outcome are not kept and not counted.
 */

import { Type } from 'typebox';
import { groupOf } from '../judging/facts.ts';
import { verdictsByReward } from '../judging/reward-groups.ts';
import { method } from './method.ts';
import { requireRows } from './refuse.ts';
import { Bit, Key, nullable } from './shapes.ts';
import { groupRows, groupStatistics } from './statistics.ts';

const params: { lo: number | null; hi: number | null } = { lo: null, hi: null };
const Bound = nullable(Type.Number({ minimum: 0, maximum: 1 }));

export const difficultyBand = method({
  name: 'difficulty_band',
  kind: 'filter',
  source: 'ours',
  version: 1,
  summary: 'Keeps the rows of queries whose solve rate lies in a band; by default those solved sometimes.',
  params,
  limits: { lo: Bound, hi: Bound },
  input: Type.Object({ group: Type.Array(Key), outcome: Type.Array(nullable(Bit)) }),
  run: ({ group, outcome }, { lo, hi }): number[] => {
    requireRows('outcome', outcome, group.length, 'group');
    const groups = groupRows(group);
    const { mean } = groupStatistics(groups, outcome, 0);
    const keep = (rate: number) =>
      lo === null && hi === null ? rate > 0 && rate < 1 : rate >= (lo ?? 0) && rate <= (hi ?? 1);
    return outcome.flatMap((one, row) => (one !== null && keep(mean[groups.numbers[row]!]!) ? [row] : []));
  },
  judged: {
    /** Rewards other than 0 and 1 are no outcomes. */
    rows: ({ episodes }, ask) => {
      const outcome = episodes.map(({ reward }) => (reward === 0 || reward === 1 ? reward : null));
      return verdictsByReward(episodes, outcome, ask.run({ group: episodes.map(groupOf), outcome }));
    },
  },
});
