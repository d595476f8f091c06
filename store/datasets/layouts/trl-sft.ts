/** TRL, SFTTrainer: conversational prompt and completion with tools. The completion is learnt. */
import { type Layout, LEARNS_ALL } from './layout.ts';
import { ID_SHAPES, MESSAGES, TRL_HOLDS, toolsShape, trlMessage } from './trl-message.ts';
import { chatsOf } from './turn.ts';

export const trlSft: Layout = {
  name: 'trl-sft',
  about: 'TRL SFTTrainer: prompt and completion as messages, with tools; the completion is learnt',
  refuses: LEARNS_ALL,
  holds: new Set([...TRL_HOLDS, 'tool definitions', 'step ids']),
  files(splits, { leftOut }) {
    const parts = splits.map(({ split, turns }) => ({ split, chats: chatsOf(turns, leftOut) }));
    const all = parts.flatMap(({ chats }) => chats);
    const shapes = { prompt: MESSAGES, completion: MESSAGES, ...toolsShape(all), ...ID_SHAPES };
    return parts.map(({ split, chats }) => ({
      name: `${split}.parquet`,
      kind: 'parquet',
      split,
      shapes,
      rows: chats.map(({ prompt, answer, tools, episode_id, step_id }) => ({
        prompt: prompt.map(trlMessage),
        completion: [trlMessage(answer)],
        tools,
        episode_id,
        step_id,
      })),
    }));
  },
};
