/**
 * MARFT: generalised advantages along a chain of turns in which the agents act one after the other.
 *
 * Source: jwliao-ai/MARFT, marft/buffers/action_level_buffer.py. Verified (code). Rewards and values have a row for each turn and a
 * column for each agent in acting order. Within a turn the next value is the next agent's; after the last agent it is the first of the
 * next turn, unless the episode ended (`alive` 0). `entry_mask` is the released behaviour, which cuts the chain inside the turn after an
 * end, against the paper. `normalise` is the batch step that follows in the source: (A − mean)/(std ddof 0 + 1e-8), statistics without
 * entries that are exactly 0. Returns are taken before it. Dropped: the token-level variant and the value loss.
 * Kept: γ 0.99, λ 0.95, the walk from the last agent of the last turn. Open: nothing known. Version 2: an episode whose turns have
 * different agents is one chain, a turn for each action; the walk is the same.
 */

import { overBuffers } from '../../judging/agent-chain.ts';
import { EARNED } from '../../judging/named-feedback.ts';
import { AgentChain, Discount, discountedChain, type Estimate } from '../agent-chain.ts';
import { method } from '../method.ts';
import { mean, standardDeviation } from '../statistics.ts';

export const marftGae = method({
  name: 'marft_gae',
  kind: 'credit',
  source: 'MARFT: jwliao-ai/MARFT, buffers/action_level_buffer.py; verified (code)',
  version: 2,
  summary: 'GAE from agent to agent within a turn and from turn to turn.',
  params: { gamma: 0.99, lambda: 0.95, entry_mask: false, normalise: false, ...EARNED },
  limits: { gamma: Discount, lambda: Discount },
  input: AgentChain,
  run: (input, { normalise, ...discounts }): Estimate => {
    const { advantages, returns } = discountedChain(input, discounts);
    return { advantages: normalise ? normalised(advantages) : advantages, returns };
  },
  judged: {
    reads: ['rewards', 'feedback'],
    writes: ['credits', 'scores'],
    rows: (facts, ask) =>
      overBuffers(facts, ask, ({ advantages, returns }, t, a) => ({
        value: advantages[t]![a]!,
        detail: { return: returns[t]![a] },
      })),
  },
});

function normalised(advantages: readonly (readonly number[])[]): number[][] {
  const counted = advantages.flat().filter((value) => value !== 0);
  const [centre, deviation] = counted.length === 0 ? [0, 0] : [mean(counted), standardDeviation(counted, 0)];
  return advantages.map((row) => row.map((value) => (value - centre) / (deviation + 1e-8)));
}
