/** OpenAI supervised fine-tuning: whole conversations, in which answers that are no rows of the dataset have weight 0. */
import { conversationsOf } from './conversations.ts';
import { type Layout, LEARNS_ALL } from './layout.ts';
import { isAssistant } from './message.ts';
import { OPENAI_HOLDS, openaiMessage } from './openai-message.ts';
import { chatsOf } from './turn.ts';

export const openaiSft: Layout = {
  name: 'openai-sft',
  about: 'OpenAI supervised fine-tuning: messages and tools; weight 0 for answers that are not learnt',
  refuses: LEARNS_ALL,
  holds: new Set(OPENAI_HOLDS),
  files: (splits, { leftOut }) =>
    splits.map(({ split, turns }) => ({
      name: `${split}.jsonl`,
      kind: 'lines',
      split,
      rows: conversationsOf(chatsOf(turns, leftOut)).map(({ messages, learnt, last }) => ({
        messages: messages.map((message, i) =>
          isAssistant(message) && !learnt.includes(i)
            ? { ...openaiMessage(message), weight: 0 }
            : openaiMessage(message),
        ),
        ...(last.tools === null ? {} : { tools: last.tools }),
      })),
    })),
};
