/**
 * An answer as it is compared: without surrounding white space, one final full stop, one dollar sign at either end, doubled spaces.
 *
 * Source: ours, for the correctness test of MAS-TTS; each step is done once, in this order, and the dollar signs need not be a pair.
 */

import { type Static, Type } from 'typebox';
import { normaliseAnswer as normalise } from '../answer.ts';
import type { Method } from '../method.ts';

const Input = Type.Object({ text: Type.String() });

export const normaliseAnswer: Method<Static<typeof Input>, Record<never, never>, string> = {
  name: 'normalise_answer',
  kind: 'score',
  source: 'ours',
  version: 1,
  needs: 'final answer',
  summary: 'The answer without surrounding space, final full stop, dollar signs and doubled spaces.',
  params: {},
  input: Input,
  run: ({ text }) => normalise(text),
};
