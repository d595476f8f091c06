/** OpenAI preference fine-tuning: an input and two answers to it. */
import type { Layout } from './layout.ts';
import { OPENAI_HOLDS, openaiMessage } from './openai-message.ts';
import { NO_PAIR, pairsOf, unpaired } from './pairs.ts';
import { chatsOf } from './turn.ts';

export const openaiDpo: Layout = {
  name: 'openai-dpo',
  about: 'OpenAI preference fine-tuning: input, preferred_output and non_preferred_output',
  holds: new Set(OPENAI_HOLDS),
  files: (splits, { leftOut }) =>
    splits.map(({ split, turns }) => {
      const chats = chatsOf(turns, leftOut);
      const pairs = pairsOf(chats);
      leftOut.add(NO_PAIR, unpaired(chats, pairs));
      const rows = pairs.map(({ chosen, rejected }) => ({
        input: {
          messages: chosen.prompt.map(openaiMessage),
          ...(chosen.tools === null ? {} : { tools: chosen.tools }),
        },
        preferred_output: [openaiMessage(chosen.answer)],
        non_preferred_output: [openaiMessage(rejected.answer)],
      }));
      return { name: `${split}.jsonl`, kind: 'lines', split, rows };
    }),
};
