/**
 * How badly a trajectory marks its answer: one complete pair of answer tags costs nothing, each further pair a turn's share.
 *
 * Source: microsoft/rStar, rstar2_agent/down_sample/roc.py. Verified (code).
 * Kept: 1 for unpaired tags and for no turn. Dropped: counting the tags. Open: nothing known.
 */

import { Type } from 'typebox';
import { score } from '../../judging/judgement.ts';
import { stepsOf, tagInput } from '../../judging/penalties.ts';
import { method } from '../method.ts';
import { formatPenalty } from '../roc.ts';

const Count = Type.Integer({ minimum: 0 });

export const rocFormatPenalty = method({
  name: 'roc_format_penalty',
  kind: 'score',
  source: 'GRPO-RoC: microsoft/rStar, down_sample/roc.py; verified (code)',
  version: 1,
  summary: '1 for missing or unpaired answer tags, otherwise the pairs beyond the first per assistant turn, at most 1.',
  input: Type.Object({ open_tags: Count, close_tags: Count, closed_pairs: Count, turns: Count }),
  run: (tags): number => formatPenalty(tags),
  judged: {
    reads: ['content'],
    rows: (facts, ask) => {
      const own = stepsOf(facts);
      return facts.episodes.map((episode) => {
        const input = tagInput(facts, own(episode));
        const key = `e/${episode.episode_id}`;
        if (typeof input === 'string') return score(key, null, input);
        return score(key, ask.run(input), null, input);
      });
    },
  },
});
