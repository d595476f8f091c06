/**
 * How much of a trajectory's tool use went wrong.
 *
 * Source: microsoft/rStar, rstar2_agent/down_sample/roc.py. Verified (code). A trajectory without a tool call gets 0.5.
 * Kept: the word, in any case, anywhere. Dropped: nothing. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';

const Input = Type.Object({ tool_responses: Type.Array(Type.String()) });

export const rocToolPenalty: Method<Static<typeof Input>, Record<never, never>, number> = {
  name: 'roc_tool_penalty',
  kind: 'score',
  source: 'GRPO-RoC: microsoft/rStar, down_sample/roc.py; verified (code)',
  version: 1,
  needs: 'tool responses',
  summary: 'Share of tool responses that contain “error” in any case; 0.5 without tool calls.',
  params: {},
  input: Input,
  run: ({ tool_responses }) =>
    tool_responses.length === 0
      ? 0.5
      : tool_responses.filter((text) => text.toLowerCase().includes('error')).length / tool_responses.length,
};
