/**
 * Instruction-following difficulty: how little an instruction helps to predict its answer.
 *
 * Source: Star-Agents, arXiv 2411.14497. Verified (text). The ratio of the answer's perplexity with and without the instruction;
 * higher means that the instruction helps less. Log-probabilities are natural, one a token of the answer.
 * Kept: means over the tokens of the answer. Dropped: the two forward passes. Open: nothing known.
 */

import { type Static, Type } from 'typebox';
import type { Method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { mean } from '../statistics.ts';

const LogProbs = Type.Array(Type.Number({ maximum: 0 }), { minItems: 1 });
const Input = Type.Object({ cond_logprobs: LogProbs, uncond_logprobs: LogProbs });

export const ifd: Method<Static<typeof Input>, Record<never, never>, number> = {
  name: 'ifd',
  kind: 'score',
  source: 'Star-Agents: arXiv 2411.14497; verified (text)',
  version: 1,
  needs: 'log-probabilities with and without the prompt',
  summary: 'Perplexity of the answer given its instruction, divided by its perplexity alone.',
  params: {},
  input: Input,
  run: ({ cond_logprobs, uncond_logprobs }) => {
    requireRows('uncond_logprobs', uncond_logprobs, cond_logprobs.length, 'cond_logprobs');
    return Math.exp(mean(uncond_logprobs) - mean(cond_logprobs));
  },
};
