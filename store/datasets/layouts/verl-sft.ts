/** verl, multi-turn supervised learning: whole conversations, in which every answer is learnt. Its columns have one type for all rows. */
import type { Shapes, ValueShape } from '../shape.ts';
import { type Conversation, conversationsOf, countUnlearnt } from './conversations.ts';
import type { Counter } from './counter.ts';
import { exactShape } from './json-shape.ts';
import { type Layout, type LayoutFile, LEARNS_ALL } from './layout.ts';
import { MESSAGES, TRL_HOLDS, trlMessage } from './trl-message.ts';
import { chatsOf } from './turn.ts';
import { VERL_CLASS, VERL_CLASS_FILE } from './verl-class.ts';

export const verlSft: Layout = {
  name: 'verl-sft',
  about: `verl multi-turn SFT: whole conversations as messages, with tools; every answer is learnt; what differs from row to row is JSON, which ${VERL_CLASS_FILE} reads`,
  refuses: LEARNS_ALL,
  holds: new Set([...TRL_HOLDS, 'tool definitions']),
  files(splits, { leftOut, notHeld }) {
    const parts = splits.map(({ split, turns }) => ({ split, talks: conversationsOf(chatsOf(turns, leftOut)) }));
    const all = parts.flatMap(({ talks }) => talks);
    countUnlearnt(all, notHeld);
    const messages = messagesColumn(all);
    const tools = toolsColumn(all, notHeld);
    const files = parts.map(
      ({ split, talks }): LayoutFile => ({
        name: `${split}.parquet`,
        kind: 'parquet',
        split,
        shapes: { messages, ...tools.shapes },
        rows: talks.map((talk) => ({
          messages: talk.messages.map(trlMessage),
          ...tools.cells(talk),
        })),
      }),
    );
    const needsClass = messages === MESSAGES || 'tools_json' in tools.shapes;
    return needsClass ? [...files, { name: VERL_CLASS_FILE, kind: 'text', text: VERL_CLASS }] : files;
  },
};

/**
 * Messages as values where one type holds all of them, and else as JSON: verl would give each the members of all others, as null, and a template
 * that asks whether a message has calls would find them in each.
 */
function messagesColumn(talks: readonly Conversation[]): ValueShape {
  const shape = exactShape(talks.flatMap(({ messages }) => messages.map(trlMessage)));
  return shape === null ? MESSAGES : { list: shape };
}

type ToolsColumn = {
  readonly shapes: Shapes;
  readonly cells: (talk: Conversation) => Readonly<Record<string, unknown>>;
};

/**
 * The definitions as values where one type holds all of them, and else as JSON text: verl would give each the members of all others, as null,
 * and its template would write these into the prompt. Conversations without tools have an empty list, since verl takes a null for a list.
 */
function toolsColumn(talks: readonly Conversation[], notHeld: Counter): ToolsColumn {
  const all = talks.flatMap(({ last }) => last.tools ?? []);
  if (all.length === 0) return { shapes: {}, cells: () => ({}) };
  const shape = exactShape(all);
  if (shape !== null) return { shapes: { tools: { list: shape } }, cells: ({ last }) => ({ tools: last.tools ?? [] }) };
  const rows = talks.reduce((sum, { last, learnt }) => sum + (last.tools === null ? 0 : learnt.length), 0);
  notHeld.add(
    `definitions of tools as values: their members differ, so they are text, which ${VERL_CLASS_FILE} reads`,
    rows,
  );
  return { shapes: { tools_json: 'text' }, cells: ({ last }) => ({ tools_json: JSON.stringify(last.tools ?? []) }) };
}
