/**
 * Keeps many worker roll-outs from diluting the loss of the few planner roll-outs that launched them.
 *
 * Source: mzf666/MATPO, verl/trainer/ppo/core_algos.py. Verified (code). `batch_size` counts every row, padded ones too.
 * Both sequence means are scaled, a token mean is left alone. A loss belongs to a training step and to no recorded episode, so that it
 * is run by hand.
 * Kept: rows over planner roll-outs, at least one. Dropped: the loss itself. Open: nothing known.
 */

import { Type } from 'typebox';
import { method } from '../method.ts';

type Aggregation = 'seq-mean-token-mean' | 'seq-mean-token-sum' | 'token-mean';
const params: { aggregation: Aggregation } = { aggregation: 'seq-mean-token-mean' };

export const matpoLossScale = method({
  name: 'matpo_loss_scale',
  kind: 'credit',
  source: 'MATPO: mzf666/MATPO, core_algos.py; verified (code)',
  version: 1,
  summary: 'Multiplies a sequence-mean loss by rows per planner roll-out.',
  params,
  limits: {
    aggregation: Type.Union([
      Type.Literal('seq-mean-token-mean'),
      Type.Literal('seq-mean-token-sum'),
      Type.Literal('token-mean'),
    ]),
  },
  input: Type.Object({
    loss: Type.Number(),
    batch_size: Type.Integer({ minimum: 0 }),
    num_main: Type.Integer({ minimum: 0 }),
  }),
  run: ({ loss, batch_size, num_main }, { aggregation }): number =>
    aggregation === 'token-mean' ? loss : (loss * batch_size) / Math.max(1, num_main),
});
