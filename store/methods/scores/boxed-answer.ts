/**
 * The final answer of a text: what its last `\boxed{…}` holds.
 *
 * Source: MAS-TTS, description of M500. Secondary. Braces are counted as they stand; an escaped brace counts like any other.
 * Kept: the last box, braces counted. Dropped: nothing. Open: what the paper does where the last box never closes.
 */

import { type Static, Type } from 'typebox';
import { lastBox } from '../boxed.ts';
import type { Method } from '../method.ts';

const Input = Type.Object({ text: Type.String() });

export const boxedAnswer: Method<Static<typeof Input>, Record<never, never>, string | null> = {
  name: 'boxed_answer',
  kind: 'score',
  source: 'M500: MAS-TTS, data description; secondary',
  version: 1,
  needs: 'last message',
  summary: 'The inside of the last \\boxed{…}, null when there is none or it never closes.',
  params: {},
  input: Input,
  run: ({ text }) => lastBox(text),
};
