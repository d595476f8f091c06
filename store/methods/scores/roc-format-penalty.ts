/**
 * How badly a trajectory marks its answer: one complete pair of answer tags costs nothing, each further pair a turn's share.
 *
 * Source: microsoft/rStar, rstar2_agent/down_sample/roc.py. Verified (code).
 * Kept: 1 for unpaired tags and for no turn. Dropped: counting the tags. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';

const Count = Type.Integer({ minimum: 0 });
const Input = Type.Object({ open_tags: Count, close_tags: Count, closed_pairs: Count, turns: Count });

export const rocFormatPenalty: Method<Static<typeof Input>, Record<never, never>, number> = {
  name: 'roc_format_penalty',
  kind: 'score',
  source: 'GRPO-RoC: microsoft/rStar, down_sample/roc.py; verified (code)',
  version: 1,
  needs: 'answer tags',
  summary: '1 for missing or unpaired answer tags, otherwise the pairs beyond the first per assistant turn, at most 1.',
  params: {},
  input: Input,
  run: ({ open_tags, close_tags, closed_pairs, turns }) => {
    const paired = open_tags > 0 && open_tags === closed_pairs && close_tags === closed_pairs;
    return paired && turns > 0 ? Math.min((closed_pairs - 1) / turns, 1) : 1;
  },
};
