/**
 * Failure signs for a run whose right answer is known: whether an entry names it, and whether it had been named and was lost again,
 * are two signs more.
 *
 * Source: this project; the task is that of Who&When, arXiv 2505.00212, in its setting with the ground truth. The defaults were fitted
 * as those of failure_signs.
 */

import { Type } from 'typebox';
import { blameEntries } from '../../judging/blame-entries.ts';
import { textOfTruth } from '../../judging/facts.ts';
import {
  REFERENCE_SIGNS,
  type ReferenceSign,
  SIGNS,
  type Sign,
  signsWithReference,
  TranscriptEntry,
} from '../failure-signs.ts';
import { method } from '../method.ts';
import { type Blamed, rankBlame } from '../ranked-blame.ts';
import { nullable } from '../shapes.ts';

const ALL_SIGNS = [...SIGNS, ...REFERENCE_SIGNS] as const;
const params: Record<Sign | ReferenceSign, number> = {
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

export const failureSignsWithReference = method({
  name: 'failure_signs_with_reference',
  kind: 'blame',
  source: 'this project; task of Who&When: arXiv 2505.00212; coefficients fitted to labelled runs',
  version: 1,
  summary: 'Agents ranked by how much their entries look like decisive mistakes, the right answer being known.',
  params,
  input: Type.Object({
    question: nullable(Type.String()),
    reference: Type.String(),
    entries: Type.Array(TranscriptEntry),
  }),
  run: ({ reference, ...run }, weights): Blamed[] => {
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
