/** Axolotl, `chat_template` datasets: whole conversations, each message marked as learnt or not, and the part of its configuration. */
import type { SplitName } from '../columns.ts';
import { type Conversation, conversationsOf } from './conversations.ts';
import { type Layout, type LayoutFile, LEARNS_ALL } from './layout.ts';
import { argumentsOf } from './message.ts';
import { OPENAI_HOLDS, thinkingMessage } from './openai-message.ts';
import { chatsOf } from './turn.ts';

export const axolotl: Layout = {
  name: 'axolotl',
  about:
    'Axolotl chat_template: messages marked as learnt or not, tools as JSON text, and axolotl.yaml with its datasets',
  refuses: LEARNS_ALL,
  holds: new Set([...OPENAI_HOLDS, 'reasoning']),
  files(splits, { leftOut }) {
    const files = splits.map(({ split, turns }): LayoutFile & { kind: 'lines' } => {
      const talks = conversationsOf(chatsOf(turns, leftOut), 'apart').filter((talk) => {
        const isRead = canBeRead(talk);
        if (!isRead)
          leftOut.add('the arguments of a call are no JSON object, at which Axolotl ends', talk.learnt.length);
        return isRead;
      });
      const rows = talks.map(({ messages, learnt, last }) => ({
        messages: messages.map((message, i) => ({ ...thinkingMessage(message), train: learnt.includes(i) })),
        ...(last.tools === null ? {} : { tools: JSON.stringify(last.tools) }),
      }));
      return { name: `${split}.jsonl`, kind: 'lines', split, rows };
    });
    const filled = files.filter(({ rows }) => rows.length > 0).map(({ split }) => split);
    return [...files, { name: 'axolotl.yaml', kind: 'text', text: configuration(filled) }];
  },
};

/** Axolotl parses the arguments of every call. */
const canBeRead = ({ messages }: Conversation): boolean =>
  messages.every(({ calls }) => calls.every((call) => argumentsOf(call) !== null));

/** It tests while it trains, so never on the part for the last comparison. */
const configuration = (splits: readonly SplitName[]): string =>
  splits
    .filter((split) => split !== 'test')
    .map((split) => `${split === 'train' ? 'datasets' : 'test_datasets'}:\n${entry(split)}`)
    .join('');

const entry = (split: SplitName): string => `  - path: ${split}.jsonl
    ds_type: json
    type: chat_template
    field_messages: messages
    roles_to_train: []
    train_on_eos: turn
    message_field_training: train
`;
