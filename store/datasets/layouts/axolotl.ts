/** Axolotl, `chat_template` datasets: whole conversations, each message marked as learnt or not, and the part of its configuration. */
import { conversationsOf } from './conversations.ts';
import { type Layout, type LayoutFile, type LayoutSplit, LEARNS_ALL } from './layout.ts';
import { OPENAI_HOLDS, openaiMessage } from './openai-message.ts';
import { chatsOf } from './turn.ts';

export const axolotl: Layout = {
  name: 'axolotl',
  about: 'Axolotl chat_template: messages marked as learnt or not, tools, and axolotl.yaml with its datasets',
  refuses: LEARNS_ALL,
  holds: new Set(OPENAI_HOLDS),
  files(splits, { leftOut }) {
    const files = splits.map(({ split, turns }): LayoutFile & { kind: 'lines' } => ({
      name: `${split}.jsonl`,
      kind: 'lines',
      split,
      rows: conversationsOf(chatsOf(turns, leftOut)).map(({ messages, learnt, last }) => ({
        messages: messages.map((message, i) => ({ ...openaiMessage(message), train: learnt.includes(i) })),
        ...(last.tools === null ? {} : { tools: last.tools }),
      })),
    }));
    const filled = files.filter(({ rows }) => rows.length > 0).map(({ split }) => split);
    return [...files, { name: 'axolotl.yaml', kind: 'text', text: configuration(filled) }];
  },
};

const configuration = (splits: readonly LayoutSplit[]): string =>
  splits
    .filter((split) => split === 'train' || split === 'test')
    .map((split) => `${split === 'train' ? 'datasets' : 'test_datasets'}:\n${entry(split)}`)
    .join('');

const entry = (split: LayoutSplit): string => `  - path: ${split}.jsonl
    ds_type: json
    type: chat_template
    field_messages: messages
    roles_to_train: []
    train_on_eos: turn
    message_field_training: train
`;
