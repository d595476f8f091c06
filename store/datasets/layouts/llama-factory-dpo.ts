/** LLaMA-Factory, preferences: a conversation in the ShareGPT format and two answers to it. */
import type { Layout, LayoutFile } from './layout.ts';
import { NO_PAIR, pairsOf, unpaired } from './pairs.ts';
import { datasetInfo, NOT_IN_TURNS, sharegptMessage, sharegptOf } from './sharegpt-message.ts';
import { chatsOf } from './turn.ts';

export const llamaFactoryDpo: Layout = {
  name: 'llama-factory-dpo',
  about: 'LLaMA-Factory preferences: ShareGPT conversations with chosen and rejected, and dataset_info.json',
  holds: new Set(['reasoning', 'tool calls', 'tool definitions']),
  files(splits, { name, leftOut, notHeld }) {
    const files = splits.map(({ split, turns }): LayoutFile & { kind: 'lines' } => {
      const chats = chatsOf(turns, leftOut);
      const pairs = pairsOf(chats);
      leftOut.add(NO_PAIR, unpaired(chats, pairs));
      const rows = pairs.flatMap(({ chosen, rejected }) => {
        // An answer follows, so an input must come last.
        const conversation = sharegptOf(chosen.prompt, notHeld);
        if (conversation === null || conversation.conversations.length % 2 === 0) {
          leftOut.add(NOT_IN_TURNS, 2);
          return [];
        }
        const answers = {
          chosen: sharegptMessage(chosen.answer, notHeld),
          rejected: sharegptMessage(rejected.answer, notHeld),
        };
        return [{ ...conversation, ...answers, tools: chosen.tools === null ? '' : JSON.stringify(chosen.tools) }];
      });
      return { name: `${split}.jsonl`, kind: 'lines', split, rows };
    });
    const more = { ranking: true, columns: { chosen: 'chosen', rejected: 'rejected' } };
    return [...files, { name: 'dataset_info.json', kind: 'text', text: datasetInfo(name, files, more) }];
  },
};
