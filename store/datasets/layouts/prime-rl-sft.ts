/** prime-rl, supervised learning: whole conversations, in which every answer is learnt; tools and arguments are JSON text. */
import { conversationsOf, countUnlearnt } from './conversations.ts';
import { type Layout, LEARNS_ALL } from './layout.ts';
import { OPENAI_HOLDS, thinkingMessage } from './openai-message.ts';
import { chatsOf } from './turn.ts';

export const primeRlSft: Layout = {
  name: 'prime-rl-sft',
  about: 'prime-rl SFT: whole conversations as messages, with tools as JSON text; every answer is learnt',
  refuses: LEARNS_ALL,
  holds: new Set([...OPENAI_HOLDS, 'reasoning']),
  files: (splits, { leftOut, notHeld }) =>
    splits.map(({ split, turns }) => {
      const talks = conversationsOf(chatsOf(turns, leftOut));
      countUnlearnt(talks, notHeld);
      const rows = talks.map(({ messages, last }) => ({
        messages: messages.map(thinkingMessage),
        tools: last.tools === null ? null : JSON.stringify(last.tools),
      }));
      return { name: `${split}.jsonl`, kind: 'lines', split, rows };
    }),
};
