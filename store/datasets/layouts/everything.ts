/** All that is known of each turn, with messages as lists of structs: for programs of one's own. */
import type { Layout } from './layout.ts';
import { answerText } from './prompts.ts';
import { ID_SHAPES, MESSAGES, TRL_HOLDS, toolsShape, trlMessage, weightShape } from './trl-message.ts';
import { chatsOf } from './turn.ts';

export const everything: Layout = {
  name: 'everything',
  about: 'every turn with nested messages, tools, tokens, rewards and ids, for programs of your own',
  refuses: { pair: 'its rows do not say which answers belong together; take a layout of preferences' },
  holds: new Set([
    ...TRL_HOLDS,
    ...(['tool definitions', 'token ids', 'log-probabilities', 'reward', 'advantage', 'ground truth'] as const),
    ...(['weight', 'step ids'] as const),
  ]),
  files(splits, { leftOut }) {
    const parts = splits.map(({ split, turns }) => ({ split, chats: chatsOf(turns, leftOut, 'marked') }));
    const all = parts.flatMap(({ chats }) => chats);
    const shapes = {
      ...({ ...ID_SHAPES, call_id: 'text', task_id: 'text', group_id: 'text', agent: 'text', role: 'text' } as const),
      prompt: MESSAGES,
      completion: MESSAGES,
      ...toolsShape(all),
      ...({ ground_truth: 'text', reward: 'number', advantage: 'number' } as const),
      ...weightShape(all),
      ...({ prompt_token_ids: { list: 'int' }, completion_token_ids: { list: 'int' } } as const),
      ...({ logprobs: { list: 'number' }, loss_mask: { list: 'int' }, cut: 'bool' } as const),
    };
    return parts.map(({ split, chats }) => ({
      name: `${split}.parquet`,
      kind: 'parquet',
      split,
      shapes,
      rows: chats.map((turn) => ({
        ...turn,
        prompt: turn.prompt.map(trlMessage),
        completion: [trlMessage(turn.answer)],
        ground_truth: answerText(turn),
        prompt_token_ids: turn.tokens?.prompt,
        completion_token_ids: turn.tokens?.answer,
        logprobs: turn.tokens?.logprobs,
        loss_mask: turn.tokens?.mask,
      })),
    }));
  },
};
