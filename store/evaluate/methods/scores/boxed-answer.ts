/**
 * The final answer of a text: what its last `\boxed{…}` holds.
 *
 * Source: MAS-TTS, description of M500. Secondary. Braces are counted as they stand; an escaped brace counts like any other.
 * Kept: the last box, braces counted. Dropped: nothing. Open: what the paper does where the last box never closes.
 */

import { Type } from 'typebox';
import { score } from '../../judging/judgement.ts';
import { messagesOf, textScore } from '../../judging/messages.ts';
import { lastBox } from '../boxed.ts';
import { method } from '../method.ts';

export const boxedAnswer = method({
  name: 'boxed_answer',
  kind: 'score',
  source: 'M500: MAS-TTS, data description; secondary',
  version: 1,
  summary: 'The inside of the last \\boxed{…}, null when there is none or it never closes.',
  input: Type.Object({ text: Type.String() }),
  run: ({ text }): string | null => lastBox(text),
  judged: {
    reads: ['content'],
    rows: ({ episodes, steps, contentOf }, ask) => {
      const messages = messagesOf({ steps });
      return episodes.map((episode) => {
        const key = `e/${episode.episode_id}`;
        const last = messages.get(episode.episode_id)?.at(-1);
        if (last === undefined) return score(key, null, 'no_messages');
        const { text } = contentOf(last);
        if (text === null) return score(key, null, 'no_text');
        const found = ask.run({ text });
        return found === null
          ? score(key, null, 'no_boxed_answer', { step_id: last.step_id })
          : textScore(episode, found, { step_id: last.step_id });
      });
    },
  },
});
