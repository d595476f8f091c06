/** Star-Agents (arXiv 2411.14497): how difficult an instruction is, and which pair of agents answers it best. */

import { Type } from 'typebox';
import { groupBy } from '../../../ingest/events/group-by.ts';
import { type EpisodeFacts, groupOf, type StepFacts, stepKey } from '../judging/facts.ts';
import { type Judgement, score } from '../judging/judgement.ts';
import type { MethodFacts } from '../judging/method-facts.ts';
import { numbersOn, textsOn } from '../judging/named-feedback.ts';
import { onwardOf } from '../judging/over-episodes.ts';
import { method } from './method.ts';
import { refuseInput, requireRows } from './refuse.ts';
import { largest, mean, sum } from './statistics.ts';

const LogProbs = Type.Array(Type.Number({ maximum: 0 }), { minItems: 1 });

/**
 * Instruction-following difficulty: how little an instruction helps to predict its answer.
 *
 * Source: Star-Agents, arXiv 2411.14497. Verified (text). The ratio of the answer's perplexity with and without the instruction;
 * higher means that the instruction helps less. Log-probabilities are natural, one a token of the answer.
 * Kept: means over the tokens of the answer. Dropped: the two forward passes. Open: nothing known.
 */
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

function logprobsOf({ recorded }: MethodFacts, { episode_id, step_id }: StepFacts): LogProbs | string {
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

const REFEREE = { base: 0, tie: 0.5, generated: 1 } as const;

/**
 * Which of several generated samples is worth most: hard for a small model, easy for a large one, and better than its base.
 *
 * Source: Star-Agents, arXiv 2411.14497. Verified (text). The gap between the models' difficulties is divided by the batch's largest;
 * that all are 0 when the largest gap is not positive is our edge rule. The first wins a tie; without samples nothing is picked.
 * Kept: 0, 0.5 and 1 of the referee. Dropped: the referee and the two models. Open: a batch without a positive gap.
 */
export const starAgentsScore = method({
  name: 'star_agents_score',
  kind: 'score',
  source: 'Star-Agents: arXiv 2411.14497; verified (text)',
  version: 1,
  summary: 'Scores samples by the gap between two models’ difficulties and the referee, and picks the best.',
  teams: 'pairs of agents that write instruction data',
  input: Type.Object({
    ifd_small: Type.Array(Type.Number()),
    ifd_large: Type.Array(Type.Number()),
    referee: Type.Array(Type.Union([Type.Literal('base'), Type.Literal('tie'), Type.Literal('generated')])),
  }),
  run: ({ ifd_small, ifd_large, referee }) => {
    requireRows('ifd_large', ifd_large, ifd_small.length, 'ifd_small');
    requireRows('referee', referee, ifd_small.length, 'ifd_small');
    const gaps = ifd_small.map((small, i) => small - ifd_large[i]!);
    const widest = largest(gaps);
    const dual = gaps.map((gap) => (widest > 0 ? gap / widest : 0));
    const score = dual.map((value, i) => value * REFEREE[referee[i]!]);
    return { dual, score, pick: score.length === 0 ? null : score.indexOf(largest(score)) };
  },
  judged: {
    reads: ['feedback'],
    /**
     * A batch is a group: the samples for one instruction, which are what is picked from. Feedback on the episode gives `ifd_small`,
     * `ifd_large` and `referee` (base, tie or generated). A sample that lacks one of them leaves the batch.
     */
    rows: (facts, ask) => {
      const small = numbersOn(facts.feedback, 'episode', 'ifd_small');
      const large = numbersOn(facts.feedback, 'episode', 'ifd_large');
      const referee = textsOn(facts.feedback, 'episode', 'referee');
      const sampleOf = ({ episode_id }: EpisodeFacts) => {
        const place = stepKey(episode_id, '');
        const [a, b, verdict] = [small.get(place), large.get(place), referee.get(place)];
        if (a === undefined || b === undefined) return 'no_ifd';
        return isReferee(verdict) ? { ifd_small: a, ifd_large: b, referee: verdict } : 'no_referee';
      };
      return [...groupBy(facts.episodes, groupOf)].flatMap(([, members]): Judgement[] => {
        const rows = members.map((episode) => ({ key: `e/${episode.episode_id}`, sample: sampleOf(episode) }));
        const known = rows.flatMap(({ key, sample }) => (typeof sample === 'string' ? [] : [{ key, sample }]));
        const output = ask.run({
          ifd_small: known.map(({ sample }) => sample.ifd_small),
          ifd_large: known.map(({ sample }) => sample.ifd_large),
          referee: known.map(({ sample }) => sample.referee),
        });
        const at = new Map(known.map(({ key }, i) => [key, i]));
        return rows.map(({ key, sample }) => {
          if (typeof sample === 'string') return score(key, null, sample);
          const i = at.get(key)!;
          return score(key, output.score[i]!, null, { dual: output.dual[i], picked: output.pick === i });
        });
      });
    },
  },
});

const isReferee = (verdict: string | undefined): verdict is keyof typeof REFEREE =>
  verdict !== undefined && Object.hasOwn(REFEREE, verdict);

/**
 * Moves the probability of choosing a pair of agents by how good its last sample was.
 *
 * Source: Star-Agents, arXiv 2411.14497. Verified (text). `beta` 0.5 is ours; the result is divided by its sum.
 * Kept: the chosen pair grows, then all are divided. Dropped: nothing. Open: β.
 * Run by hand: its input is the probabilities that the last round left, and a judging keeps no state.
 */
export const starAgentsEvolve = method({
  name: 'star_agents_evolve',
  kind: 'score',
  source: 'Star-Agents: arXiv 2411.14497; verified (text)',
  version: 1,
  summary: 'Adds beta times the score to the chosen pair’s probability and normalises.',
  teams: 'pairs of agents that write instruction data',
  params: { beta: 0.5 },
  input: Type.Object({
    p: Type.Array(Type.Number({ minimum: 0 })),
    pair: Type.Integer({ minimum: 0 }),
    score: Type.Number(),
  }),
  run: ({ p, pair, score }, { beta }): number[] => {
    if (pair >= p.length) refuseInput('pair', `a position in p, 0 to ${p.length - 1}`, pair);
    const moved = p.map((value, i) => (i === pair ? value + beta * score : value));
    const total = sum(moved);
    if (moved[pair]! < 0 || total <= 0) refuseInput('score', 'one that leaves probabilities', score);
    return moved.map((value) => value / total);
  },
});
