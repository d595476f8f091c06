/**
 * Instruction-following difficulty: how little an instruction helps to predict its answer.
 *
 * Source: Star-Agents, arXiv 2411.14497. Verified (text). The ratio of the answer's perplexity with and without the instruction;
 * higher means that the instruction helps less. Log-probabilities are natural, one a token of the answer.
 * Kept: means over the tokens of the answer. Dropped: the two forward passes. Open: nothing known.
 */

import { Type } from 'typebox';
import { groupBy } from '../../../../ingest/events/group-by.ts';
import type { Assembled } from '../../judging/assembled.ts';
import { type StepFacts, stepKey } from '../../judging/facts.ts';
import { score } from '../../judging/judgement.ts';
import { onwardOf } from '../../judging/over-episodes.ts';
import { method } from '../method.ts';
import { requireRows } from '../refuse.ts';
import { mean } from '../statistics.ts';

const LogProbs = Type.Array(Type.Number({ maximum: 0 }), { minItems: 1 });

export const ifd = method({
  name: 'ifd',
  kind: 'score',
  source: 'Star-Agents: arXiv 2411.14497; verified (text)',
  version: 1,
  summary: 'Perplexity of the answer given its instruction, divided by its perplexity alone.',
  input: Type.Object({ cond_logprobs: LogProbs, uncond_logprobs: LogProbs }),
  run: ({ cond_logprobs, uncond_logprobs }): number => {
    requireRows('uncond_logprobs', uncond_logprobs, cond_logprobs.length, 'cond_logprobs');
    return Math.exp(mean(uncond_logprobs) - mean(cond_logprobs));
  },
  judged: {
    reads: ['passes'],
    /**
     * The answer is the last message that the episode went on from; the instruction is its prompt. Pass `reference` says the
     * log-probabilities of its tokens given the prompt, pass `alone` those without it, both by one checkpoint: the one whose pass
     * `alone` was recorded last. Tokens that the model did not choose are left out of both.
     */
    rows: (facts, ask) => {
      const steps = groupBy(facts.steps, (step) => step.episode_id);
      return facts.episodes.map(({ episode_id }) => {
        const key = `e/${episode_id}`;
        const answer = onwardOf(steps.get(episode_id) ?? []).at(-1);
        if (answer === undefined) return score(key, null, 'no_messages');
        const recorded = logprobsOf(facts, answer);
        if (typeof recorded === 'string') return score(key, null, recorded);
        const { checkpoint, ...input } = recorded;
        const output = ask.answer(input);
        return typeof output === 'string'
          ? score(key, null, output)
          : score(key, output, null, { step_id: answer.step_id, checkpoint_id: checkpoint });
      });
    },
  },
});

type LogProbs = { readonly checkpoint: string; readonly cond_logprobs: number[]; readonly uncond_logprobs: number[] };

function logprobsOf({ recorded }: Assembled, { episode_id, step_id }: StepFacts): LogProbs | string {
  const mask = recorded.tokens.get(stepKey(episode_id, step_id))?.mask;
  if (!mask) return 'no_token_ids';
  const passes = (recorded.passes.get(episode_id) ?? []).filter((one) => one.step_id === step_id);
  const alone = passes.findLast(({ pass }) => pass === 'alone');
  if (alone === undefined) return 'no_alone_logprobs';
  const given = passes.findLast(({ pass, checkpoint }) => pass === 'reference' && checkpoint === alone.checkpoint);
  if (given === undefined) return 'no_reference_logprobs';
  if (alone.numbers.length !== mask.length || given.numbers.length !== mask.length) return 'other_tokens';
  if (!mask.includes(1)) return 'no_trained_tokens';
  const trained = (numbers: readonly number[]) => numbers.filter((_, t) => mask[t] === 1);
  return {
    checkpoint: alone.checkpoint,
    cond_logprobs: trained(given.numbers),
    uncond_logprobs: trained(alone.numbers),
  };
}
