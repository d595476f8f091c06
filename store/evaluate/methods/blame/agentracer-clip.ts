/**
 * The clip range that AgenTracer's training narrows with time, never below a fifth of its start.
 *
 * Source: arXiv 2509.03312. Verified (text).
 * Kept: the floor of a fifth. Dropped: the trainer that uses it, GRPO without KL. Open: nothing known.
 * Run by hand: it is about a moment of a training run, and no episode holds one.
 */

import { Type } from 'typebox';
import { method } from '../method.ts';

export const agentracerClip = method({
  name: 'agentracer_clip',
  kind: 'blame',
  source: 'AgenTracer: arXiv 2509.03312; verified (text)',
  version: 1,
  summary: 'b0 shrinking linearly over training, at least 0.2 · b0.',
  input: Type.Object({
    b0: Type.Number({ minimum: 0 }),
    step: Type.Number({ minimum: 0 }),
    total: Type.Number({ exclusiveMinimum: 0 }),
  }),
  run: ({ b0, step, total }): number => Math.max(0.2 * b0, b0 * (1 - step / total)),
});
