/**
 * The training target of a process reward model for a node: its value on an unbounded scale.
 *
 * Source: milad1378yz/MASPRM, src/train/trainer.py. Verified (code). q is clamped so that a certain node has a finite target. This is the
 * target of the regression losses; the source's default is a binary cross-entropy.
 * Kept: the clamp 0.95. Dropped: the losses, see `trainer/model/losses/value-regression.ts`. Open: nothing known.
 */

import { Type } from 'typebox';
import { overNodes } from '../../judging/search-tree.ts';
import { method } from '../method.ts';
import { backedUp } from '../search-tree.ts';

export const masprmTarget = method({
  name: 'masprm_target',
  kind: 'process',
  source: 'MASPRM: milad1378yz/MASPRM, src/train/trainer.py; verified (code)',
  version: 1,
  summary: 'atanh of q clamped to ±0.95.',
  params: { clamp: 0.95 },
  limits: { clamp: Type.Number({ exclusiveMinimum: 0, exclusiveMaximum: 1 }) },
  input: Type.Object({ q: Type.Number({ minimum: -1, maximum: 1 }) }),
  run: ({ q }, { clamp }): number => Math.atanh(Math.min(Math.max(q, -clamp), clamp)),
  judged: {
    reads: ['feedback'],
    writes: ['credits', 'scores'],
    rows: (facts, ask) => overNodes(facts, backedUp, ({ q }) => ask.answer({ q })),
  },
});
