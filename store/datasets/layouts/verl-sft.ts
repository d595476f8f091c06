/** verl, multi-turn supervised learning: whole conversations, in which every answer is learnt. Its columns have one type for all rows. */
import { conversationsOf, countUnlearnt } from './conversations.ts';
import { type Layout, LEARNS_ALL } from './layout.ts';
import { openaiMessage } from './openai-message.ts';
import { chatsOf } from './turn.ts';

export const verlSft: Layout = {
  name: 'verl-sft',
  about: 'verl multi-turn SFT: whole conversations as messages; every answer is learnt, arguments are text',
  refuses: LEARNS_ALL,
  holds: new Set(['tool calls', 'ids of tool calls']),
  files(splits, { leftOut, notHeld }) {
    const parts = splits.map(({ split, turns }) => ({ split, talks: conversationsOf(chatsOf(turns, leftOut)) }));
    const all = parts.flatMap(({ talks }) => talks);
    countUnlearnt(all, notHeld);
    const calls = all.some(({ messages }) => messages.some((message) => message.calls.length > 0));
    const asked = { struct: { name: 'text', arguments: 'text' } } as const;
    const more = {
      tool_calls: { list: { struct: { id: 'text', type: 'text', function: asked } } },
      tool_call_id: 'text',
    } as const;
    const message = { struct: { role: 'text', content: 'text', ...(calls ? more : {}) } } as const;
    return parts.map(({ split, talks }) => ({
      name: `${split}.parquet`,
      kind: 'parquet',
      split,
      shapes: { messages: { list: message } },
      rows: talks.map(({ messages }) => ({
        messages: messages.map((one) => ({ content: '', ...openaiMessage(one) })),
      })),
    }));
  },
};
