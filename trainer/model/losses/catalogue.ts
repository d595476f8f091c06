/** Every loss that can be run by name on plain data. Their graphs are built by the functions beside them. */
import { aggLoss } from './aggregation.ts';
import { dpo } from './dpo.ts';
import { klEstimators } from './kl.ts';
import type { LossMethod } from './method.ts';
import { orderedBatches } from './ordered-batches.ts';
import { ppoClip } from './ppo-clip.ts';
import { sftSequenceMean } from './sft-sequence-mean.ts';
import { sftTokenMean } from './sft-token-mean.ts';
import { turnRatio } from './turn-ratio.ts';
import { valueClip } from './value-clip.ts';

export const LOSS_METHODS: readonly LossMethod[] = [
  aggLoss,
  dpo,
  klEstimators,
  orderedBatches,
  ppoClip,
  sftSequenceMean,
  sftTokenMean,
  turnRatio,
  valueClip,
];
