/**
 * The loss of supervised fine-tuning as a mean over sequences of each one's mean, so that a long answer counts as much as a short one.
 *
 * Source: M1-32B (arXiv:2504.09772), training objective. Verified (text). A sequence without a trained token is skipped. The mask is
 * ours. Its graph is `sftLoss` with `sequenceMeanWeights`.
 */
import type { Static } from 'typebox';
import { mean } from '../../../store/evaluate/methods/statistics.ts';
import type { LossMethod } from './method.ts';
import { Likelihoods, trainedLogprobs } from './sft-likelihood.ts';

export const sftSequenceMean: LossMethod<Static<typeof Likelihoods>, Record<never, never>, number> = {
  name: 'sft_sequence_mean',
  kind: 'loss',
  source: 'M1-32B: arXiv:2504.09772, training objective; verified (text)',
  version: 1,
  summary: 'Mean over sequences of the mean negative log-probability of their trained tokens.',
  params: {},
  input: Likelihoods,
  run: (input) => -mean(trainedLogprobs(input).map((row) => mean(row))),
};
