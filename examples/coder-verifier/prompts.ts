/** What the two members are asked: the sentence, then who shall answer it, and for a verifier the input to try. */
import { CODER, VERIFIER } from './language.ts';
import type { Values } from './operations.ts';
import { writeDigits } from './trace.ts';

/** A list that may be handed on to whoever sends it. */
export type ChatMessage = { role: 'user' | 'system'; content: string };

/** Three operations and the end token. */
export const CODER_TOKENS = 4;
/** Three steps of four words and the end token. */
export const VERIFIER_TOKENS = 13;

export const coderPrompt = (sentence: string): ChatMessage[] => [
  { role: 'user', content: sentence },
  { role: 'system', content: CODER },
];

export const verifierPrompt = (sentence: string, input: Values): ChatMessage[] => [
  { role: 'user', content: sentence },
  { role: 'system', content: `${VERIFIER} ${writeDigits(input)}` },
];
