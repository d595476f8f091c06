/** How much an instruction helps to predict its answer, and which of several samples for it is worth most. */
import { TroupeError } from '../../errors.ts';
import { runMethod } from '../methods/run.ts';
import { groupBy } from '../methods/statistics.ts';
import { attempt } from './answers.ts';
import type { Assemble, Assembled, Assemblers } from './assembler.ts';
import { type EpisodeFacts, groupOf, type StepFacts, stepKey } from './facts.ts';
import { type Judgement, score } from './judgement.ts';
import { numbersOn, textsOn } from './named-feedback.ts';
import { onwardOf } from './over-episodes.ts';

/**
 * The answer is the last message that the episode went on from; the instruction is its prompt. Pass `reference` says the
 * log-probabilities of its tokens given the prompt, pass `alone` those without it, both by one checkpoint: the one whose pass
 * `alone` was recorded last. Tokens that the model did not choose are left out of both.
 */
const byPasses: Assemble = (method, params, facts) => {
  const steps = groupBy(facts.steps, (step) => step.episode_id);
  return facts.episodes.map(({ episode_id }) => {
    const key = `e/${episode_id}`;
    const answer = onwardOf(steps.get(episode_id) ?? []).at(-1);
    if (answer === undefined) return score(key, null, 'no_messages');
    const said = logprobsOf(facts, answer);
    if (typeof said === 'string') return score(key, null, said);
    const { checkpoint, ...input } = said;
    const output = attempt(method, { ...input, ...params });
    return output instanceof TroupeError
      ? score(key, null, output.message)
      : score(key, output as number, null, { step_id: answer.step_id, checkpoint_id: checkpoint });
  });
};

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

const REFEREE = ['base', 'tie', 'generated'];

/**
 * A batch is a group: the samples for one instruction, which are what is picked from. Feedback on the episode says `ifd_small`,
 * `ifd_large` and `referee` (base, tie or generated). A sample that lacks one of them leaves the batch.
 */
const byReferee: Assemble = (method, params, facts) => {
  const small = numbersOn(facts.feedback, 'episode', 'ifd_small');
  const large = numbersOn(facts.feedback, 'episode', 'ifd_large');
  const referee = textsOn(facts.feedback, 'episode', 'referee');
  const sampleOf = ({ episode_id }: EpisodeFacts) => {
    const place = stepKey(episode_id, '');
    const [a, b, said] = [small.get(place), large.get(place), referee.get(place)];
    if (a === undefined || b === undefined) return 'no_ifd';
    return said !== undefined && REFEREE.includes(said) ? { ifd_small: a, ifd_large: b, referee: said } : 'no_referee';
  };
  return [...groupBy(facts.episodes, groupOf)].flatMap(([, members]): Judgement[] => {
    const rows = members.map((episode) => ({ key: `e/${episode.episode_id}`, sample: sampleOf(episode) }));
    const known = rows.flatMap(({ key, sample }) => (typeof sample === 'string' ? [] : [{ key, sample }]));
    const output = runMethod(method, {
      ifd_small: known.map(({ sample }) => sample.ifd_small),
      ifd_large: known.map(({ sample }) => sample.ifd_large),
      referee: known.map(({ sample }) => sample.referee),
      ...params,
    }) as { dual: number[]; score: number[]; pick: number | null };
    const at = new Map(known.map(({ key }, i) => [key, i]));
    return rows.map(({ key, sample }) => {
      if (typeof sample === 'string') return score(key, null, sample);
      const i = at.get(key)!;
      return score(key, output.score[i]!, null, { dual: output.dual[i], picked: output.pick === i });
    });
  });
};

export const INSTRUCTION_ASSEMBLERS: Assemblers = {
  'log-probabilities with and without the prompt': { score: { over: byPasses, reads: ['passes'] } },
  'difficulties and referee': { score: { over: byReferee, reads: ['feedback'] } },
};
