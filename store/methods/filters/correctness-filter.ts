/**
 * Whether each answer is the reference answer.
 *
 * Source: the acceptance test of MAS-TTS (0/1 evaluator score), verified (code); the comparison is ours.
 * Kept: equal as normalised text (case matters), or as plain numbers within 1e-9, or, only with `choices`, the same letter.
 * A null answer is wrong; a null reference is refused, because nothing can be said. Dropped: the list of evaluator scores (all ≥ 8),
 * which is a decision about scores and not about an answer, and symbolic equivalence.
 * Open: the normaliser of the paper.
 */

import { type Static, Type } from 'typebox';
import { normaliseAnswer, sameAnswer } from '../answer.ts';
import type { Method } from '../method.ts';
import { nullable } from '../shapes.ts';

const Input = Type.Object({
  pairs: Type.Array(
    Type.Object({
      answer: nullable(Type.String()),
      reference: Type.String(),
      choices: Type.Optional(Type.Boolean()),
    }),
  ),
});

export const correctnessFilter: Method<Static<typeof Input>, Record<never, never>, boolean[]> = {
  name: 'correctness_filter',
  kind: 'filter',
  source: 'M500: jincan333/MAS-TTS, acceptance test verified (code); comparison ours',
  version: 1,
  needs: 'answer and reference',
  summary: 'For each answer whether it equals the reference as text, as a number, or as a choice.',
  params: {},
  input: Input,
  run: ({ pairs }) =>
    pairs.map(
      ({ answer, reference, choices }) =>
        answer !== null && sameAnswer(normaliseAnswer(answer), normaliseAnswer(reference), choices === true),
    ),
};
