/**
 * Which agent, and which entry of it, most likely caused a failure, from the transcript: no model is asked and no right answer
 * is known.
 *
 * Source: this project; the task is that of Who&When, arXiv 2505.00212. A conditional logit over the entries of agents. The defaults
 * were fitted (L2 penalty 2 on signs in units of their spread) to 123 labelled runs of two kinds of team; docs/analysis.md has the
 * held-out accuracy. Agents are ranked by the sum of their entries' shares; the surest entry of all may be another agent's, so each line
 * has the share of its entry beside that of its agent.
 */

import { Type } from 'typebox';
import { blameEntries } from '../../judging/blame-entries.ts';
import { SIGNS, type Sign, signsOf, TranscriptEntry } from '../failure-signs.ts';
import { method } from '../method.ts';
import { type Blamed, rankBlame } from '../ranked-blame.ts';
import { nullable } from '../shapes.ts';

const params: Record<Sign, number> = {
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

export const failureSigns = method({
  name: 'failure_signs',
  kind: 'blame',
  source: 'this project; task of Who&When: arXiv 2505.00212; coefficients fitted to labelled runs',
  version: 1,
  summary: 'Agents ranked by how much their entries look like decisive mistakes, each with its worst entry.',
  params,
  input: Type.Object({ question: nullable(Type.String()), entries: Type.Array(TranscriptEntry) }),
  run: (run, weights): Blamed[] => {
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
