/**
 * How far the rewards of a group are spread over their own range: 0 when they agree, 0.25 when half are lowest and half highest.
 *
 * Source: pettingllms-ai/PettingLLMs, core_algo.py. Verified (code). Null rewards are left out; null when none is left.
 * Kept: ddof 0. Dropped: nothing. Open: nothing known.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import { groupOf } from '../../judging/facts.ts';
import { score } from '../../judging/judgement.ts';
import { groupFlags } from '../group-flags.ts';
import { method } from '../method.ts';
import { rangeNormalizedVarianceOf } from '../petting.ts';
import { Reward } from '../shapes.ts';

export const rangeNormalizedVariance = method({
  name: 'range_normalized_variance',
  kind: 'score',
  source: 'PettingLLMs: pettingllms-ai/PettingLLMs, core_algo.py; verified (code)',
  version: 1,
  summary: 'Variance (ddof 0) divided by the squared range; 0 for equal rewards.',
  input: Type.Object({ rewards: Type.Array(Reward) }),
  run: ({ rewards }): number | null => {
    const known = rewards.filter((reward) => reward !== null);
    return known.length === 0 ? null : rangeNormalizedVarianceOf(known);
  },
  judged: {
    rows: ({ episodes }, ask) =>
      [...groupBy(episodes, groupOf)].map(([group, members]) => {
        const rewards = members.map((member) => member.reward);
        if (rewards.every((reward) => reward === null)) return score(`g/${group}`, null, 'missing_reward');
        const value = ask.answer({ rewards });
        if (typeof value === 'string') return score(`g/${group}`, null, value);
        const flag = groupFlags(members.map(groupOf), rewards).find((one) => one !== 'missing_reward') ?? null;
        return score(`g/${group}`, value, flag);
      }),
  },
});
