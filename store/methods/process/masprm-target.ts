/**
 * What a process reward model is trained to say about a node: its value on an unbounded scale.
 *
 * Source: milad1378yz/MASPRM, src/train/trainer.py. Verified (code). q is clamped so that a certain node has a finite target. This is the
 * target of the regression losses; the source's default is a binary cross-entropy.
 * Kept: the clamp 0.95. Dropped: the losses, see `trainer/losses/value-regression.ts`. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';

const Input = Type.Object({ q: Type.Number({ minimum: -1, maximum: 1 }) });
const params = { clamp: 0.95 };

export const masprmTarget: Method<Static<typeof Input>, typeof params, number> = {
  name: 'masprm_target',
  kind: 'process',
  source: 'MASPRM: milad1378yz/MASPRM, src/train/trainer.py; verified (code)',
  version: 1,
  needs: 'nodes of a search tree',
  summary: 'atanh of q clamped to ±0.95.',
  params,
  limits: { clamp: Type.Number({ exclusiveMinimum: 0, exclusiveMaximum: 1 }) },
  input: Input,
  run: ({ q }, { clamp }) => Math.atanh(Math.min(Math.max(q, -clamp), clamp)),
};
