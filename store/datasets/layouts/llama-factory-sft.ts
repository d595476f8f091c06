/** LLaMA-Factory, supervised learning: whole conversations in the ShareGPT format; every answer is learnt. */
import { conversationsOf, countUnlearnt } from './conversations.ts';
import { type Layout, type LayoutFile, LEARNS_ALL } from './layout.ts';
import { datasetInfo, NOT_IN_TURNS, sharegptOf } from './sharegpt-message.ts';
import { chatsOf } from './turn.ts';

export const llamaFactorySft: Layout = {
  name: 'llama-factory-sft',
  about: 'LLaMA-Factory SFT: ShareGPT conversations with system and tools, and dataset_info.json',
  refuses: LEARNS_ALL,
  holds: new Set(['reasoning', 'tool calls', 'tool definitions']),
  files(splits, { name, leftOut, notHeld }) {
    const files = splits.map(({ split, turns }): LayoutFile & { kind: 'lines' } => {
      const talks = conversationsOf(chatsOf(turns, leftOut));
      const rows = talks.flatMap((talk) => {
        const conversation = sharegptOf(talk.messages, notHeld);
        if (conversation === null) leftOut.add(NOT_IN_TURNS, talk.learnt.length);
        else countUnlearnt([talk], notHeld);
        const tools = talk.last.tools === null ? '' : JSON.stringify(talk.last.tools);
        return conversation === null ? [] : [{ ...conversation, tools }];
      });
      return { name: `${split}.jsonl`, kind: 'lines', split, rows };
    });
    return [...files, { name: 'dataset_info.json', kind: 'text', text: datasetInfo(name, files) }];
  },
};
