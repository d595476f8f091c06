/** The different prompts of a dataset, each once. */
import type { Counter } from './counter.ts';
import { promptKey } from './pairs.ts';
import { type Chat, hasMedia, type LayoutTurn, MEDIA } from './turn.ts';

/** The first turn of each prompt, whatever was answered. */
export function promptsOf(turns: readonly LayoutTurn[], leftOut: Counter): Chat[] {
  const first = new Map<string, Chat>();
  for (const turn of turns) {
    if (turn.prompt === null) {
      leftOut.add('no prompt was recorded');
      continue;
    }
    if (hasMedia(turn.prompt)) {
      leftOut.add(MEDIA);
      continue;
    }
    const chat = turn as Chat;
    const key = promptKey(chat);
    if (first.has(key)) leftOut.add('another answer to a prompt that is there');
    else first.set(key, chat);
  }
  return [...first.values()];
}

/** The right answer as text; JSON where it is more than a text. Null where it is not known. */
export const answerText = ({ ground_truth: truth }: LayoutTurn): string | null =>
  truth === null ? null : typeof truth === 'string' ? truth : JSON.stringify(truth);
