/** TRL, KTOTrainer: answers that are good or bad by themselves. */
import type { Layout } from './layout.ts';
import { ID_SHAPES, MESSAGES, TRL_HOLDS, toolsShape, trlMessage } from './trl-message.ts';
import { type Chat, chatsOf } from './turn.ts';

/**
 * The preferred answer of a pair is good and the rejected one bad. Else an advantage above 0 is good and below 0 bad; without one a reward
 * above 0 is good, others bad. Null where both are unknown.
 */
export const isGood = ({ pair, advantage, reward }: Pick<Chat, 'pair' | 'advantage' | 'reward'>): boolean | null => {
  if (pair !== null) return pair.preferred;
  if (advantage !== null) return advantage === 0 ? null : advantage > 0;
  return reward === null ? null : reward > 0;
};

export const trlUnpaired: Layout = {
  name: 'trl-unpaired',
  about: 'TRL KTOTrainer: prompt and completion as messages, and a label: advantage (else reward) above 0',
  holds: new Set([...TRL_HOLDS, 'tool definitions', 'step ids']),
  files(splits, { leftOut }) {
    const parts = splits.map(({ split, turns }) => {
      const chats = chatsOf(turns, leftOut);
      const labelled = chats.filter((chat) => isGood(chat) !== null);
      leftOut.add('no reward, or an advantage of 0: neither good nor bad', chats.length - labelled.length);
      return { split, labelled };
    });
    const all = parts.flatMap(({ labelled }) => labelled);
    const shapes = { prompt: MESSAGES, completion: MESSAGES, label: 'bool', ...toolsShape(all), ...ID_SHAPES } as const;
    return parts.map(({ split, labelled }) => ({
      name: `${split}.parquet`,
      kind: 'parquet',
      split,
      shapes,
      rows: labelled.map((chat) => ({
        prompt: chat.prompt.map(trlMessage),
        completion: [trlMessage(chat.answer)],
        label: isGood(chat),
        tools: chat.tools,
        episode_id: chat.episode_id,
        step_id: chat.step_id,
      })),
    }));
  },
};
