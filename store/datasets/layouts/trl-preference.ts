/** TRL, DPOTrainer and RewardTrainer: pairs with an explicit prompt, all three as messages. */
import type { Layout } from './layout.ts';
import { NO_PAIR, pairsOf, unpaired } from './pairs.ts';
import { MESSAGES, TRL_HOLDS, toolsShape, trlMessage } from './trl-message.ts';
import { chatsOf } from './turn.ts';

export const trlPreference: Layout = {
  name: 'trl-preference',
  about: 'TRL DPOTrainer: prompt, chosen and rejected as messages, with tools',
  holds: new Set([...TRL_HOLDS, 'tool definitions', 'step ids']),
  files(splits, { leftOut }) {
    const parts = splits.map(({ split, turns }) => {
      const chats = chatsOf(turns, leftOut);
      const pairs = pairsOf(chats);
      leftOut.add(NO_PAIR, unpaired(chats, pairs));
      return { split, pairs };
    });
    const all = parts.flatMap(({ pairs }) => pairs);
    const shapes = {
      prompt: MESSAGES,
      chosen: MESSAGES,
      rejected: MESSAGES,
      ...toolsShape(all.map(({ chosen }) => chosen)),
      ...({ chosen_episode_id: 'text', chosen_step_id: 'text' } as const),
      ...({ rejected_episode_id: 'text', rejected_step_id: 'text' } as const),
    };
    return parts.map(({ split, pairs }) => ({
      name: `${split}.parquet`,
      kind: 'parquet',
      split,
      shapes,
      rows: pairs.map(({ chosen, rejected }) => ({
        prompt: chosen.prompt.map(trlMessage),
        chosen: [trlMessage(chosen.answer)],
        rejected: [trlMessage(rejected.answer)],
        tools: chosen.tools,
        chosen_episode_id: chosen.episode_id,
        chosen_step_id: chosen.step_id,
        rejected_episode_id: rejected.episode_id,
        rejected_step_id: rejected.step_id,
      })),
    }));
  },
};
