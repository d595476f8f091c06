/**
 * The loss of supervised fine-tuning as a mean over all trained tokens, so that a long answer counts more than a short one.
 *
 * Source: the default of the framework that MAS-TTS trains M1-32B with (jincan333/MAS-TTS). Verified (code). The mask is ours. Its
 * graph is `sftLoss` with `tokenMeanWeights`.
 */
import type { Static } from 'typebox';
import { mean } from '../../../store/evaluate/methods/statistics.ts';
import type { LossMethod } from './method.ts';
import { Likelihoods, trainedLogprobs } from './sft-likelihood.ts';

export const sftTokenMean: LossMethod<Static<typeof Likelihoods>, Record<never, never>, number> = {
  name: 'sft_token_mean',
  kind: 'loss',
  source: 'M1-32B: jincan333/MAS-TTS, default of its training framework; verified (code)',
  version: 1,
  summary: 'Mean negative log-probability of all trained tokens.',
  params: {},
  input: Likelihoods,
  run: (input) => -mean(trainedLogprobs(input).flat()),
};
