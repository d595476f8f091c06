/** Who caused a failure, from the signs in what agents said: the task of Who&When (arXiv 2505.00212), the method ours. */
import { Type } from 'typebox';
import { whyNotFailed } from '../attribution/failed.ts';
import { nobody } from '../judging/blame-rows.ts';
import { type EpisodeFacts, textOfTruth } from '../judging/facts.ts';
import type { Judgement } from '../judging/judgement.ts';
import type { MethodFacts } from '../judging/method-facts.ts';
import { method } from './method.ts';
import { nullable } from './shapes.ts';
import {
  type FailedRun,
  REFERENCE_SIGNS,
  type ReferenceSign,
  rankBlame,
  SIGNS,
  type Sign,
  type Suspect,
  signsOf,
  signsWithReference,
  TranscriptEntry,
} from './transcript-signs.ts';

/** A row for each agent that `rank` names, the surest first; a text is the reason why nobody is blamed. */
const blameEntries = (
  { episodes, entries }: MethodFacts,
  rank: (episode: EpisodeFacts, run: FailedRun) => readonly Suspect[] | string,
): Judgement[] =>
  episodes.flatMap((episode): Judgement[] => {
    const why = whyNotFailed(episode);
    if (why !== null) return [nobody(episode, why)];
    const transcript = entries.get(episode.episode_id) ?? [];
    const ranked = rank(episode, { question: episode.query, entries: transcript });
    if (typeof ranked === 'string') return [nobody(episode, ranked)];
    if (ranked.length === 0) return [nobody(episode, 'no_agents')];
    return ranked.map(({ agent, entry, value, entry_value }, rank) => ({
      table: 'blames',
      episode_id: episode.episode_id,
      rank,
      agent_id: agent,
      step_id: transcript[entry]?.step_id ?? null,
      entry: transcript[entry]?.seq ?? null,
      value,
      reason: null,
      detail: { entry_value },
    }));
  });

const WEIGHTS: Record<Sign, number> = {
  first: -1.42,
  order: -0.41,
  coordinates: -1.16,
  hands_over: 0.14,
  relative_length: -0.61,
  code: 0.55,
  numbers: 0.43,
  guesses: 0.54,
  introduces: 1.48,
  work_failed: 1.04,
  after_failure: -0.84,
  after_success: -0.97,
};

/**
 * Which agent, and which entry of it, most likely caused a failure, from the transcript: no model is asked and no right answer
 * is known.
 *
 * Source: this project; the task is that of Who&When, arXiv 2505.00212. A conditional logit over the entries of agents. The defaults
 * were fitted (L2 penalty 2 on signs in units of their spread) to 123 labelled runs of two kinds of team; docs/analysis.md has the
 * held-out accuracy. Agents are ranked by the sum of their entries' shares; the surest entry of all may be another agent's, so each line
 * has the share of its entry beside that of its agent.
 */
export const failureSigns = method({
  name: 'failure_signs',
  kind: 'blame',
  source: 'this project; task of Who&When: arXiv 2505.00212; coefficients fitted to labelled runs',
  version: 1,
  summary: 'Agents ranked by how much their entries look like decisive mistakes, each with its worst entry.',
  teams: 'several agents',
  params: WEIGHTS,
  input: Type.Object({ question: nullable(Type.String()), entries: Type.Array(TranscriptEntry) }),
  run: (run, weights): Suspect[] => {
    const candidates = signsOf(run);
    return rankBlame(
      candidates,
      candidates.map(({ signs }) => SIGNS.reduce((sum, name) => sum + weights[name] * signs[name], 0)),
    );
  },
  judged: {
    reads: ['entries'],
    rows: (facts, ask) => blameEntries(facts, (_, run) => ask.answer(run)),
  },
});

const ALL_SIGNS = [...SIGNS, ...REFERENCE_SIGNS] as const;
const WEIGHTS_WITH_REFERENCE: Record<Sign | ReferenceSign, number> = {
  first: -1.4,
  order: -0.45,
  coordinates: -1.14,
  hands_over: 0.18,
  relative_length: -0.59,
  code: 0.57,
  numbers: 0.44,
  guesses: 0.48,
  introduces: 1.4,
  work_failed: 1.08,
  after_failure: -0.76,
  after_success: -0.96,
  names_reference: 1.84,
  after_reference: 1.67,
};

/**
 * Failure signs for a run whose right answer is known: whether an entry names it, and whether it had been named and was lost again,
 * are two signs more.
 *
 * Source: this project; the task is that of Who&When, arXiv 2505.00212, in its setting with the ground truth. The defaults were fitted
 * as those of failure_signs.
 */
export const failureSignsWithReference = method({
  name: 'failure_signs_with_reference',
  kind: 'blame',
  source: 'this project; task of Who&When: arXiv 2505.00212; coefficients fitted to labelled runs',
  version: 1,
  summary: 'Agents ranked by how much their entries look like decisive mistakes, the right answer being known.',
  teams: 'several agents',
  params: WEIGHTS_WITH_REFERENCE,
  input: Type.Object({
    question: nullable(Type.String()),
    reference: Type.String(),
    entries: Type.Array(TranscriptEntry),
  }),
  run: ({ reference, ...run }, weights): Suspect[] => {
    const candidates = signsWithReference(run, reference);
    return rankBlame(
      candidates,
      candidates.map(({ signs }) => ALL_SIGNS.reduce((sum, name) => sum + weights[name] * signs[name], 0)),
    );
  },
  judged: {
    reads: ['entries'],
    rows: (facts, ask) =>
      blameEntries(facts, ({ ground_truth }, run) => {
        const reference = textOfTruth(ground_truth);
        return reference === null ? 'no_reference' : ask.answer({ ...run, reference });
      }),
  },
});
