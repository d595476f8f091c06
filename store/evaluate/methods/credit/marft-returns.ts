/**
 * MARFT: the returns that its critic is trained on, the advantages of `marft_gae` plus the values that they were computed from.
 *
 * Source: jwliao-ai/MARFT, marft/buffers/action_level_buffer.py. Verified (code): returns are advantages plus values, before any
 * normalisation. Kept: γ 0.99, λ 0.95. Dropped: the clipped value loss. Open: nothing known.
 */

import { overBuffers } from '../../judging/agent-chain.ts';
import { EARNED } from '../../judging/named-feedback.ts';
import { AgentChain, Discount, discountedChain } from '../agent-chain.ts';
import { method } from '../method.ts';

type Returns = readonly (readonly number[])[];

export const marftReturns = method({
  name: 'marft_returns',
  kind: 'credit',
  source: 'MARFT: jwliao-ai/MARFT, buffers/action_level_buffer.py; verified (code)',
  version: 1,
  summary: 'The value that a critic should have predicted for each step: GAE from agent to agent, plus its value.',
  params: { gamma: 0.99, lambda: 0.95, ...EARNED },
  limits: { gamma: Discount, lambda: Discount },
  input: AgentChain,
  run: (input, discounts): Returns => discountedChain(input, { ...discounts, entry_mask: false }).returns,
  judged: {
    reads: ['rewards', 'feedback'],
    writes: ['credits', 'scores'],
    rows: (facts, ask) => overBuffers(facts, ask, (returns, t, a) => ({ value: returns[t]![a]! })),
  },
});
