/**
 * How much of a trajectory's tool use went wrong.
 *
 * Source: microsoft/rStar, rstar2_agent/down_sample/roc.py. Verified (code). A trajectory without a tool call gets 0.5.
 * Kept: the word, in any case, anywhere. Dropped: nothing. Open: nothing known.
 */

import { Type } from 'typebox';
import { score } from '../../judging/judgement.ts';
import { toolInput } from '../../judging/penalties.ts';
import { method } from '../method.ts';
import { toolPenalty } from '../roc.ts';

export const rocToolPenalty = method({
  name: 'roc_tool_penalty',
  kind: 'score',
  source: 'GRPO-RoC: microsoft/rStar, down_sample/roc.py; verified (code)',
  version: 1,
  summary: 'Share of tool responses that contain “error” in any case; 0.5 without tool calls.',
  input: Type.Object({ tool_responses: Type.Array(Type.String()) }),
  run: ({ tool_responses }): number => toolPenalty(tool_responses),
  judged: {
    reads: ['tools'],
    rows: (facts, ask) =>
      facts.episodes.map((episode) => {
        const input = toolInput(facts, episode);
        const key = `e/${episode.episode_id}`;
        if (typeof input === 'string') return score(key, null, input);
        return score(key, ask.run(input), null);
      }),
  },
});
